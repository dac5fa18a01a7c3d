"""Make the turns of a conversation findable."""

from __future__ import annotations

import asyncio

from langgraph.runtime import Runtime

from dualmem.chat import HEAD_START
from dualmem.context import Context
from dualmem.ingestion.grounding import prepare
from dualmem.state import IngestionState


async def index(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Embed and index what is not findable yet, and get ready for what the model finds in it.

    Raises:
        ModelUnavailable: The embedding model failed. The turns are stored, and pending as long as nobody read them.
    """
    store = runtime.context.store
    reading = bool(state["windows"]) and runtime.context.settings.strategy != "verbatim"
    if reading:
        # The requests that read the first windows go out before.
        await asyncio.sleep(HEAD_START)
    async with store.writer(state["user_id"]):
        await store.index_turns(state["user_id"], state["conversation_id"])
    if reading:
        await asyncio.to_thread(prepare)
    return {}
