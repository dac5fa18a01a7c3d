"""Turns that are read again: what was extracted from them before goes when what is new comes, and not earlier.

Until then it is found as before. It goes in the commit in which the last of its turns has been read, so that a model
that fails, or a process that is killed, leaves for every turn what is old or what is new.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from dualmem.context import Context
from dualmem.lifecycle import WorkingSet
from dualmem.records import Memory
from dualmem.stores.payload import of_user


@dataclass(frozen=True, slots=True)
class Rereading:
    """What the reading of a batch takes the place of; by default of nothing."""

    working: WorkingSet = field(default_factory=WorkingSet)
    """Without what goes now; commits that together with what comes."""
    hidden: frozenset[str] = frozenset()
    """Ids of the memories that go, now or with a later batch: nothing new is related to them."""
    revived: tuple[Memory, ...] = ()
    """What is in force again, since what had replaced it goes; a search does not know that yet."""


async def take_out(user_id: str, turn_ids: Collection[str], context: Context) -> Rereading:
    """Return what is known without that which was extracted before from the turns of a batch.

    Args:
        user_id: Whose memory it is.
        turn_ids: The turns that have been read.
        context: The store.
    """
    outdated = await context.store.outdated(user_id)
    if not outdated:
        return Rereading()
    working = WorkingSet()
    working.load(await context.store.memories(of_user(user_id)))
    stored = dict(working.memories)
    # What was forgotten meanwhile is no longer waited for.
    working.removed.update(dict.fromkeys(key for key in outdated if key not in stored))
    stale = [stored[key] for key in outdated if key in stored]
    turns = await context.store.turns_by_id(user_id, list({key for memory in stale for key in memory.turn_ids}))
    unread = {key for key, turn in turns.items() if turn.state == "pending"} - set(turn_ids)
    for memory in stale:
        if memory.id in working.memories and unread.isdisjoint(memory.turn_ids):
            working.remove(memory.id)
    hidden = frozenset((*outdated, *working.removed))
    revived = [
        memory
        for key, memory in working.memories.items()
        if memory.active and not stored[key].active and key not in hidden
    ]
    return Rereading(working, hidden, tuple(revived))
