"""Read a chunk of the raw history for facts that help answer one question (D-Mem, full deliberation, step 1).

The chunk comes before the question, so that its part of the prompt is the same for every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

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
from dualmem.records import Turn

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


class ChunkFact(BaseModel):
    """One fact as the model wrote it."""

    turns: list[int]
    fact: str = Field(min_length=1)
    score: float = Field(ge=0, le=10)

    @field_validator("turns", mode="before")
    @classmethod
    def _one_turn_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]


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
) -> Prompt[ChunkReply]:
    """Ask for the facts of a chunk.

    Args:
        earlier: Turns before the chunk, as context only; they cannot be cited.
        turns: The chunk.
        question: As asked.
        least: Least score of a fact that is returned.
        asked_at: When it is asked.
        missing: What an earlier answer lacked.
    """
    parts = []
    if earlier:
        parts.append(fence("earlier", turn_lines(earlier, first=None)))
    parts.append(fence("conversation", turn_lines(turns)))
    parts.append("Collect the facts that help to answer the question, as JSON.")
    asked = question_part(question, asked_at)
    parts.append(f"{asked}\nLook for: {missing}" if missing else asked)
    item = schema_of(
        {
            "turns": list_of(one_of(list(range(1, len(turns) + 1))), 4, least=1),
            "fact": text_field(240),
            "score": {"type": "integer", "minimum": 0, "maximum": 10},
        }
    )
    return Prompt(
        step="deliberate.extract",
        messages=chat(SYSTEM.format(least=least), "\n\n".join(parts), example=EXAMPLE),
        output=ChunkReply,
        schema=schema_of({"facts": list_of(item, min(20, 2 * len(turns)))}),
    )
