"""What is stored, page by page: for those who look at much of it and must not read it all."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter
from typing import Literal

from dualmem.records import Memory, Turn, TurnState
from dualmem.stores.backend import Backend, Condition, Filter
from dualmem.stores.payload import MEMORIES, TURNS, is_any, memory_from, of_user, turn_from

TimeField = Literal["known_at", "retired_at", "valid_start", "valid_end"]
"""A time of a memory by which pages can be put in order."""

CountedField = Literal["user_id", "conversation_id", "state", "kind", "speaker", "entity_keys", "topic", "relations"]
"""A field of a memory whose values can be counted."""


Place = tuple[float, int, str]
"""A time in seconds, the position in the conversation, and the id: what settles a memory's place among others."""

_EVER = -1e15
"""Seconds, before any time there is."""


class Listing:
    """Pages and counts of an open store. Nothing is read but what is returned."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def memories(
        self,
        where: Filter,
        *,
        offset: int = 0,
        limit: int,
        order_by: TimeField = "known_at",
        descending: bool = False,
    ) -> list[Memory]:
        """Return `limit` of the memories that meet `where`, after the first `offset`, in the order of a time.

        Those of the same instant come as they were said, then by their id, so that each memory is on one page.

        Args:
            where: Which memories.
            offset: How many to pass over.
            limit: How many to return.
            order_by: Memories without this time are left out.
            descending: The latest first.
        """
        total = await self._backend.count(MEMORIES, where.narrowed(Condition(order_by, low=_EVER)))
        if offset >= total or limit <= 0:
            return []
        # Which of several at one instant a database returns first is not settled: the times at both ends of the page
        # are, and so is how many are before them. They are looked for from the end that is nearer.
        ahead, left = min(offset + limit, total), total - offset
        backwards = left < ahead
        rows = await self._backend.scroll(
            MEMORIES,
            where,
            order_by=order_by,
            descending=descending != backwards,
            limit=left if backwards else ahead,
            ids_only=True,
        )
        ends = (rows[-1][0], rows[max(0, left - limit)][0]) if backwards else (rows[offset][0], rows[-1][0])
        times = await self._backend.retrieve(MEMORIES, ends, fields=(order_by,))
        first, last = (float(times[end][order_by]) for end in ends)
        before = (
            Condition(order_by, low=nextafter(first, inf))
            if descending
            else Condition(order_by, high=nextafter(first, -inf))
        )
        passed = await self._backend.count(MEMORIES, where.narrowed(before))
        order = await self._between(where, order_by, min(first, last), max(first, last))
        if descending:
            order.reverse()
        ids = [key for *_, key in order[offset - passed : offset - passed + limit]]
        found = await self._backend.retrieve(MEMORIES, ids)
        return [memory_from(key, found[key]) for key in ids if key in found]

    async def count(self, where: Filter) -> int:
        """Return how many memories meet `where`."""
        return await self._backend.count(MEMORIES, where)

    async def ids(self, where: Filter) -> list[str]:
        """Return the ids of the memories that meet `where`, in no order."""
        return [key for key, _ in await self._backend.scroll(MEMORIES, where, ids_only=True)]

    async def before(self, where: Filter, memory: Memory) -> int:
        """Return how many of the memories that meet `where` come before `memory`, which need not, by `order_of`."""
        place = order_of(memory)
        told = place[0]
        earlier = await self._backend.count(MEMORIES, where.narrowed(Condition("known_at", high=nextafter(told, -inf))))
        return earlier + sum(other < place for other in await self._between(where, "known_at", told, told))

    async def _between(self, where: Filter, order_by: TimeField, low: float, high: float) -> list[Place]:
        """Return the places of the memories with a time from `low` to `high`, in order."""
        near = await self.ids(where.narrowed(Condition(order_by, low=low, high=high)))
        found = await self._backend.retrieve(MEMORIES, near, fields=(order_by, "position"))
        return sorted((row[order_by], row.get("position", 0), key) for key, row in found.items())

    async def values(self, field: CountedField, where: Filter) -> dict[str, int]:
        """Count the memories that meet `where` by the values of a field, the most frequent first.

        Raises:
            StoreError: The field is not indexed; a store of an earlier version gets the index when it is written to.
        """
        counted = await self._backend.facet(MEMORIES, field, where)
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    async def turns(self, user_id: str, conversation_id: str, *, start: int, limit: int) -> list[Turn]:
        """Return the turns of a conversation from position `start` on, `limit` of them at most."""
        places = Condition("position", low=start, high=start + limit - 1)
        where = of_user(user_id, is_any("conversation_id", conversation_id), places)
        rows = await self._backend.scroll(TURNS, where, order_by="position")
        return [turn_from(turn_id, payload) for turn_id, payload in rows]

    async def turn_count(self, user_id: str, states: Sequence[TurnState]) -> int:
        """Return how many turns of a user are in one of `states`."""
        return await self._backend.count(TURNS, of_user(user_id, is_any("state", *states)))


def order_of(memory: Memory) -> Place:
    """Return a memory's place in the order of when memories were told."""
    return memory.known_at.timestamp(), memory.position, memory.id
