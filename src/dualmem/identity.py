"""Deterministic ids: the same turn or memory, stored again, is the same point."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from dualmem.records import Message
from dualmem.retrieval.text import normalise

_NAMESPACE = uuid.UUID("6f1c64a6-6f0f-5d0e-9a57-0d9f4b9f8f4e")


def stable_id(*parts: str) -> str:
    """Return a UUID made from `parts`; where one part ends and the next begins counts."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(f"{len(part)}:{part}" for part in parts)))


def turn_ids(user_id: str, conversation_id: str, messages: Sequence[Message]) -> list[str]:
    """Return the turn id of each message, in order.

    A message is known by the id its source gave it. Without one it is known by what was said, by whom and when;
    where the same words come again, by how often they came before in this list.
    """
    seen: dict[str, int] = {}
    ids = []
    for message in messages:
        if message.id:
            key = f"id:{message.id}"
        else:
            said = message.timestamp.isoformat() if message.timestamp else ""
            key = f"said:{message.role}:{message.name or ''}:{said}:{message.session or ''}:{message.content}"
        count = seen.get(key, 0)
        seen[key] = count + 1
        ids.append(stable_id("turn", user_id, conversation_id, key, str(count)))
    return ids


def memory_id(user_id: str, text: str, sources: Iterable[str]) -> str:
    """Return the id of the memory that says `text` and comes from the turns `sources`."""
    return stable_id("memory", user_id, normalise(text), *sorted(set(sources)))
