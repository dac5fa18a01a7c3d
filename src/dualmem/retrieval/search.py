"""Find the evidence a question may need, without any model but the embedding (MemoryLACE, stage II)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dualmem.context import Context
from dualmem.records import Candidate, EvidenceUnit, Hit, Interval, Memory, Scope, Turn
from dualmem.retrieval.fusion import fuse
from dualmem.retrieval.text import sparse_query, tokens
from dualmem.retrieval.times import find
from dualmem.retrieval.units import expand, rerank
from dualmem.stores.backend import Condition, Ranking
from dualmem.stores.payload import active_memories, turns_in

_TURN_RANKINGS = ("semantic", "own", "pair", "window")
_SPEAKERS = 2
"""A conversation has two speakers as a rule; D-Mem's `top_k` counts for each."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    units: tuple[EvidenceUnit, ...]
    stored: bool
    """Whether the user has any memory or turn at all."""
    asked_for: Interval | None = None
    """The time the question names."""


async def search(
    context: Context,
    user_id: str,
    question: str,
    *,
    scope: Scope | None = None,
    asked_at: datetime | None = None,
) -> Found:
    """Return evidence units for `question`, best first, within `scope`.

    Three round trips: rankings over memories and turns, what they lead to, and the source turns shown with the
    strongest units. Nothing is created by looking.

    Raises:
        ModelUnavailable: The embedding model failed.
        StoreError: The store cannot be read.
    """
    settings = context.settings
    store = context.store
    if not await store.open(create=False):
        return Found((), stored=False)
    scope = scope or Scope()
    asked_for = _time_asked_for(question, asked_at) if settings.temporal else None
    vector = await context.embedder.query(question)
    limit = settings.top_k * _SPEAKERS
    rankings = _memory_rankings(context, user_id, question, vector, scope, asked_for, limit)
    rows = await store.rank_memories(rankings)
    hits = {
        ranking.name: [Hit(memory, ranking.name, rank, score) for rank, (memory, score) in enumerate(row, start=1)]
        for ranking, row in zip(rankings, rows, strict=True)
    }
    turns: list[Turn] = []
    if "turns" in settings.rankings:
        turns = await rank_turns(context, user_id, question, scope=scope)
        hits["turns"] = await _memories_of(context, user_id, turns, scope)
    candidates = _per_speaker(fuse(hits, k=settings.rrf_k, weights=settings.ranking_weights), settings.top_k)
    known = (
        await store.with_chains(user_id, [candidate.memory for candidate in candidates])
        if settings.expand_lifecycle
        else {}
    )
    units = expand(candidates, known, lifecycle=settings.expand_lifecycle)
    units = _with_turns(units, turns, context)
    if settings.rerank == "lexical":
        units = rerank(units, question, asked_for)
    units = await _zoomed(units, context, user_id)
    stored = bool(units) or any(await store.count(user_id))
    return Found(tuple(units), stored=stored, asked_for=asked_for)


def _time_asked_for(question: str, asked_at: datetime | None) -> Interval | None:
    found = find(question, asked_at, prefer="nearest")
    return found[0].interval if found else None


def _memory_rankings(
    context: Context,
    user_id: str,
    question: str,
    vector: Sequence[float],
    scope: Scope,
    asked_for: Interval | None,
    limit: int,
) -> list[Ranking]:
    chosen = context.settings.rankings
    where = active_memories(user_id, scope)
    words = sparse_query(tokens(question))
    rankings = []
    if "semantic" in chosen:
        rankings.append(Ranking("semantic", limit, where, "semantic", vector))
    if words.indices:
        rankings += [
            Ranking(name, limit, where, name, words) for name in ("keyword", "template", "topic") if name in chosen
        ]
    if "time" in chosen and asked_for is not None:
        low, high = asked_for.start, asked_for.end
        meets = []
        if high is not None:
            meets.append(Condition("valid_start", high=high.timestamp()))
        if low is not None:
            meets.append(Condition("valid_end", low=low.timestamp()))
        rankings.append(Ranking("time", limit, active_memories(user_id, scope, *meets), "semantic", vector))
    return rankings


async def rank_turns(context: Context, user_id: str, question: str, *, scope: Scope | None = None) -> list[Turn]:
    """Return the raw turns nearest to the question: alone, with the turn before, and by the window around."""
    limit = context.settings.top_k * _SPEAKERS
    vector = await context.embedder.query(question)
    where = turns_in(user_id, scope)
    words = sparse_query(tokens(question))
    rankings = [
        Ranking(name, limit, where, name, vector if name == "semantic" else words)
        for name in _TURN_RANKINGS
        if name == "semantic" or words.indices
    ]
    rows = await context.store.rank_turns(rankings)
    scores: Counter[str] = Counter()
    turns: dict[str, Turn] = {}
    for row in rows:
        for rank, turn in enumerate(row, start=1):
            turns[turn.id] = turn
            scores[turn.id] += 1.0 / (context.settings.rrf_k + rank)  # type: ignore[assignment]
    return sorted(turns.values(), key=lambda turn: (-scores[turn.id], turn.id))[:limit]


async def _memories_of(context: Context, user_id: str, turns: Sequence[Turn], scope: Scope) -> list[Hit]:
    """Return the active memories that ranked turns gave rise to, at their best turn's rank."""
    ranks = {turn.id: rank for rank, turn in enumerate(turns, start=1)}
    memories = await context.store.memories_from_turns(user_id, list(ranks))
    reached = [
        (min(ranks[turn_id] for turn_id in memory.turn_ids if turn_id in ranks), memory)
        for memory in memories
        if _in_scope(memory, scope)
    ]
    return [Hit(memory, "turns", rank, 0.0) for rank, memory in sorted(reached, key=lambda item: (item[0], item[1].id))]


def _in_scope(memory: Memory, scope: Scope) -> bool:
    if scope.as_of is not None:
        if memory.known_at > scope.as_of or (memory.retired_at is not None and memory.retired_at <= scope.as_of):
            return False
    elif not memory.active:
        return False
    return (not scope.kinds or memory.kind in scope.kinds) and (
        not scope.entities
        or bool({name.casefold() for name in scope.entities} & {name.casefold() for name in memory.entities})
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


def _with_turns(units: Sequence[EvidenceUnit], turns: Sequence[Turn], context: Context) -> list[EvidenceUnit]:
    """Add the ranked turns that no memory came from, as evidence themselves, in the order of their rank."""
    k = context.settings.rrf_k
    covered = {turn_id for unit in units for member in unit.members for turn_id in member.memory.turn_ids}
    weight = context.settings.ranking_weights.get("turns", 1.0)
    alone = [
        EvidenceUnit((), weight / (k + rank), (turn,), ("turns",))
        for rank, turn in enumerate(turns, start=1)
        if turn.id not in covered
    ]
    merged = [*units, *alone]
    order = sorted(range(len(merged)), key=lambda place: (-merged[place].score, place))
    return [merged[place] for place in order]


async def _zoomed(units: Sequence[EvidenceUnit], context: Context, user_id: str) -> list[EvidenceUnit]:
    """Show the strongest units with the turns they come from, so that detail lost in extraction is there."""
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
    found: Mapping[str, Turn] = await context.store.turns_by_id(user_id, sorted(wanted))
    zoomed = []
    for place, unit in enumerate(units):
        if place >= most or not unit.members:
            zoomed.append(unit)
            continue
        ids = dict.fromkeys(turn_id for member in unit.members for turn_id in member.memory.turn_ids)
        turns = sorted((found[turn_id] for turn_id in ids if turn_id in found), key=lambda turn: turn.position)
        zoomed.append(replace(unit, turns=tuple(turns)))
    return zoomed
