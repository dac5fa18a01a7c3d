"""Make one of the drafts that overlapping windows made twice."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.ingestion.grounding import join_repeats
from dualmem.records import IngestReceipt
from dualmem.state import IngestionState, WindowReading


async def dedupe(state: IngestionState, _runtime: Runtime[Context]) -> IngestionState:
    """Join repeated drafts of the batch and put all in time order."""
    first = state["next_window"]
    end = first + state["batch_windows"]
    readings = sorted(
        (reading for reading in state.get("readings", []) if first <= reading.number < end),
        key=lambda reading: reading.number,
    )
    drafts, joined = join_repeats([draft for reading in readings for draft in reading.drafts])
    rejected = [one for reading in readings for one in reading.rejected]
    receipt = IngestReceipt(
        user_id=state["user_id"],
        conversation_id=state["conversation_id"],
        repeated=joined + sum(reading.repeated for reading in readings),
        failures=tuple(failure for reading in readings for failure in reading.failures),
    )
    return {
        "drafts": drafts,
        "rejections": rejected,
        "batch_turn_ids": _read_to_the_end(state, readings, end),
        "rejected": [one.reason for one in rejected],
        "tally": [receipt],
        "next_window": end,
    }


def _read_to_the_end(state: IngestionState, batch: list[WindowReading], end: int) -> list[str]:
    """Return the turns of a batch of which nothing is left to read, here or in later batches, and nothing was lost.

    A turn longer than a window is read in parts; one that lost a part stays pending as a whole.
    """
    left = {turn.id for window in state.get("windows", [])[end:] for turn in window.turns}
    left |= {turn_id for reading in state.get("readings", []) for turn_id in reading.unread_turn_ids}
    left |= set(state.get("given_up", []))
    return [turn_id for turn_id in dict.fromkeys(t for one in batch for t in one.read_turn_ids) if turn_id not in left]
