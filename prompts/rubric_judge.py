"""Score an answer on one item of a rubric: 0, 0.5 or 1 (BEAM's protocol, in our words)."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, field_validator

from dualmem.chat import Prompt
from dualmem.prompting import DATA_RULE, chat, fence, schema_of, text_field

SCORES: Final = (0.0, 0.5, 1.0)

SYSTEM: Final = f"""You check whether an answer meets one requirement. Other requirements are checked elsewhere.
- 1: the answer meets the requirement in full. Wording does not matter; a number, a date or a name must be the same.
- 0.5: it meets a part of it, or only hints at it.
- 0: it does not, or says the opposite.
- Where the requirement is that the information does not exist, an answer that says so or declines meets it.
- Judge by the requirement alone, not by what you know of the matter.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<question>
Which parts of the kitchen did Priya have done, and when?
</question>

<requirement>
The answer should state: the walls were painted green in March
</requirement>

<answer>
She had the walls painted green.
</answer>

Check the requirement, as JSON.""",
    '{"reason": "The paint is there, the month is not.", "score": 0.5}',
)


class RubricReply(BaseModel):
    """The score of one item."""

    reason: str = ""
    score: float

    @field_validator("score", mode="after")
    @classmethod
    def _one_of_three(cls, value: float) -> float:
        if value not in SCORES:
            message = f"score must be 0, 0.5 or 1, not {value:g}"
            raise ValueError(message)
        return value


def render(question: str, item: str, answer: str) -> Prompt[RubricReply]:
    """Ask whether `answer` meets the rubric's `item`."""
    parts = (
        fence("question", [question]),
        fence("requirement", [item]),
        fence("answer", [answer or "(no answer)"]),
        "Check the requirement, as JSON.",
    )
    score: dict[str, Any] = {"type": "number", "enum": list(SCORES)}
    return Prompt(
        step="rubric_judge",
        messages=chat(SYSTEM, "\n\n".join(parts), example=EXAMPLE),
        output=RubricReply,
        schema=schema_of({"reason": text_field(240), "score": score}),
    )
