"""Make the turns of a conversation findable."""

from __future__ import annotations

import asyncio
from typing import Final

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.state import IngestionState

HEAD_START: Final = 0.03
"""Seconds in which the requests that read the first windows get under way; indexing has the time of their replies."""


async def index(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Embed and index what is not findable yet.

    Raises:
        ModelUnavailable: The embedding model failed. The turns are stored, and pending as long as nobody read them.
    """
    store = runtime.context.store
    if state["windows"] and runtime.context.settings.strategy != "verbatim":
        await asyncio.sleep(HEAD_START)
    async with store.writer(state["user_id"]):
        await store.index_turns(state["user_id"], state["conversation_id"])
    return {}
