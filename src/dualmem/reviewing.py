"""Look into the decisions of the lifecycle, take them back, and release what was held back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from dualmem.context import Context
from dualmem.errors import InputError, NotFound
from dualmem.finding import find_memory
from dualmem.identity import stable_id
from dualmem.ingestion.consolidation import relate
from dualmem.lifecycle import MIRROR, WorkingSet
from dualmem.records import Decision, Explanation, Link, Memory, Turn, TurnEffects, Undone
from dualmem.stores.commit import Commit
from dualmem.stores.payload import of_user

_NAMED: Final[Mapping[str, Literal["supersedes", "contradicts", "merged_with", "merges"]]] = {
    "supersedes": "supersedes",
    "contradicts": "contradicts",
    "merged_with": "merged_with",
    "merges": "merges",
}
_RETIRING: Final = frozenset({"supersedes", "merges"})
"""Relations whose other side is taken out of force."""


@dataclass(frozen=True, slots=True)
class _Filed:
    """A decision, as the link of the later of its two memories."""

    later: str
    link: Link

    @property
    def id(self) -> str:
        """The same, whichever side is looked from."""
        pair = [self.later, self.link.target]
        ordered = pair if self.link.relation in _RETIRING else sorted(pair)
        return stable_id("decision", self.link.relation, *ordered)

    def shown(self, known: Mapping[str, Memory], turns: Mapping[str, Turn]) -> Decision:
        return Decision(
            id=self.id,
            relation=_NAMED[self.link.relation],
            later=known[self.later],
            earlier=known[self.link.target],
            reason=self.link.reason,
            at=self.link.at,
            turns=tuple(turns[turn_id] for turn_id in self.link.turn_ids if turn_id in turns),
        )


async def explain(memory: Memory, context: Context) -> Explanation:
    """Return which decisions a memory is part of, with their reasons and turns."""
    known = await context.store.with_chains(memory.user_id, [memory])
    filed = _filed([memory], known)
    turn_ids = {turn_id for one in filed.values() for turn_id in one.link.turn_ids} | set(memory.turn_ids)
    turns = await context.store.turns_by_id(memory.user_id, sorted(turn_ids))
    retiring = {key for key, one in filed.items() if one.link.target == memory.id and one.link.relation in _RETIRING}
    return Explanation(
        memory=memory,
        sources=tuple(turns[turn_id] for turn_id in memory.turn_ids if turn_id in turns),
        decisions=tuple(
            filed[key].shown(known, turns)
            for key in sorted(filed, key=lambda key: (key not in retiring, filed[key].link.at))
        ),
    )


async def effects_of(turn: Turn, context: Context) -> TurnEffects:
    """Return what came of a turn."""
    store = context.store
    memories = await store.memories_from_turns(turn.user_id, [turn.id])
    alone = [memory for memory in memories if memory.turn_ids == (turn.id,)]
    known = await store.with_chains(turn.user_id, memories)
    working = WorkingSet()
    working.load(known.values())
    gone = {memory.id for memory in alone}
    for memory in alone:
        if memory.id in working.memories:
            working.remove(memory.id)
    again = [key for key, one in working.memories.items() if one.active and not known[key].active and key not in gone]
    return TurnEffects(
        turn=turn,
        alone=tuple(alone),
        shared=tuple(memory for memory in memories if memory.id not in gone),
        retired=tuple(known[key] for key in again),
    )


async def undo(identifier: str, user_id: str, context: Context) -> Undone:
    """Take a decision back, as one commit.

    That a statement is known already (mem0's NOOP) leaves its turn with the memory that says it, and nothing to take
    back: the turn can be forgotten.

    Args:
        identifier: A decision's id, or a memory's: then the decision that took it out of force, or else the only one
            it is part of. The start of an id is enough where it is unique.
        user_id: Whose memory it is.
        context: The store.

    Raises:
        NotFound: This user has no such memory or decision.
        InputError: The memory is part of no decision, or of several.
    """
    store = context.store
    if not identifier or not await store.open(create=False):
        raise _unknown(identifier, user_id)
    async with store.writer(user_id):
        known = {memory.id: memory for memory in await store.memories(of_user(user_id))}
        chosen = _chosen(identifier, user_id, known)
        turns = await store.turns_by_id(user_id, chosen.link.turn_ids)
        working = WorkingSet()
        working.load(known.values())
        link = chosen.link
        if link.relation == "supersedes":
            working.withdraw(link.by if link.by in {chosen.later, link.target} else chosen.later)
        elif link.relation == "merges":
            working.remove(chosen.later)
        else:
            working.separate(chosen.later, link.target, link.relation)
        await store.commit(
            Commit(
                user_id,
                changed=tuple(working.memories[one] for one in working.changed),
                forgotten_ids=tuple(sorted(known.keys() - working.memories.keys())),
            )
        )
    again = [key for key, one in working.memories.items() if one.active and not known[key].active]
    return Undone(decision=chosen.shown(known, turns), active_again=tuple(again))


async def release(memory_id: str, user_id: str, context: Context) -> Memory:
    """Say of a memory that reads like an instruction that it is to be kept like any other, as one commit.

    One that was quarantined comes into force as if it were told now: it is related to what is known, and takes its
    place by when it was told. One that was flagged loses its mark.

    Args:
        memory_id: The start is enough where it is unique.
        user_id: Whose memory it is.
        context: The store and the models.

    Returns:
        The memory as it stands; where another one took its sources over, that one.

    Raises:
        NotFound: This user has no such memory.
        InputError: It is not marked.
        ModelError: A model could not be reached; nothing was changed.
    """
    store = context.store
    await find_memory(memory_id, user_id, context)  # who is not known is no writer
    async with store.writer(user_id):
        memory = await find_memory(memory_id, user_id, context)
        if not memory.suspicion and memory.state != "quarantined":
            message = f"the memory {memory.id[:8]} is not marked as reading like an instruction: it needs no release"
            raise InputError(message)
        cleared = memory.model_copy(update={"suspicion": ""})
        if memory.state != "quarantined":
            await store.commit(Commit(user_id, changed=(cleared,)))
            return cleared
        done = await relate([cleared.model_copy(update={"state": "active"})], context, at=datetime.now(UTC))
        working = done.working
        await store.commit(
            Commit(
                user_id,
                new=tuple(working.memories[one] for one in working.new),
                changed=tuple(working.memories[one] for one in working.changed),
                forgotten_ids=() if memory.id in working.memories else (memory.id,),
            )
        )
    return working.memories.get(memory.id) or working.memories[next(iter(working.changed))]


def _filed(memories: Iterable[Memory], known: Mapping[str, Memory]) -> dict[str, _Filed]:
    """Return the decisions that `memories` are part of, by id."""
    found: dict[str, _Filed] = {}
    for memory in memories:
        for link in memory.links:
            other = known.get(link.target)
            if other is None:
                continue
            one = _Filed(memory.id, link)
            if link.relation not in _RETIRING and (MIRROR[link.relation] in _RETIRING or link.by == other.id):
                mirror = MIRROR[link.relation]
                back = next((b for b in other.links if (b.relation, b.target) == (mirror, memory.id)), None)
                if back is None:
                    continue  # a fault that `doctor` mends
                one = _Filed(other.id, back)
            found.setdefault(one.id, one)
    return found


def _chosen(identifier: str, user_id: str, known: Mapping[str, Memory]) -> _Filed:
    filed = _filed(known.values(), known)
    decisions = [key for key in filed if key.startswith(identifier)]
    memories = [key for key in known if key.startswith(identifier)]
    if len(decisions) == 1 and not memories:
        return filed[decisions[0]]
    if decisions or len(memories) != 1:
        raise _unknown(identifier, user_id, several=bool(decisions or memories))
    memory = memories[0]
    mine = {key: one for key, one in filed.items() if memory in {one.later, one.link.target}}
    retiring = [one for one in mine.values() if one.link.target == memory and one.link.relation in _RETIRING]
    if len(retiring) == 1:
        return retiring[0]
    if len(mine) == 1:
        return next(iter(mine.values()))
    listed = f"; name one of them: {', '.join(key[:8] for key in mine)}" if mine else ""
    if not mine and len(known[memory].turn_ids) > 1:
        listed = "; what says the same was added to its sources and not kept apart: forget its turn, and it is gone"
    message = f"the memory {memory[:8]} is part of {len(mine) or 'no'} decisions{listed}"
    raise InputError(message)


def _unknown(identifier: str, user_id: str, *, several: bool = False) -> NotFound:
    how = "more than one memory or decision" if several else "no memory or decision"
    return NotFound(f"user {user_id!r} has {how} {identifier!r}; `memories why` shows the decisions on a memory")
