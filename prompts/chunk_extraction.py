"""Read a chunk of the raw history for facts that help answer one question (D-Mem, full deliberation, step 1).

The chunk comes before the question, so that its part of the prompt is the same for every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, get_args

from pydantic import BaseModel, Field, field_validator, model_validator

from dualmem.chat import Prompt
from dualmem.prompting import (
    DATA_RULE,
    chat,
    fence,
    keep_valid,
    list_of,
    one_of,
    schema_of,
    text_field,
    turn_lines,
)
from dualmem.prompts.evidence import question_part
from dualmem.records import RecordKind, Turn

SYSTEM: Final = f"""You read a part of a long conversation and collect the facts in it that help to answer one \
question.

For each fact:
- turns: the numbers of the turns that say it.
- fact: one statement that is clear without the conversation: names instead of "I" or "he", and the date instead \
of "yesterday", counted from the date above the turn.
- score: how much it helps, 0 to 10: 5 or 6 somewhat, 7 or 8 clearly, 9 or 10 it is needed.

Leave out facts below {{least:g}}. Most parts of a conversation say nothing about a question; then the list is empty.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<conversation>
-- 3 March 2024, 10:15 --
[1] Priya: Sorry I was quiet, we had the kitchen painted.
[2] Tom: No worries! Which colour?
[3] Priya: Green. And yesterday I signed up for the pottery course.
[4] Tom: Nice, I went running.
</conversation>

Collect the facts that help to answer the question, as JSON.

Question: When did Priya sign up for pottery?""",
    '{"facts": [{"turns": [3], "fact": "Priya signed up for the pottery course on 2 March 2024.", "score": 10}]}',
)


KINDS: Final[tuple[str, ...]] = get_args(RecordKind)

LEDGER: Final = """The question needs all of something, to count or to add up. Give one fact for every single item \
that counts, small ones too, each with its entry:
- kind: "payment" (someone pays for others), "refund" (someone gets money back for others), "transfer" (someone gives \
money to someone), "debt" (someone owes money), \
"amount" (any other number of something), "event", "opinion", "birth", "age".
- who: who paid, owes, did it, thinks so, or is that old.
- what: what it is about, in one to three words, the same words for the same thing.
- others: for a payment or refund the names of everyone who shares it, the payer too if they do, or only "all"; for a \
transfer or debt who gets it; else empty.
- amount: the number as it stands in the turn, never one that you worked out; else "".
- unit: its currency or unit, else "".
- each: true if the amount is for each of them ("15 each"), false if it is for all together.
- value: for an opinion "positive", "negative" or "mixed", else "".
- date: when it happened, in the words of the turn, else "".
Something that is only mentioned again is no new item."""


class ChunkFact(BaseModel):
    """One fact as the model wrote it; the fields after `score` are its entry in the ledger."""

    turns: list[int]
    fact: str = Field(min_length=1)
    score: float = Field(ge=0, le=10)
    kind: str = ""
    who: str = ""
    what: str = ""
    others: list[str] = []
    amount: str = ""
    unit: str = ""
    each: bool = False
    value: str = ""
    date: str = ""

    @field_validator("turns", mode="before")
    @classmethod
    def _one_turn_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("others", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Take one name for a list."""
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [str(item).strip() for item in items if str(item).strip()]

    @field_validator("each", mode="before")
    @classmethod
    def _flag(cls, value: Any) -> Any:
        return False if value in (None, "") else value

    @field_validator("kind", "who", "what", "amount", "unit", "value", "date", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        """Take a number for its text, and nothing for no text."""
        return "" if value is None else str(value).strip()


class ChunkReply(BaseModel):
    """All facts of a chunk."""

    facts: list[ChunkFact]
    malformed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _keep_valid(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "facts" not in value:
            return value
        kept, malformed = keep_valid(value["facts"], ChunkFact)
        return {"facts": kept, "malformed": malformed}


def render(
    earlier: Sequence[Turn],
    turns: Sequence[Turn],
    question: str,
    *,
    least: float,
    asked_at: datetime | None = None,
    missing: str = "",
    ledger: bool = False,
) -> Prompt[ChunkReply]:
    """Ask for the facts of a chunk.

    Args:
        earlier: Turns before the chunk, as context only; they cannot be cited.
        turns: The chunk.
        question: As asked.
        least: Least score of a fact that is returned.
        asked_at: When it is asked.
        missing: What an earlier answer lacked.
        ledger: Ask for an entry with each fact. The task changes, and nothing before it.
    """
    parts = []
    if earlier:
        parts.append(fence("earlier", turn_lines(earlier, first=None)))
    parts.append(fence("conversation", turn_lines(turns)))
    if ledger:
        parts.append(LEDGER)
    parts.append("Collect the facts that help to answer the question, as JSON.")
    asked = question_part(question, asked_at)
    parts.append(f"{asked}\nLook for: {missing}" if missing else asked)
    fields: dict[str, Any] = {
        "turns": list_of(one_of(list(range(1, len(turns) + 1))), 4, least=1),
        "fact": text_field(240),
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
    }
    if ledger:
        fields |= {
            "kind": one_of(KINDS),
            "who": text_field(40),
            "what": text_field(60),
            "others": list_of(text_field(40), 12),
            "amount": text_field(24),
            "unit": text_field(20),
            "each": {"type": "boolean"},
            "value": text_field(20),
            "date": text_field(40),
        }
    item = schema_of(fields)
    most = 2 * len(turns) if ledger else min(20, 2 * len(turns))
    return Prompt(
        step="deliberate.extract",
        messages=chat(SYSTEM.format(least=least), "\n\n".join(parts), example=EXAMPLE),
        output=ChunkReply,
        schema=schema_of({"facts": list_of(item, most)}),
    )
