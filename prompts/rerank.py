"""Order evidence by how much it helps to answer the question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, field_validator

from dualmem.chat import Prompt
from dualmem.prompting import list_of, one_of, schema_of
from dualmem.prompts.evidence import messages

MOST: Final = 20
"""Labels that are asked for; what comes after them stays in its order."""

_TASK: Final = """Task: order the lines by how much they help to answer the question.
- order: the labels of those that help, the most helpful first. Leave out what does not help."""


class RerankReply(BaseModel):
    """The labels, most helpful first."""

    order: list[str]

    @field_validator("order", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        return [str(item).strip("[] ") for item in value] if isinstance(value, list) else value


def render(
    evidence: str, question: str, *, labels: Sequence[str], asked_at: datetime | None = None
) -> Prompt[RerankReply]:
    """Ask for the order of `labels`."""
    return Prompt(
        step="rerank",
        messages=messages(evidence, _TASK, question, asked_at),
        output=RerankReply,
        schema=schema_of({"order": list_of(one_of(labels), min(MOST, len(labels)))}),
    )
