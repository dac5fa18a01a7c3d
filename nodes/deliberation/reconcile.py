"""Bring the facts of all chunks together."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.deliberation.ledger import in_order
from dualmem.state import DeliberationState


async def reconcile(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:  # noqa: ARG001
    """Order the facts by time and join duplicates."""
    return {"facts": in_order(state["facts"])}
