"""Judge whether sampled answers mean the same (D-Mem, majority and consensus policies)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel

from dualmem.chat import Prompt
from dualmem.prompting import DATA_RULE, chat, fence, list_of, one_of, schema_of, text_field

SYSTEM: Final = f"""You compare answers that were given to one question, and say which of them mean the same.
- The same date in another format is the same. A list in another order is the same; a list with an item missing \
is not. Wording does not matter, content does.
- reason: what they agree or differ in, in a few words.
- agree: the numbers of the largest group that means the same; an empty list if no two do.
- best: of that group the clearest answer, without filler; the shortest on a tie. 0 if there is no group.
{DATA_RULE}"""


class AgreementReply(BaseModel):
    """The largest group of equal answers, by number from 1, and the best of it."""

    reason: str = ""
    agree: list[int]
    best: int


def render(
    answers: Sequence[str], question: str, *, policy: Literal["majority", "consensus"]
) -> Prompt[AgreementReply]:
    """Ask which of `answers` agree."""
    numbers = list(range(1, len(answers) + 1))
    lines = [f"[{number}] {' '.join(answer.split())}" for number, answer in zip(numbers, answers, strict=True)]
    user = f"{fence('answers', lines)}\n\nCompare them, as JSON.\n\nQuestion: {question}"
    return Prompt(
        step=f"gate.{policy}",
        messages=chat(SYSTEM, user),
        output=AgreementReply,
        schema=schema_of(
            {
                "reason": text_field(160),
                "agree": list_of(one_of(numbers), len(numbers)),
                "best": one_of([0, *numbers]),
            }
        ),
    )
