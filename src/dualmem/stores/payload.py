"""How turns and memories lie in a collection: their payloads, vectors and indexes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

from dualmem.records import Memory, Rejection, Scope, Turn
from dualmem.retrieval.text import sparse, tokens
from dualmem.stores.backend import CollectionSpec, Condition, FieldType, Filter, Payload, Sparse

TURNS: Final = "turns"
MEMORIES: Final = "memories"
CONTROL: Final = "control"

TURN_FIELDS: Final[dict[str, FieldType]] = {
    "user_id": "tenant",
    "conversation_id": "keyword",
    "agent_id": "keyword",
    "state": "keyword",
    "indexed": "keyword",
    "speaker": "keyword",
    "position": "integer",
    "said_at": "float",
}
MEMORY_FIELDS: Final[dict[str, FieldType]] = {
    "user_id": "tenant",
    "active_of": "keyword",
    "conversation_id": "keyword",
    "agent_id": "keyword",
    "state": "keyword",
    "kind": "keyword",
    "speaker": "keyword",
    "entity_keys": "keyword",
    "topic": "keyword",
    "relations": "keyword",
    "turn_ids": "keyword",
    "standing_key": "keyword",
    "suspicion": "keyword",
    "known_at": "float",
    "retired_at": "float",
    "valid_start": "float",
    "valid_end": "float",
}
CONTROL_FIELDS: Final[dict[str, FieldType]] = {"user_id": "tenant", "what": "keyword", "conversation_id": "keyword"}

WINDOW: Final = 4
"""Turns on each side of a turn whose words its `lexical` vector holds too."""

_NEIGHBOUR_TOKENS: Final = 24
"""Tokens that a neighbour gives at most, so that a long one does not hide the turn itself."""

_LEAD_WORDS: Final = 40
"""Words of the turn before that are embedded with a turn, its last: they are what it answers."""

_LEAD_CHARACTERS: Final = 300
"""Characters of them at most: some scripts have no blanks."""

_REACHES: Final = (
    # turns before, turns after, weight, tokens of an average text
    (0, 0, 2.0, 12.0),
    (1, 0, 1.0, 24.0),
    (2, 2, 1.0, 60.0),
    (WINDOW, WINDOW, 1.0, 100.0),
)
"""The texts whose words make a turn's `lexical` vector: the turn itself, and ever wider surroundings of it."""

_AVERAGE_TOKENS: Final = {"keyword": 12.0, "template": 8.0, "topic": 3.0}


def specs(dimension: int) -> tuple[CollectionSpec, ...]:
    """Return the collections of a store whose embedding model makes vectors of `dimension`."""
    return (
        CollectionSpec(TURNS, {"semantic": dimension}, ("lexical",), TURN_FIELDS),
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

    Beside its own fields it holds what filters need: flat times in UTC seconds, entity keys, source turn ids, the
    relations of its links, and its user once more while it is active: a scan compares
    one field in half the time of two.
    """
    payload: dict[str, Any] = memory.model_dump(mode="json", exclude={"id"})
    payload["active_of"] = memory.user_id if memory.active else None
    payload["known_at"] = memory.known_at.timestamp()
    payload["recorded_at"] = memory.recorded_at.timestamp()
    payload["retired_at"] = _seconds(memory.retired_at)
    valid = memory.valid
    payload["valid_start"] = _seconds(valid.start) if valid else None
    payload["valid_end"] = _seconds(valid.end) if valid else None
    payload["entity_keys"] = sorted({entity_key(name) for name in (*memory.entities, memory.subject) if name.strip()})
    payload["turn_ids"] = list(memory.turn_ids)
    payload["relations"] = sorted({link.relation for link in memory.links})
    # What reads like an instruction to a model is followed by none, unless somebody released it.
    payload["standing_key"] = "yes" if memory.standing and not memory.suspicion else "no"
    return payload


def memory_from(memory_id: str, payload: Payload) -> Memory:
    """Return the memory a payload holds."""
    return Memory.model_validate({**payload, "id": memory_id})


def rejection_payload(rejection: Rejection) -> Payload:
    """Return what is stored of a rejection."""
    return {"what": "rejection", **rejection.model_dump(mode="json", exclude={"id"})}


def rejections_of(user_id: str, conversation_id: str | None = None) -> Filter:
    """Return the filter of a user's rejections, or of a conversation's."""
    conditions = [] if conversation_id is None else [is_any("conversation_id", conversation_id)]
    return of_user(user_id, is_any("what", "rejection"), *conditions)


def rejection_from(rejection_id: str, payload: Payload) -> Rejection:
    """Return the rejection a payload holds."""
    return Rejection.model_validate({**payload, "id": rejection_id})


def memory_text(memory: Memory) -> str:
    """Return what is embedded of a memory; a subject that its text does not name goes before it."""
    if memory.subject and memory.subject.casefold() not in memory.text.casefold():
        return f"{memory.subject}: {memory.text}"
    return memory.text


def memory_sparse(memory: Memory) -> dict[str, Sparse]:
    """Return a memory's keyword, template and topic vectors (MemoryLACE, stage II, step 1).

    The subject is a word of the template alone: a name that stands in most memories of one user is rare among those
    of all users, so that by the database's IDF it would hide the words that matter.
    """
    subject = set(tokens(memory.subject))
    words = {
        "keyword": [token for token in tokens(memory.text) if token not in subject],
        "template": tokens(" ".join([memory.kind, memory.subject, memory.attribute, *memory.entities])),
        "topic": tokens(f"{memory.topic} {memory.attribute}"),
    }
    return {name: sparse(found, average_length=_AVERAGE_TOKENS[name]) for name, found in words.items()}


def turn_text(turn: Turn) -> str:
    """Return a turn as it is embedded and indexed: with its speaker."""
    return f"{turn.speaker}: {turn.text}"


def turn_context(turn: Turn, before: Sequence[Turn]) -> str:
    """Return what is embedded of a turn: its own text first, then the end of the turn before it."""
    lead = " ".join(before[-1].text.split()[-_LEAD_WORDS:])[-_LEAD_CHARACTERS:] if before else ""
    return f"{turn_text(turn)}\n{before[-1].speaker}: {lead}" if lead else turn_text(turn)


def turn_sparse(
    turn: Turn, before: Sequence[Turn], after: Sequence[Turn], known: dict[str, list[str]] | None = None
) -> Sparse:
    """Return a turn's keyword vector: its own words, and with less weight those around it.

    One vector instead of one a reach: the same evidence is found by a quarter of the work.

    Args:
        turn: The turn.
        before: The turns before it, in order.
        after: Those after it.
        known: Tokens by turn id, kept from one call to the next: a turn is the neighbour of eight.
    """
    known = {} if known is None else known
    for one in (turn, *before[-WINDOW:], *after[:WINDOW]):
        if one.id not in known:
            known[one.id] = tokens(turn_text(one))
    own = known[turn.id]
    earlier = [known[other.id][-_NEIGHBOUR_TOKENS:] for other in before[-WINDOW:]]
    later = [known[other.id][:_NEIGHBOUR_TOKENS] for other in after[:WINDOW]]
    weights: defaultdict[int, float] = defaultdict(float)
    for back, ahead, weight, average in _REACHES:
        words = [*own, *chain.from_iterable(earlier[len(earlier) - back :]), *chain.from_iterable(later[:ahead])]
        part = sparse(words, average_length=average)
        for index, value in zip(part.indices, part.values, strict=True):
            weights[index] += weight * value
    indices = tuple(sorted(weights))
    return Sparse(indices, tuple(weights[index] for index in indices))


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
    if scope.as_of is None and scope.valid_at is None:
        conditions[0] = is_any("active_of", user_id)
    elif scope.as_of is None:
        conditions.append(is_any("state", "active", "superseded"))
    elif scope.valid_at is not None:
        conditions.append(Condition("known_at", high=scope.as_of.timestamp()))
        conditions.append(is_any("state", "active", "superseded", "merged"))
    else:
        moment = scope.as_of.timestamp()
        conditions.append(Condition("known_at", high=moment))
        # A closed range; one microsecond later is "after" at the resolution of a timestamp.
        either = (is_any("state", "active"), Condition("retired_at", low=moment + 1e-6))
    conditions += _common(scope, "known_at")
    if scope.kinds:
        conditions.append(is_any("kind", *scope.kinds))
    if scope.entities:
        conditions.append(is_any("entity_keys", *map(entity_key, scope.entities)))
    return Filter(tuple(conditions), either)


def turns_in(user_id: str, scope: Scope | None = None) -> Filter:
    """Return the filter of the turns inside `scope`; a turn has no kind and no entities."""
    scope = scope or Scope()
    conditions = [is_any("user_id", user_id)]
    conditions += _common(scope, "said_at")
    if scope.as_of is not None:
        conditions.append(Condition("said_at", high=scope.as_of.timestamp()))
    return Filter(tuple(conditions))


def _common(scope: Scope, clock: str) -> list[Condition]:
    """Return the conditions that memories and turns share; `clock` says when something was said."""
    conditions = []
    if scope.conversation_ids:
        conditions.append(is_any("conversation_id", *scope.conversation_ids))
    if scope.agent_ids:
        conditions.append(is_any("agent_id", *scope.agent_ids))
    if scope.speakers:
        conditions.append(is_any("speaker", *scope.speakers))
    if scope.since is not None or scope.until is not None:
        conditions.append(Condition(clock, low=_seconds(scope.since), high=_seconds(scope.until)))
    return conditions
