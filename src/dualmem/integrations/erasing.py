"""Erase a memory together with what it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualmem.memory import DualMem
    from dualmem.records import ForgetReceipt, Memory


async def erase(memory: DualMem, found: Memory) -> list[ForgetReceipt]:
    """Erase a memory and the turns it comes from.

    The turns go too, since recall would find the same in them again; with them go other memories that came from
    them alone.
    """
    user_id = found.user_id
    receipts = [await memory.forget(user_id=user_id, turn_id=turn.id) for turn in await memory.sources(found)]
    if not any(receipt.memories for receipt in receipts):
        receipts.append(await memory.forget(user_id=user_id, memory_id=found.id))
    return receipts
