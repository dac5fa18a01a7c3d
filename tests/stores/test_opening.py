"""Opening a store that another version made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import StoreError
from dualmem.stores.opening import IDENTITY, SCHEMA
from dualmem.stores.payload import CONTROL, MEMORIES, of_user
from dualmem.testing import ScriptedChatModel

LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.", "Ana: Ana likes figs.")


async def test_a_store_of_an_earlier_version_is_searched_as_before(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Callable[..., Any]
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of(*LINES), user_id="ana")
    backend = memory.resources.store._backend
    before = await memory.search("Where does Ana live?", user_id="ana")
    everything = [memory_id for memory_id, _ in await backend.scroll(MEMORIES, of_user("ana"), ids_only=True)]
    await backend.set_payload(MEMORIES, everything, {"active_of": None})
    await backend.set_payload(CONTROL, [IDENTITY], {"schema": 1})
    await memory.close()
    assert await memory.search("Where does Ana live?", user_id="ana") == before
    assert (await backend.retrieve(CONTROL, [IDENTITY]))[IDENTITY]["schema"] == SCHEMA


async def test_a_store_of_a_later_version_is_left_alone(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Callable[..., Any]
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of(*LINES), user_id="ana")
    await memory.resources.store._backend.set_payload(CONTROL, [IDENTITY], {"schema": SCHEMA + 1})
    await memory.close()
    with pytest.raises(StoreError, match="later version"):
        await memory.search("Where?", user_id="ana")
