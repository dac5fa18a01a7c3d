"""Decide how new memories relate to those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.ingestion.candidates import memory_of
from dualmem.ingestion.consolidation import consolidate_memories
from dualmem.ingestion.rereading import take_out
from dualmem.lifecycle import WorkingSet
from dualmem.records import Draft, IngestReceipt
from dualmem.state import IngestionState

FORGOTTEN = "its turns were forgotten meanwhile"


async def consolidate(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Turn the batch's drafts into memories and relate them, in time order.

    What came from turns that were forgotten while a model was reading them is left out. What was extracted before from
    turns that are read again makes room. When the model cannot be reached the batch is given up, and its turns stay
    pending.
    """
    now = datetime.now(UTC)
    user_id, conversation_id = state["user_id"], state["conversation_id"]
    drafts = await _with_sources(state["drafts"], runtime.context)
    memories = [memory_of(draft, user_id=user_id, conversation_id=conversation_id, now=now) for draft in drafts]
    orphans = [FORGOTTEN] * (len(state["drafts"]) - len(drafts))
    rereading = await take_out(user_id, state["batch_turn_ids"], runtime.context)
    try:
        done = await consolidate_memories(memories, runtime.context, at=now, rereading=rereading)
    except ModelError as error:
        failed = IngestReceipt(user_id=user_id, conversation_id=conversation_id, failures=(str(error),))
        lost = dict.fromkeys(turn_id for draft in drafts for turn_id in (s.turn_id for s in draft.sources))
        return {
            "working": WorkingSet(),
            "group": [],
            "batch_turn_ids": [],
            "given_up": [*state["batch_turn_ids"], *lost],
            "rejected": orphans,
            "tally": [failed],
        }
    receipt = IngestReceipt(
        user_id=user_id,
        conversation_id=conversation_id,
        memories_made=len(done.new),
        memory_ids=tuple(memory.id for memory in done.new),
        merged=done.outcome.done["merge"] + done.outcome.done["compact"],
        superseded=done.outcome.done["supersede"],
        contradicted=done.outcome.done["contradict"],
        repeated=len(memories) - len(done.new),
        suspicious=sum(bool(memory.suspicion) for memory in done.new),
        quarantined=sum(memory.state == "quarantined" for memory in done.new),
    )
    return {
        "working": done.working,
        "group": list(done.group),
        "rejected": [*orphans, *done.rejected],
        "tally": [receipt],
        "calls": list(done.calls),
    }


async def _with_sources(drafts: Sequence[Draft], context: Context) -> list[Draft]:
    """Return the drafts whose turns are still there, without the sources that are not."""
    ids = dict.fromkeys(source.turn_id for draft in drafts for source in draft.sources)
    there = await context.store.known_turns(list(ids))
    if len(there) == len(ids):
        return list(drafts)
    kept = [
        draft.model_copy(update={"sources": tuple(s for s in draft.sources if s.turn_id in there)}) for draft in drafts
    ]
    return [draft for draft in kept if draft.sources]
