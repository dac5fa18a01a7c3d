"""Write what a batch changed, as a whole."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.state import IngestionState
from dualmem.stores.commit import Commit


async def commit(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Store the new memories and the changed ones, and mark the turns they come from as read."""
    working = state["working"]
    store = runtime.context.store
    await store.commit(
        Commit(
            user_id=state["user_id"],
            new=tuple(working.memories[memory_id] for memory_id in working.new),
            changed=tuple(working.memories[memory_id] for memory_id in working.changed),
            read_turn_ids=tuple(state["batch_turn_ids"]),
        )
    )
    return {}
