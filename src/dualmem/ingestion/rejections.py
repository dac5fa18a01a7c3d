"""Keep what was refused of a model's drafts, so that a person can see what was lost and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dualmem.cleaning import clean_text
from dualmem.identity import stable_id
from dualmem.prompts.extraction import ExtractedMemory
from dualmem.records import Rejection, Turn
from dualmem.stores.store import Store

MALFORMED: Final = "malformed"

MOST_KEPT: Final = 100
"""Rejections kept of a conversation; the oldest go first."""

_LONGEST = 500
"""Characters kept of a text or quote: what a model writes has no bound of its own."""


def rejection_of(
    item: ExtractedMemory | object, reason: str, shown: Sequence[Turn], *, known: Iterable[str] = ()
) -> Rejection:
    """Return the record of a draft that was refused.

    Args:
        item: What the model wrote: a memory, or any value where it was malformed. It cites turns by number, from 1.
        reason: Why it is refused.
        shown: The turns the model was shown, in order of their numbers.
        known: The turns of the memories that it was shown, too.
    """
    fields = _fields(item)
    text, quote = _short(fields.get("text")), _short(fields.get("quote"))
    if not text:
        text = _short(json.dumps(item, default=str)) if not isinstance(item, ExtractedMemory) else ""
    cited = fields.get("turns")
    places = [number - 1 for number in (cited if isinstance(cited, list) else [cited]) if type(number) is int]
    turn_ids = tuple(dict.fromkeys(shown[place].id for place in places if 0 <= place < len(shown)))
    read = shown[-1]
    return Rejection(
        id=stable_id("rejection", read.user_id, read.conversation_id, reason, text, quote, *turn_ids),
        user_id=read.user_id,
        conversation_id=read.conversation_id,
        turn_ids=turn_ids,
        shown_turn_ids=tuple(dict.fromkeys([*known, *(turn.id for turn in shown)])),
        text=text,
        quote=quote,
        reason=reason,
        rejected_at=datetime.now(UTC),
    )


def _fields(item: object) -> dict[str, Any]:
    if isinstance(item, ExtractedMemory):
        return item.model_dump(include={"turns", "text", "quote"})
    return item if isinstance(item, dict) else {}


def _short(value: object) -> str:
    if not isinstance(value, str):
        return ""
    text = clean_text(" ".join(value.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} …"


async def to_keep(rejections: Sequence[Rejection], store: Store) -> tuple[tuple[Rejection, ...], tuple[str, ...]]:
    """Return which of one conversation's new rejections are to be stored, and the ids of those that go for them.

    What a model wrote with turns before it that were forgotten meanwhile is not kept. To be called by the user's
    writer.
    """
    if not rejections:
        return (), ()
    shown = dict.fromkeys(turn_id for one in rejections for turn_id in one.shown_turn_ids)
    there = await store.known_turns(list(shown))
    one = rejections[0]
    stored = {old.id: old for old in await store.rejections(one.user_id, one.conversation_id)}
    fresh = {
        new.id: new for new in rejections if new.id not in stored and all(key in there for key in new.shown_turn_ids)
    }
    room = [*stored, *fresh][-MOST_KEPT:]
    return tuple(fresh[key] for key in room if key in fresh), tuple(key for key in stored if key not in room)


def touching(rejections: Iterable[Rejection], turn_ids: Iterable[str]) -> list[str]:
    """Return the ids of those that may hold words of `turn_ids`."""
    sought = set(turn_ids)
    return [one.id for one in rejections if sought & set(one.shown_turn_ids)]
