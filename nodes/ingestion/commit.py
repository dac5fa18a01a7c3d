"""Write what a batch changed, as a whole."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.ingestion.rejections import to_keep
from dualmem.state import IngestionState
from dualmem.stores.commit import Commit


async def commit(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Store the new memories, the changed ones and what was refused, and mark the turns they come from as read."""
    working = state["working"]
    store = runtime.context.store
    rejections, dropped = await to_keep(state.get("rejections", []), store)
    outdated = await store.outdated(state["user_id"])
    left = tuple(key for key in outdated if key not in working.removed and key not in working.new)
    await store.commit(
        Commit(
            user_id=state["user_id"],
            new=tuple(working.memories[memory_id] for memory_id in working.new),
            changed=tuple(working.memories[memory_id] for memory_id in working.changed),
            read_turn_ids=tuple(state["batch_turn_ids"]),
            rejections=rejections,
            forgotten_ids=tuple(working.removed),
            forgotten_rejection_ids=dropped,
            outdated=None if left == outdated else left,
        )
    )
    return {}
