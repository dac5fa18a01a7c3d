"""Extract atomic memories from a window of turns (MemoryLACE, stage I, step 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, Field, field_validator, model_validator

from dualmem.chat import Prompt
from dualmem.prompting import (
    DATA_RULE,
    chat,
    fence,
    list_of,
    one_of,
    part_valid,
    schema_of,
    text_field,
    turn_lines,
)
from dualmem.records import Kind, Turn

KINDS: Final[tuple[str, ...]] = get_args(Kind)

SYSTEM: Final = f"""You write down what is worth remembering from a conversation.

For each thing that may matter weeks later, write one memory:
- turns: the numbers of the turns that say it.
- quote: the words of the turn that show it, copied exactly.
- text: one statement that is clear without the conversation. Use names, not "I", "he" or "it". Keep names, \
numbers, places and other details. Keep the language of the conversation.
- kind: fact, preference, plan, correction, decision, event or state (a state is true until it changes: home, job).
- subject: the person or thing it is about. attribute: what about it, in one or two words ("home", "job").
- when: the words of the turn that say when it happens or happened ("yesterday", "in May 2023"), else "".
- topic: one or two words. entities: names of people, places and things in it.
- standing: true only for a wish about how to be answered from now on.

Write what people say of themselves and their lives. A question, a greeting or thanks is not a memory. What \
somebody suggests to another is not what the other did. An empty list is right when nothing matters.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<conversation>
-- 3 March 2024, 10:15 --
[1] Priya: Morning! I left the bank last week, I'm a pastry cook at Lune now.
[2] Tom: Congratulations! You should visit the night market.
[3] Priya: Thanks! My brother Dev comes to stay in May. And please always call me Pri.
</conversation>

Write the memories of this conversation as JSON.""",
    '{"memories": ['
    '{"turns": [1], "quote": "I\'m a pastry cook at Lune now", '
    '"text": "Priya works as a pastry cook at Lune; before, she worked at a bank.", "kind": "state", '
    '"subject": "Priya", "attribute": "job", "when": "last week", "topic": "work", "entities": ["Lune"], '
    '"standing": false}, '
    '{"turns": [3], "quote": "My brother Dev comes to stay in May", '
    '"text": "Priya\'s brother Dev will come to stay with her in May.", "kind": "plan", "subject": "Priya", '
    '"attribute": "visitor", "when": "in May", "topic": "family", "entities": ["Dev"], "standing": false}, '
    '{"turns": [3], "quote": "please always call me Pri", "text": "Priya wants to be called Pri.", '
    '"kind": "preference", "subject": "Priya", "attribute": "nickname", "when": "", "topic": "name", '
    '"entities": ["Pri"], "standing": true}]}',
)


class ExtractedMemory(BaseModel):
    """One memory as the model wrote it."""

    turns: list[int]
    quote: str = ""
    text: str = Field(min_length=1)
    kind: Kind = "fact"
    subject: str = ""
    attribute: str = ""
    when: str = ""
    topic: str = ""
    entities: list[str] = []
    standing: bool = False

    @field_validator("turns", mode="before")
    @classmethod
    def _one_turn_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("kind", mode="before")
    @classmethod
    def _known_kind(cls, value: Any) -> Any:
        """Take an odd-case or list-valued kind; an unknown one is a fact."""
        if isinstance(value, list):
            value = value[0] if value else "fact"
        name = str(value).strip().lower()
        return name if name in KINDS else "fact"

    @field_validator("entities", mode="before")
    @classmethod
    def _one_entity_is_a_list(cls, value: Any) -> Any:
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    @field_validator("quote", "subject", "attribute", "when", "topic", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return "" if value is None else value


class ExtractionReply(BaseModel):
    """All memories of a window."""

    memories: list[ExtractedMemory]
    malformed: int = 0
    """Items of the reply that were no memories."""
    malformed_items: list[Any] = []
    """Those items, as they came."""

    @model_validator(mode="before")
    @classmethod
    def _keep_valid(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "memories" not in value:
            return value
        kept, malformed = part_valid(value["memories"], ExtractedMemory)
        return {"memories": kept, "malformed": len(malformed), "malformed_items": malformed}


def render(earlier: Sequence[Turn], turns: Sequence[Turn], *, most: int) -> Prompt[ExtractionReply]:
    """Ask for the memories of `turns`.

    Args:
        earlier: The turns just before, shown for what "it" and "there" mean; they can be cited.
        turns: The window's own turns, in order.
        most: Most memories to return.
    """
    first = len(earlier) + 1
    parts = []
    if earlier:
        parts.append(fence("earlier", turn_lines(earlier, first=1)))
    parts.append(fence("conversation", turn_lines(turns, first=first)))
    parts.append("Write the memories of this conversation as JSON.")
    return Prompt(
        step="extract",
        messages=chat(SYSTEM, "\n\n".join(parts), example=EXAMPLE),
        output=ExtractionReply,
        schema=reply_schema(shown=len(earlier) + len(turns), most=min(most, 2 * len(turns))),
    )


def reply_schema(*, shown: int, most: int) -> dict[str, Any]:
    """Return the bounded schema of a reply about `shown` turns, with at most `most` memories."""
    item = schema_of(
        {
            "turns": list_of(one_of(list(range(1, shown + 1))), 4, least=1),
            "quote": text_field(160),
            "text": text_field(300),
            "kind": one_of(KINDS),
            "subject": text_field(60),
            "attribute": text_field(40),
            "when": text_field(60),
            "topic": text_field(40),
            "entities": list_of(text_field(40), 5),
            "standing": {"type": "boolean"},
        }
    )
    return schema_of({"memories": list_of(item, max(1, most))})
