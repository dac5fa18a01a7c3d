"""Write back what deliberation found and memory lacked."""

from __future__ import annotations

from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError, StoreError
from dualmem.identity import memory_id
from dualmem.ingestion.consolidation import consolidate_memories
from dualmem.ingestion.grounding import SAME_CLAIM
from dualmem.records import EvidenceItem, Memory, Source, Turn
from dualmem.retrieval.text import similarity
from dualmem.state import DeliberationState
from dualmem.stores.store import Commit


async def remember(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Make memories of the facts the answer cites, through the same consolidation as any other memory.

    So they can be superseded, and asking again takes the fast route. Where that fails the answer stands all the
    same.
    """
    context = runtime.context
    recollection = state["recollection"]
    if not context.settings.write_back or recollection.route != "deliberate" or recollection.outcome != "answered":
        return {}
    cited = [item for item in recollection.evidence if item.cited and item.memory_id is None]
    user_id = state["user_id"]
    try:
        async with context.store.writer(user_id):
            memories = await _lacking(cited, user_id, context)
            if not memories:
                return {}
            done = await consolidate_memories(memories, context, at=datetime.now(UTC))
            await context.store.commit(
                Commit(
                    user_id,
                    tuple(done.working.memories[key] for key in done.working.new),
                    tuple(done.working.memories[key] for key in done.working.changed),
                )
            )
    except (ModelError, StoreError):
        return {}
    return {"calls": list(done.calls)}


async def _lacking(items: list[EvidenceItem], user_id: str, context: Context) -> list[Memory]:
    """Return memories for those facts that no memory from the same turns says."""
    ids = [turn_id for item in items for turn_id in item.source_turn_ids]
    known = await context.store.memories_from_turns(user_id, ids)
    turns = await context.store.turns_by_id(user_id, ids)
    now = datetime.now(UTC)
    memories = []
    for item in items:
        said = any(
            set(memory.turn_ids) & set(item.source_turn_ids) and similarity(memory.text, item.text) >= SAME_CLAIM
            for memory in known
        )
        sources = [turns[turn_id] for turn_id in item.source_turn_ids if turn_id in turns]
        if not said and sources:
            memories.append(_memory(item, sources, now))
    return sorted(memories, key=lambda memory: memory.told)


def _memory(item: EvidenceItem, sources: list[Turn], now: datetime) -> Memory:
    first = sources[0]
    return Memory(
        id=memory_id(first.user_id, item.text, [turn.id for turn in sources]),
        user_id=first.user_id,
        conversation_id=first.conversation_id,
        text=item.text,
        kind="fact",
        speaker=first.speaker,
        subject=first.speaker,
        valid=item.valid,
        known_at=first.said_at or now,
        recorded_at=now,
        sources=tuple(Source(turn_id=turn.id, quote="") for turn in sources),
        origin="deliberation",
        position=first.position,
    )
