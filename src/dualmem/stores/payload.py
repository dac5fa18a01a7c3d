"""How turns and memories lie in a collection: their payloads, vectors and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dualmem.records import Memory, Scope, Turn
from dualmem.retrieval.text import sparse, tokens
from dualmem.stores.backend import CollectionSpec, Condition, FieldType, Filter, Payload, Sparse

TURNS: Final = "turns"
MEMORIES: Final = "memories"
CONTROL: Final = "control"

TURN_FIELDS: Final[dict[str, FieldType]] = {
    "user_id": "tenant",
    "conversation_id": "keyword",
    "state": "keyword",
    "indexed": "keyword",
    "speaker": "keyword",
    "position": "integer",
    "said_at": "float",
}
MEMORY_FIELDS: Final[dict[str, FieldType]] = {
    "user_id": "tenant",
    "conversation_id": "keyword",
    "state": "keyword",
    "kind": "keyword",
    "speaker": "keyword",
    "entity_keys": "keyword",
    "topic": "keyword",
    "relations": "keyword",
    "turn_ids": "keyword",
    "standing_key": "keyword",
    "known_at": "float",
    "retired_at": "float",
    "valid_start": "float",
    "valid_end": "float",
}
CONTROL_FIELDS: Final[dict[str, FieldType]] = {"user_id": "tenant", "what": "keyword"}

WINDOW: Final = 2
"""Turns on each side of a turn that its `window` vector covers."""

_AVERAGE_TOKENS: Final = {
    "own": 12.0,
    "pair": 24.0,
    "window": 60.0,
    "keyword": 12.0,
    "template": 8.0,
    "topic": 3.0,
}


def specs(dimension: int) -> tuple[CollectionSpec, ...]:
    """Return the collections of a store whose embedding model makes vectors of `dimension`."""
    return (
        CollectionSpec(TURNS, {"semantic": dimension}, ("own", "pair", "window"), TURN_FIELDS),
        CollectionSpec(MEMORIES, {"semantic": dimension}, ("keyword", "template", "topic"), MEMORY_FIELDS),
        CollectionSpec(CONTROL, {}, (), CONTROL_FIELDS),
    )


def entity_key(name: str) -> str:
    """Return the form under which an entity is filed and looked up."""
    return " ".join(name.casefold().split())


def turn_payload(turn: Turn) -> Payload:
    """Return what is stored of a turn; times are UTC seconds."""
    payload = turn.model_dump(exclude={"id"})
    payload["said_at"] = _seconds(turn.said_at)
    payload["recorded_at"] = turn.recorded_at.timestamp()
    payload["indexed"] = "no"
    return payload


def turn_from(turn_id: str, payload: Payload) -> Turn:
    """Return the turn a payload holds."""
    return Turn.model_validate({**payload, "id": turn_id})


def memory_payload(memory: Memory) -> Payload:
    """Return what is stored of a memory.

    Beside its own fields it holds what filters need: flat times in UTC seconds, entity keys, source turn ids, and the
    relations of its links.
    """
    payload: dict[str, Any] = memory.model_dump(mode="json", exclude={"id"})
    payload["known_at"] = memory.known_at.timestamp()
    payload["recorded_at"] = memory.recorded_at.timestamp()
    payload["retired_at"] = _seconds(memory.retired_at)
    valid = memory.valid
    payload["valid_start"] = _seconds(valid.start) if valid else None
    payload["valid_end"] = _seconds(valid.end) if valid else None
    payload["entity_keys"] = sorted({entity_key(name) for name in (*memory.entities, memory.subject) if name.strip()})
    payload["turn_ids"] = list(memory.turn_ids)
    payload["relations"] = sorted({link.relation for link in memory.links})
    payload["standing_key"] = "yes" if memory.standing else "no"
    return payload


def memory_from(memory_id: str, payload: Payload) -> Memory:
    """Return the memory a payload holds."""
    return Memory.model_validate({**payload, "id": memory_id})


def memory_text(memory: Memory) -> str:
    """Return what is embedded of a memory; a subject that its text does not name goes before it."""
    if memory.subject and memory.subject.casefold() not in memory.text.casefold():
        return f"{memory.subject}: {memory.text}"
    return memory.text


def memory_sparse(memory: Memory) -> dict[str, Sparse]:
    """Return a memory's keyword, template and topic vectors (MemoryLACE, stage II, step 1)."""
    template = " ".join([memory.kind, memory.subject, memory.attribute, *memory.entities])
    texts = {
        "keyword": memory_text(memory),
        "template": template,
        "topic": f"{memory.topic} {memory.attribute}",
    }
    return {name: _document(name, text) for name, text in texts.items()}


def turn_text(turn: Turn) -> str:
    """Return a turn as it is embedded and indexed: with its speaker."""
    return f"{turn.speaker}: {turn.text}"


def turn_sparse(turn: Turn, before: Sequence[Turn], after: Sequence[Turn]) -> dict[str, Sparse]:
    """Return a turn's keyword vectors: of itself, of it with the turn before, and of the window around it."""
    own = turn_text(turn)
    pair = "\n".join([*(turn_text(other) for other in before[-1:]), own])
    window = "\n".join(turn_text(other) for other in (*before[-WINDOW:], turn, *after[:WINDOW]))
    return {name: _document(name, text) for name, text in (("own", own), ("pair", pair), ("window", window))}


def _document(name: str, text: str) -> Sparse:
    return sparse(tokens(text), average_length=_AVERAGE_TOKENS[name])


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else instant.timestamp()


def is_any(field: str, *values: str) -> Condition:
    """Return the condition that `field` is one of `values`."""
    return Condition(field, any_of=values)


def of_user(user_id: str, *conditions: Condition) -> Filter:
    """Return the filter that every read and write of a user's data goes through."""
    return Filter((is_any("user_id", user_id), *conditions))


def active_memories(user_id: str, scope: Scope | None = None, *more: Condition) -> Filter:
    """Return the filter of the memories a search may find by themselves.

    With `scope.as_of`, those are the memories that were told by then and not yet replaced by what was told
    by then. With `scope.valid_at`, earlier states are among them: which of a chain held then follows from all of it.
    """
    scope = scope or Scope()
    conditions = [is_any("user_id", user_id), *more]
    either: tuple[Condition, ...] = ()
    if scope.as_of is None:
        conditions.append(is_any("state", "active", *(() if scope.valid_at is None else ("superseded",))))
    elif scope.valid_at is not None:
        conditions.append(Condition("known_at", high=scope.as_of.timestamp()))
    else:
        moment = scope.as_of.timestamp()
        conditions.append(Condition("known_at", high=moment))
        # A closed range; one microsecond later is "after" at the resolution of a timestamp.
        either = (is_any("state", "active"), Condition("retired_at", low=moment + 1e-6))
    if scope.conversation_ids:
        conditions.append(is_any("conversation_id", *scope.conversation_ids))
    if scope.speakers:
        conditions.append(is_any("speaker", *scope.speakers))
    if scope.kinds:
        conditions.append(is_any("kind", *scope.kinds))
    if scope.entities:
        conditions.append(is_any("entity_keys", *map(entity_key, scope.entities)))
    return Filter(tuple(conditions), either)


def turns_in(user_id: str, scope: Scope | None = None) -> Filter:
    """Return the filter of the turns inside `scope`; a turn has no kind and no entities."""
    scope = scope or Scope()
    conditions = [is_any("user_id", user_id)]
    if scope.conversation_ids:
        conditions.append(is_any("conversation_id", *scope.conversation_ids))
    if scope.speakers:
        conditions.append(is_any("speaker", *scope.speakers))
    if scope.as_of is not None:
        conditions.append(Condition("said_at", high=scope.as_of.timestamp()))
    return Filter(tuple(conditions))
