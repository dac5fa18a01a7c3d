"""Give the account of an ingestion."""

from __future__ import annotations

from collections import Counter

from langgraph.runtime import Runtime

from dualmem.context import Context, wall_times
from dualmem.records import Usage, combine
from dualmem.state import IngestionState


async def receipt(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Add up what every step did, and count what is still pending."""
    pending = await runtime.context.store.turns(
        state["user_id"], conversation_id=state["conversation_id"], states=("pending",)
    )
    total = combine(
        state["tally"],
        turns_pending=len(pending),
        rejected=dict(Counter(state.get("rejected", []))),
        usage=Usage.of(state.get("calls", [])),
        seconds=sum(wall_times(state.get("spans", [])).values()),
    )
    return {"receipt": total}
