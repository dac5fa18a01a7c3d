"""Find one memory or turn by its id, or by the start of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dualmem.context import Context
from dualmem.errors import NotFound
from dualmem.records import Memory, Turn
from dualmem.stores.payload import of_user

Record = TypeVar("Record", Memory, Turn)


async def find_memory(memory_id: str, user_id: str, context: Context) -> Memory:
    """Return the memory of this id, or the only one whose id starts so.

    Raises:
        NotFound: This user has no such memory.
    """
    store = context.store
    if memory_id and await store.open(create=False):
        whole = await store.memory(user_id, memory_id)
        found = whole or _only(await store.memories(of_user(user_id)), memory_id)
        if found is not None:
            return found
    message = f"user {user_id!r} has no memory {memory_id!r}; `memories` lists what there is"
    raise NotFound(message)


async def find_turn(turn_id: str, user_id: str, context: Context) -> Turn:
    """Return the turn of this id, or the only one whose id starts so.

    Raises:
        NotFound: This user has no such turn.
    """
    store = context.store
    if turn_id and await store.open(create=False):
        whole = (await store.turns_by_id(user_id, [turn_id])).get(turn_id)
        found = whole or _only(await store.turns(user_id), turn_id)
        if found is not None:
            return found
    message = f"user {user_id!r} has no turn {turn_id!r}; `memories show` lists those that a memory comes from"
    raise NotFound(message)


def _only(records: Sequence[Record], start: str) -> Record | None:
    matches = [record for record in records if record.id.startswith(start)]
    return matches[0] if len(matches) == 1 else None
