"""Make one of the drafts that overlapping windows made twice."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.ingestion.grounding import join_repeats
from dualmem.records import IngestReceipt
from dualmem.state import IngestionState


async def dedupe(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:  # noqa: ARG001
    """Join repeated drafts of the batch and put all in time order."""
    first = state["next_window"]
    end = first + state["batch_windows"]
    readings = sorted(
        (reading for reading in state.get("readings", []) if first <= reading.number < end),
        key=lambda reading: reading.number,
    )
    drafts, joined = join_repeats([draft for reading in readings for draft in reading.drafts])
    receipt = IngestReceipt(
        user_id=state["user_id"],
        conversation_id=state["conversation_id"],
        repeated=joined + sum(reading.repeated for reading in readings),
        failures=tuple(failure for reading in readings for failure in reading.failures),
    )
    return {
        "drafts": drafts,
        "batch_turn_ids": [turn_id for reading in readings for turn_id in reading.read_turn_ids],
        "rejected": [reason for reading in readings for reason in reading.rejected],
        "tally": [receipt],
        "next_window": end,
    }
