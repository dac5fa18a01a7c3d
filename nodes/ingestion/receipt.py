"""Give the account of an ingestion."""

from __future__ import annotations

from collections import Counter

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.records import Usage, combine
from dualmem.state import IngestionState


async def receipt(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Add up what every step did, and count what is still pending."""
    pending = await runtime.context.store.turns(
        state["user_id"], conversation_id=state["conversation_id"], states=("pending",)
    )
    spans = state.get("spans", [])
    total = combine(
        state["tally"],
        turns_pending=len(pending),
        rejected=dict(Counter(state.get("rejected", []))),
        usage=Usage.of(state.get("calls", [])),
        seconds=round(max(span.end for span in spans) - min(span.start for span in spans), 4) if spans else 0.0,
    )
    return {"receipt": total}
