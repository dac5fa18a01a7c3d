"""Find the evidence a question may need, without any model but the embedding (MemoryLACE, stage II)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from dualmem.clocks import seen_at
from dualmem.context import Context
from dualmem.errors import ModelUnavailable
from dualmem.records import Candidate, EvidenceUnit, Interval, Memory, ModelCall, Scope, Turn
from dualmem.retrieval.fusion import Ranked, fuse
from dualmem.retrieval.text import sparse_query, tokens
from dualmem.retrieval.times import find
from dualmem.retrieval.units import expand
from dualmem.searching.reranking import rerank_units
from dualmem.searching.turns import ScoredTurns, score_turns
from dualmem.stores.backend import Condition, Filter, Ranking, Sparse
from dualmem.stores.payload import active_memories, entity_key

RANKED: Final = 100
"""Memories taken from each ranking; only ids and scores are read."""

_EVER: Final = 1e15
"""Later than any date, in seconds."""

_TRACED: Final = 30
"""Best turns whose memories are looked up; the memories of the others are found by their own rankings."""

_SPEAKERS: Final = 2
"""A conversation has two speakers as a rule; D-Mem's `top_k` counts for each."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    units: tuple[EvidenceUnit, ...]
    stored: bool
    """Whether the user has any memory or turn at all."""
    asked_for: Interval | None = None
    """The time the question names."""
    calls: tuple[ModelCall, ...] = ()
    """Those of a reranker."""
    degraded: str = ""
    """Why the order is worse than it could be: a model that failed."""


async def search(
    context: Context,
    user_id: str,
    question: str,
    *,
    scope: Scope | None = None,
    asked_at: datetime | None = None,
) -> Found:
    """Return evidence units for `question`, best first, within `scope`.

    First only ids and scores are read, then the best memories and turns themselves, what they are linked to, and the
    source turns shown with the strongest units. Nothing is created by looking.

    Raises:
        ModelUnavailable: The embedding model failed, and the question has no words to search by.
        StoreError: The store cannot be read.
    """
    settings = context.settings
    store = context.store
    if not await store.open(create=False):
        return Found((), stored=False)
    scope = scope or Scope()
    asked_for = _time_asked_for(question, asked_at) if settings.temporal else None
    vector, failure = await _embedded(question, context)
    turns: ScoredTurns | None = None
    if "turns" in settings.rankings:
        turns = await score_turns(context, user_id, question, vector, most=max(settings.top_k, _TRACED), scope=scope)
    rankings = _memory_rankings(context, user_id, question, vector, scope, asked_for)
    candidates = await _candidates(context, user_id, rankings, turns, scope)
    known: dict[str, Memory] = {}
    if settings.expand_lifecycle or scope.dated:
        known = await store.with_chains(user_id, [candidate.memory for candidate in candidates])
    candidates, known = _as_seen(candidates, known, scope, lifecycle=settings.expand_lifecycle)
    units = expand(candidates, known, lifecycle=settings.expand_lifecycle)
    # A turn has neither kind nor entities, so none is shown by itself where those are asked for.
    if turns is not None and not (scope.kinds or scope.entities):
        units = _merged(units, _bare(turns, units, settings.weights.get("turns", 1.0)))
    ordered = await rerank_units(units, question, asked_for, context, asked_at=asked_at)
    units = await _zoomed(ordered.units, context, user_id, turns)
    stored = bool(units) or any(await store.count(user_id))
    degraded = "; ".join(filter(None, (failure, ordered.failure)))
    return Found(tuple(units), stored=stored, asked_for=asked_for, calls=ordered.calls, degraded=degraded)


async def _embedded(question: str, context: Context) -> tuple[Sequence[float] | None, str]:
    """Return the question's vector; where its model fails and there are words to go by, None and what failed.

    Raises:
        ModelUnavailable: The embedding model failed, and the question has no words to search by.
    """
    try:
        return await context.embedder.query(question), ""
    except ModelUnavailable as error:
        if not tokens(question):
            raise
        return None, f"searched by words alone: {error}"


def _as_seen(
    candidates: Sequence[Candidate], known: Mapping[str, Memory], scope: Scope, *, lifecycle: bool
) -> tuple[list[Candidate], dict[str, Memory]]:
    """Return candidates and what they are linked to with the states they have at the time of `scope`."""
    if not scope.dated:
        return list(candidates), dict(known)
    seen = seen_at(known.values(), as_of=scope.as_of, valid_at=scope.valid_at)
    there = [replace(one, memory=seen[one.memory.id]) for one in candidates if one.memory.id in seen]
    return [one for one in there if lifecycle or one.memory.active], seen


def _time_asked_for(question: str, asked_at: datetime | None) -> Interval | None:
    found = find(question, asked_at, prefer="nearest")
    return found[0].interval if found else None


def _memory_rankings(
    context: Context,
    user_id: str,
    question: str,
    vector: Sequence[float] | None,
    scope: Scope,
    asked_for: Interval | None,
) -> list[Ranking]:
    chosen = context.settings.rankings
    where = active_memories(user_id, scope)
    words = sparse_query(tokens(question))
    rankings = []
    if "semantic" in chosen and vector is not None:
        rankings.append(Ranking("semantic", RANKED, where, "semantic", vector))
    if words.indices:
        rankings += [
            Ranking(name, RANKED, where, name, words) for name in ("keyword", "template", "topic") if name in chosen
        ]
    if "time" in chosen and asked_for is not None and vector is not None:
        rankings.append(Ranking("time", RANKED, _meeting(where, asked_for), "semantic", vector))
    return rankings


def _meeting(where: Filter, asked_for: Interval) -> Filter:
    """Return the filter of memories whose time has an instant in common with `asked_for`.

    An end that is not known is open ("since 2016"); a memory without any date is not among them.
    """
    low = None if asked_for.start is None else asked_for.start.timestamp()
    high = None if asked_for.end is None else asked_for.end.timestamp()
    meets = []
    if high is not None:
        meets.append(Condition("valid_start", high=high, or_missing=True))
    if low is not None:
        meets.append(Condition("valid_end", low=low, or_missing=True))
    dated = (Condition("valid_start", high=_EVER), Condition("valid_end", high=_EVER))
    # The filter of another time than now has alternatives of its own; there an open date must have a start.
    either = where.either or dated
    return Filter((*where.conditions, *meets, *(dated[:1] if where.either else ())), either)


async def _candidates(
    context: Context, user_id: str, rankings: Sequence[Ranking], turns: ScoredTurns | None, scope: Scope
) -> list[Candidate]:
    """Return the best memories, best first.

    They stand on one scale with bare turns: a turn has its own score, and a memory that of its best source turn
    beside what the rankings of memories give it.
    """
    settings, store = context.settings, context.store
    # Turns bring memories of their own; without them it is as in D-Mem, whose `top_k` counts for each speaker.
    most = settings.top_k if turns else settings.top_k * _SPEAKERS
    rows = await store.score_memories(rankings)
    own = fuse(
        [
            Ranked(ranking.name, row, dense=not isinstance(ranking.vector, Sparse))
            for ranking, row in zip(rankings, rows, strict=True)
        ],
        fusion=settings.fusion,
        k=settings.rrf_k,
        weights=settings.weights,
    )
    by_own = sorted(own, key=lambda key: (-sum(own[key].values()), key))[:most]
    best = turns.ids[:_TRACED] if turns else ()
    reached = {memory.id: memory for memory in await store.memories_from_turns(user_id, best)}
    missing = [key for key in by_own if key not in reached]
    found = {**reached, **await store.memories_by_id(user_id, missing)}
    weight = settings.weights.get("turns", 1.0)
    candidates = []
    for key, memory in found.items():
        if not _in_scope(memory, scope):
            continue
        shares = dict(own.get(key, {}))
        given = max((turns.scores.get(turn_id, 0.0) for turn_id in memory.turn_ids), default=0.0) if turns else 0.0
        if given:
            shares["turns"] = weight * given
        candidates.append(Candidate(memory, shares))
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
    return _per_speaker(candidates, settings.top_k)


def _bare(turns: ScoredTurns, units: Sequence[EvidenceUnit], weight: float) -> list[EvidenceUnit]:
    """Return the best turns that no memory of `units` came from, as evidence themselves."""
    covered = {turn_id for unit in units for member in unit.members for turn_id in member.memory.turn_ids}
    scores = {key: weight * turns.scores[key] for key in turns.ids if key not in covered}
    return [EvidenceUnit((), score, (turns.turn(key),), {"turns": score}) for key, score in scores.items()]


def _in_scope(memory: Memory, scope: Scope) -> bool:
    """Whether the filter of `active_memories` lets a memory through that was reached by its turns."""
    if memory.state == "quarantined":
        return False
    if scope.as_of is not None:
        if memory.known_at > scope.as_of or (memory.retired_at is not None and memory.retired_at <= scope.as_of):
            return False
    elif memory.state not in ({"active"} if scope.valid_at is None else {"active", "superseded"}):
        return False
    names = {entity_key(name) for name in (*memory.entities, memory.subject)} if scope.entities else set()
    return (
        (not scope.conversation_ids or memory.conversation_id in scope.conversation_ids)
        and (not scope.agent_ids or memory.agent_id in scope.agent_ids)
        and (not scope.speakers or memory.speaker in scope.speakers)
        and (not scope.kinds or memory.kind in scope.kinds)
        and (not scope.entities or bool(names & {entity_key(name) for name in scope.entities}))
        and scope.covers(memory.known_at)
    )


def _per_speaker(candidates: Sequence[Candidate], top_k: int) -> list[Candidate]:
    """Keep the best `top_k` memories of each speaker (D-Mem, query)."""
    counts: Counter[str] = Counter()
    kept = []
    for candidate in candidates:
        counts[candidate.memory.speaker] += 1
        if counts[candidate.memory.speaker] <= top_k:
            kept.append(candidate)
    return kept


def _merged(units: Sequence[EvidenceUnit], alone: Sequence[EvidenceUnit]) -> list[EvidenceUnit]:
    """Return both, best first; of equal ones the memories."""
    both = [*units, *alone]
    order = sorted(range(len(both)), key=lambda place: (-both[place].score, place))
    return [both[place] for place in order]


async def _zoomed(
    units: Sequence[EvidenceUnit], context: Context, user_id: str, known: ScoredTurns | None
) -> list[EvidenceUnit]:
    """Show the strongest units with the turns they come from, so that detail lost in extraction is there.

    Those of `known` need not be read.
    """
    most = context.settings.zoom_turns
    wanted = {
        turn_id
        for unit in units[:most]
        for member in unit.members
        if member.status != "supporting"
        for turn_id in member.memory.turn_ids
    }
    if not wanted:
        return list(units)
    found: dict[str, Turn] = {}
    if known is not None:
        told = {turn_id for unit in units[:most] for member in unit.members for turn_id in member.memory.turn_ids}
        at_hand = told.intersection(known.ids) | wanted.intersection(known.payloads)
        found = {turn_id: known.turn(turn_id) for turn_id in at_hand}
    found |= await context.store.turns_by_id(user_id, sorted(wanted - found.keys()))
    zoomed = []
    for place, unit in enumerate(units):
        if place >= most or not unit.members:
            zoomed.append(unit)
            continue
        ids = dict.fromkeys(turn_id for member in unit.members for turn_id in member.memory.turn_ids)
        turns = sorted((found[turn_id] for turn_id in ids if turn_id in found), key=lambda turn: turn.position)
        zoomed.append(replace(unit, turns=tuple(turns)))
    return zoomed
