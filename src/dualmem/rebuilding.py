"""Make a store anew: with vectors of another model, or with memories extracted again from the raw turns."""

from __future__ import annotations

from collections.abc import Callable

from dualmem.context import Context
from dualmem.errors import StoreError
from dualmem.records import CopyReceipt, Turn
from dualmem.stores.backend import batches
from dualmem.stores.commit import Commit
from dualmem.stores.payload import of_user
from dualmem.stores.store import Store

AT_ONCE = 500
"""Memories copied in one commit."""

Progress = Callable[[str, int], None]
"""Is told a user and how many of their turns and memories were copied."""


async def copy_store(source: Store, target: Store, *, progress: Progress | None = None) -> CopyReceipt:
    """Copy every user's turns, memories and rejected drafts into another store, which embeds with its own model.

    What is there already is passed over, so that a run that was interrupted is taken up by another one.

    Args:
        source: Its embedding model is not needed.
        target: Is made where it does not exist.
        progress: Is told of each user.

    Raises:
        StoreError: There is no store to copy.
        EmbeddingMismatch: The target exists and was made with another model.
        ModelUnavailable: The embedding model failed; what was copied stays.
    """
    if not await source.open(create=False):
        message = "there is no store to copy; DUALMEM_STORE or --store names it"
        raise StoreError(message)
    totals = {"turns": 0, "memories": 0, "known": 0}
    users = sorted(await source.users())
    for user_id in users:
        turns, memories = await source.turns(user_id), await source.memories(of_user(user_id))
        async with target.writer(user_id):
            fresh = await target.add_turns(turns)
            for conversation_id in await target.unindexed(user_id):
                await target.index_turns(user_id, conversation_id)
            there = await target.memories_by_id(user_id, [memory.id for memory in memories])
            missing = [memory for memory in memories if memory.id not in there]
            for batch in batches(missing, AT_ONCE):
                await target.commit(Commit(user_id, new=tuple(batch)))
            await target.commit(Commit(user_id, rejections=tuple(await source.rejections(user_id))))
        totals["turns"] += len(fresh)
        totals["memories"] += len(missing)
        totals["known"] += len(turns) - len(fresh) + len(there)
        if progress is not None:
            progress(user_id, len(turns) + len(memories))
    return CopyReceipt(users=len(users), **totals)


async def set_back(user_id: str, context: Context, *, conversation_id: str | None = None) -> list[str]:
    """Have a user's turns read again; what was extracted from them alone is outdated, and goes when they have been.

    Memories that also come from other turns stay, and so do imported ones. Drafts that were refused go at once.

    Returns:
        The conversations to be read, the earliest first.
    """
    store = context.store
    if not await store.open(create=False):
        return []
    async with store.writer(user_id):
        turns: list[Turn] = await store.turns(user_id, conversation_id=conversation_id, states=("pending", "read"))
        ids = {turn.id for turn in turns}
        outdated = [
            memory.id
            for memory in await store.memories(of_user(user_id))
            if memory.origin != "import" and memory.turn_ids and set(memory.turn_ids) <= ids
        ]
        rejections = await store.rejections(user_id, conversation_id)
        await store.commit(
            Commit(
                user_id,
                unread_turn_ids=tuple(sorted(ids)),
                forgotten_rejection_ids=tuple(one.id for one in rejections),
                outdated=tuple(dict.fromkeys((*await store.outdated(user_id), *outdated))),
            )
        )
    return list(dict.fromkeys(turn.conversation_id for turn in turns))
