"""Find the memories a new one may relate to (MemoryLACE, stage I, step 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from dualmem.config import Settings
from dualmem.context import Context
from dualmem.identity import memory_id
from dualmem.ingestion.rereading import Rereading
from dualmem.records import Draft, Memory
from dualmem.stores.backend import Ranking
from dualmem.stores.payload import active_memories, entity_key, is_any, memory_text

MOST = 8
"""Candidates offered for one new memory."""

MOST_HIDDEN = 64
"""Memories more that are looked at where some are on their way out."""


def memory_of(draft: Draft, *, user_id: str, conversation_id: str, now: datetime) -> Memory:
    """Return the memory a draft becomes."""
    return Memory(
        id=memory_id(user_id, draft.text, [source.turn_id for source in draft.sources]),
        user_id=user_id,
        conversation_id=conversation_id,
        agent_id=draft.agent_id,
        text=draft.text,
        kind=draft.kind,
        speaker=draft.speaker,
        role=draft.role,
        subject=draft.subject,
        attribute=draft.attribute,
        entities=draft.entities,
        topic=draft.topic,
        valid=draft.valid,
        standing=draft.standing,
        suspicion=draft.suspicion,
        known_at=draft.said_at or now,
        recorded_at=now,
        sources=draft.sources,
        position=draft.position,
    )


async def find_candidates(
    new: Sequence[Memory], context: Context, rereading: Rereading
) -> list[tuple[Memory, list[Memory]]]:
    """Return each new memory with the active memories it may relate to, and load those into the working set.

    Candidates are similar memories and those that share an entity, stored or earlier in the same batch, each with
    what it is linked to by one hop. Two round trips for the whole batch. What turns that are read again gave before is
    none, and what is in force again without it is one.

    Raises:
        ModelUnavailable: The embedding model failed.
    """
    if not new:
        return []
    settings, working = context.settings, rereading.working
    user_id = new[0].user_id
    every = await context.embedder.documents([memory_text(memory) for memory in (*new, *rereading.revived)])
    vectors = every[: len(new)]
    # What is on its way out is as similar as can be, and must not fill all places.
    limit = settings.similar_memories + min(len(rereading.hidden), MOST_HIDDEN)
    rankings = []
    for memory, vector in zip(new, vectors, strict=True):
        similar = active_memories(user_id)
        keys = [entity_key(name) for name in memory.entities]
        sharing = active_memories(user_id, None, is_any("entity_keys", *keys)) if keys else similar
        rankings += [
            Ranking("similar", limit, similar, "semantic", vector),
            Ranking("sharing", limit if keys else 0, sharing, "semantic", vector),
        ]
    asked = [ranking for ranking in rankings if ranking.limit]
    answers = iter(await context.store.rank_memories(asked))
    found = [next(answers) if ranking.limit else [] for ranking in rankings]
    stored = {memory.id: memory for row in found for memory, _ in row}
    working.load((await context.store.with_chains(user_id, stored.values(), partners=True)).values())

    least = settings.similarity if settings.strategy == "mem0star" else settings.candidate_similarity
    alike = _alike(every, least)
    cases: list[tuple[Memory, list[Memory]]] = []
    for place, memory in enumerate(new):
        scored = [
            (score, working.memories[other.id])
            for row in found[2 * place : 2 * place + 2]
            for other, score in row
            if score >= least and other.id not in rereading.hidden
        ]
        beside = {**dict(enumerate(new[:place])), **dict(enumerate(rereading.revived, len(new)))}
        scored += [(score, beside[other]) for other, score in alike[place] if other in beside]
        cases.append((memory, _offer(memory, scored, rereading, settings)))
    return cases


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 where one of them is zero."""
    sizes = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / sizes if sizes else 0.0


def _alike(vectors: Sequence[Sequence[float]], least: float) -> list[list[tuple[int, float]]]:
    """Return for each vector the places of the others whose cosine with it is `least` at least, with that."""
    import numpy as np  # noqa: PLC0415 - heavy

    units = np.array(vectors, dtype=float)
    sizes = np.linalg.norm(units, axis=1, keepdims=True)
    units = np.divide(units, sizes, out=units, where=sizes > 0)
    # Not by matrix product, whose threads wait for each other on busy cores. Rounded, so that the same is the same.
    cosines = np.einsum("ik,jk->ij", units, units).round(9)
    alike: list[list[tuple[int, float]]] = [[] for _ in vectors]
    for here, there in np.argwhere(cosines >= least).tolist():
        if here != there:
            alike[here].append((there, float(cosines[here, there])))
    return alike


def _offer(
    memory: Memory, scored: list[tuple[float, Memory]], rereading: Rereading, settings: Settings
) -> list[Memory]:
    """Return the best candidates, each once, then what they are linked to by one hop, up to the bound."""
    best: dict[str, Memory] = {}
    for _, other in sorted(scored, key=lambda item: (-item[0], item[1].id)):
        if other.id != memory.id:
            best.setdefault(other.id, other)
    offered = dict(list(best.items())[: min(MOST, settings.similar_memories)])
    for other in list(offered.values()):
        for link in other.links:
            linked = rereading.working.memories.get(link.target)
            if linked is None or not linked.active or linked.id in rereading.hidden:
                continue
            if linked.id != memory.id and len(offered) < MOST:
                offered.setdefault(linked.id, linked)
    return list(offered.values())
