"""Judge an answer against the reference: CORRECT or WRONG (the protocol of LoCoMo's users, in our words)."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, field_validator

from dualmem.chat import Prompt
from dualmem.prompting import DATA_RULE, chat, fence, one_of, schema_of, text_field

SYSTEM: Final = f"""You check answers of a memory system against reference answers. Be generous: what counts is \
whether the answer says what the reference says.
- CORRECT: the answer holds the content of the reference, in any wording, and may say more. A date or a time span is \
right if it means the same time, in whatever form ("7 May 2023" and "the day before 8 May 2023").
- WRONG: the answer lacks what the reference says, contradicts it, names another date, person or thing, or does not \
know.
- Where the reference says that the information does not exist, CORRECT is an answer that says so or declines.
- Judge by the reference alone, not by what you know.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<question>
When did Priya sign up for pottery?
</question>

<reference>
2 March 2024
</reference>

<answer>
She signed up on March 2nd, 2024, together with Tom.
</answer>

Judge the answer, as JSON.""",
    '{"reason": "It is the same date in another form.", "verdict": "CORRECT"}',
)


class JudgeReply(BaseModel):
    """The judgement."""

    reason: str = ""
    verdict: Literal["CORRECT", "WRONG"]

    @field_validator("verdict", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value


def render(question: str, target: str, answer: str) -> Prompt[JudgeReply]:
    """Ask whether `answer` says what `target` says."""
    parts = (
        fence("question", [question]),
        fence("reference", [target]),
        fence("answer", [answer or "(no answer)"]),
        "Judge the answer, as JSON.",
    )
    return Prompt(
        step="judge",
        messages=chat(SYSTEM, "\n\n".join(parts), example=EXAMPLE),
        output=JudgeReply,
        schema=schema_of({"reason": text_field(240), "verdict": one_of(["CORRECT", "WRONG"])}),
    )
