"""Keep only the evidence that clearly helps to answer the question (D-Mem, filter)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, field_validator

from dualmem.chat import Prompt
from dualmem.prompting import list_of, one_of, schema_of
from dualmem.prompts.evidence import messages

_TASK: Final = """Task: pick the lines that clearly help to answer the question.
- keep: their labels. Leave out what is only about the same person or topic."""


class FilterReply(BaseModel):
    """The labels to keep."""

    keep: list[str]

    @field_validator("keep", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        return [str(item).strip("[] ") for item in value] if isinstance(value, list) else value


def render(
    evidence: str, question: str, *, labels: Sequence[str], asked_at: datetime | None = None
) -> Prompt[FilterReply]:
    """Ask which of `labels` to keep."""
    return Prompt(
        step="filter",
        messages=messages(evidence, _TASK, question, asked_at),
        output=FilterReply,
        schema=schema_of({"keep": list_of(one_of(labels), len(labels))}),
    )
