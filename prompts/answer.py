"""Answer from evidence, with citations, or say that it holds no answer (D-Mem, query; MemoryLACE, stage II, 4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, field_validator

from dualmem.chat import Prompt
from dualmem.prompting import list_of, one_of, schema_of, text_field
from dualmem.prompts.evidence import messages

AnswerStyle = Literal["conversational", "short"]

_TASK: Final = """Task: answer the question from the evidence alone.
- cites: the labels of the lines that the answer rests on; an empty list if no line answers the question.
- found: true if the evidence answers the question, else false.
- answer: {style}
Give dates as dates, not as "yesterday". Give past states as past. If conflicting lines answer it, give both \
sides and ask which is right. Answer in the language of the question.{standing}"""

_STYLES: Final[dict[str, str]] = {
    "conversational": "one or two plain sentences; if found is false, say that you do not know it.",
    "short": "only the answer itself, five or six words at most, without a sentence around it; if found is false, "
    '"NONE".',
}


class AnswerReply(BaseModel):
    """The answer as the model wrote it."""

    cites: list[str] = []
    found: bool
    answer: str = Field(min_length=1)

    @field_validator("cites", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        """Take one label for a list, and labels in brackets."""
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [str(item).strip("[] ") for item in items]


def render(
    evidence: str,
    question: str,
    *,
    labels: Sequence[str],
    asked_at: datetime | None = None,
    style: AnswerStyle = "conversational",
    standing: Sequence[str] = (),
    step: str = "answer",
) -> Prompt[AnswerReply]:
    """Ask for the answer to `question`.

    Args:
        evidence: The evidence block.
        question: As asked.
        labels: The labels that can be cited.
        asked_at: When it is asked, for "now" and "last month" in the question.
        style: `short` is what the benchmarks score.
        standing: The user's standing instructions about answers.
        step: The step the call is counted under.
    """
    wishes = "".join(f"\nThe user's standing wish: {wish}" for wish in standing)
    task = _TASK.format(style=_STYLES[style], standing=wishes)
    cites: dict[str, Any] = list_of(one_of(labels), min(8, len(labels))) if labels else list_of(text_field(8), 0)
    return Prompt(
        step=step,
        messages=messages(evidence, task, question, asked_at),
        output=AnswerReply,
        schema=schema_of({"cites": cites, "found": {"type": "boolean"}, "answer": text_field(600)}),
    )
