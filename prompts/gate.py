"""Grade an answer against the evidence it was given (D-Mem, quality gate)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import BaseModel

from dualmem.chat import Prompt
from dualmem.prompting import fence, schema_of, text_field
from dualmem.prompts.evidence import messages

_TASK: Final = """Task: grade an answer that was given to the question. Do not answer it yourself.
- reason: what the evidence says about the question, and whether the answer agrees, in one sentence.
- relevant: true if the answer is about what was asked. An answer that says information is missing is false.
- faithful: true if every claim of the answer is in the evidence and the latest line agrees. Do not judge \
arithmetic.
- complete: true if no detail that was asked for is missing. "I don't know" is false. If the evidence itself is \
vague and the answer says so, true.
- missing: what is missing, in a few words ("the exact date", "the amount", "the other side"), else "".
{answer}"""


class GateReply(BaseModel):
    """The grades. None has a default: a grade that was not given never passes."""

    reason: str = ""
    relevant: bool
    faithful: bool
    complete: bool
    missing: str = ""


def render(
    evidence: str, question: str, answer: str, *, asked_at: datetime | None = None, step: str = "gate"
) -> Prompt[GateReply]:
    """Ask for the grades of `answer`; the prompt shares its beginning with the answer's prompt."""
    task = _TASK.format(answer=fence("answer", [answer]))
    boolean = {"type": "boolean"}
    return Prompt(
        step=step,
        messages=messages(evidence, task, question, asked_at),
        output=GateReply,
        schema=schema_of(
            {
                "reason": text_field(240),
                "relevant": boolean,
                "faithful": boolean,
                "complete": boolean,
                "missing": text_field(80),
            }
        ),
    )
