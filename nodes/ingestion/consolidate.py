"""Decide how new memories relate to those that are there."""

from __future__ import annotations

from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.ingestion.candidates import memory_of
from dualmem.ingestion.consolidation import consolidate_memories
from dualmem.lifecycle import WorkingSet
from dualmem.records import IngestReceipt
from dualmem.state import IngestionState


async def consolidate(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Turn the batch's drafts into memories and relate them, in time order.

    When the model cannot be reached the batch is given up, and its turns stay pending.
    """
    now = datetime.now(UTC)
    user_id, conversation_id = state["user_id"], state["conversation_id"]
    memories = [
        memory_of(draft, user_id=user_id, conversation_id=conversation_id, now=now) for draft in state["drafts"]
    ]
    try:
        done = await consolidate_memories(memories, runtime.context, at=now)
    except ModelError as error:
        failed = IngestReceipt(user_id=user_id, conversation_id=conversation_id, failures=(str(error),))
        return {"working": WorkingSet(), "group": [], "batch_turn_ids": [], "tally": [failed]}
    receipt = IngestReceipt(
        user_id=user_id,
        conversation_id=conversation_id,
        memories_made=len(done.new),
        memory_ids=tuple(memory.id for memory in done.new),
        merged=done.outcome.done["merge"],
        superseded=done.outcome.done["supersede"],
        contradicted=done.outcome.done["contradict"],
        repeated=len(memories) - len(done.new),
    )
    return {
        "working": done.working,
        "group": list(done.group),
        "rejected": list(done.rejected),
        "tally": [receipt],
        "calls": list(done.calls),
    }
