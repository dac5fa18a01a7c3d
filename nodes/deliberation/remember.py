"""Write back what deliberation found and memory lacked, and close the account."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.context import Context, Span, wall_times
from dualmem.deliberation.budget import Budget
from dualmem.errors import ModelError, StoreError
from dualmem.identity import memory_id
from dualmem.ingestion.consolidation import consolidate_memories
from dualmem.ingestion.grounding import SAME_CLAIM, supported_by
from dualmem.ingestion.suspicion import suspicion_in
from dualmem.records import EvidenceItem, Memory, ModelCall, Recollection, Source, Turn, Usage
from dualmem.retrieval.text import similarity, tokens
from dualmem.state import DeliberationState
from dualmem.stores.commit import Commit
from dualmem.tracing import annotate_run

STEP = "deliberate.remember"

MOST = 8
"""Facts that an answer can cite by themselves. Where there are more, it rests on what was computed from them."""

_LEADING_NAME = re.compile(r"[^\W\d_a-z][\w-]*(?:\s+[^\W\d_a-z][\w-]*)*")


async def remember(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Make memories of the facts the answer cites, through the same consolidation as any other memory.

    So they can be superseded, and asking again takes the fast route. The items of a sum are no such facts: many at
    once, each of little use alone. Where that fails the answer stands all the
    same. Calls that came after the answer (its grade, these decisions) join the account here.
    """
    started = time.time()
    recollection = state["recollection"]
    calls: list[ModelCall] = []
    remembered: tuple[str, ...] = ()
    if _worth_remembering(recollection, state, runtime.context):
        try:
            calls, remembered = await _write_back(state, runtime.context)
        except (ModelError, StoreError) as error:
            runtime.stream_writer({"event": "remember", "failed": str(error)})
    usage = Usage.of([*(state.get("calls") or []), *calls])
    spans = [*(state.get("spans") or []), Span(STEP, started, time.time())]
    settled = {"usage": usage, "timings": wall_times(spans), "remembered": remembered}
    recollection = recollection.model_copy(update=settled)
    annotate_run(recollection)
    return {"recollection": recollection, "calls": calls}


def _worth_remembering(recollection: Recollection, state: DeliberationState, context: Context) -> bool:
    if not context.settings.write_back or recollection.route != "deliberate" or recollection.outcome != "answered":
        return False
    usage = Usage.of(state.get("calls") or [])
    return not Budget.of(context.settings).exceeded(usage.model_copy(update={"calls": usage.calls + 1}))


async def _write_back(state: DeliberationState, context: Context) -> tuple[list[ModelCall], tuple[str, ...]]:
    """Return the calls it took, and the ids of the new memories."""
    recollection, user_id = state["recollection"], state["user_id"]
    cited = [item for item in recollection.evidence if item.cited and item.memory_id is None]
    if len(cited) > MOST:
        return [], ()
    final = recollection.final
    graded = final is not None and final.passed and final.policy == "quality"
    async with context.store.writer(user_id):
        memories = await _lacking(cited, user_id, context, graded=graded)
        if not memories:
            return [], ()
        done = await consolidate_memories(memories, context, at=datetime.now(UTC))
        await context.store.commit(
            Commit(
                user_id,
                tuple(done.working.memories[key] for key in done.working.new),
                tuple(done.working.memories[key] for key in done.working.changed),
            )
        )
    return list(done.calls), tuple(memory.id for memory in done.new)


async def _lacking(items: list[EvidenceItem], user_id: str, context: Context, *, graded: bool) -> list[Memory]:
    """Return memories for those facts that no memory from the same turns says.

    A fact must be in the words of its turns, as at extraction, or the answer graded against them.
    """
    ids = [turn_id for item in items for turn_id in item.source_turn_ids]
    known = await context.store.memories_from_turns(user_id, ids)
    turns = await context.store.turns_by_id(user_id, ids)
    now = datetime.now(UTC)
    memories = []
    texts = await context.resources.redacted([item.text for item in items])
    for item in (item.model_copy(update={"text": text}) for item, text in zip(items, texts, strict=True)):
        said = any(
            set(memory.turn_ids) & set(item.source_turn_ids) and similarity(memory.text, item.text) >= SAME_CLAIM
            for memory in known
        )
        sources = [turns[turn_id] for turn_id in item.source_turn_ids if turn_id in turns]
        if said or not sources:
            continue
        witness = supported_by(item.text, sources, [])
        if witness is not None or graded:
            memories.append(_memory(item, sources, witness, now))
    return sorted(memories, key=lambda memory: memory.told)


def _memory(item: EvidenceItem, sources: list[Turn], witness: tuple[Turn, str] | None, now: datetime) -> Memory:
    """Return the memory of a fact. It is never a standing instruction, whatever it says."""
    first = sources[0]
    quotes = {witness[0].id: witness[1]} if witness is not None else {}
    # What is not the user's alone is not the user's claim.
    others = next((turn for turn in sources if turn.role != "user"), first)
    return Memory(
        id=memory_id(first.user_id, item.text, [turn.id for turn in sources]),
        user_id=first.user_id,
        conversation_id=first.conversation_id,
        agent_id=first.agent_id,
        text=item.text,
        kind="fact",
        speaker=first.speaker,
        role=others.role,
        subject=_subject(item.text) or first.speaker,
        valid=item.valid,
        suspicion=suspicion_in(item.text, quotes.get(others.id, ""), others),
        known_at=first.said_at or now,
        recorded_at=now,
        sources=tuple(Source(turn_id=turn.id, quote=quotes.get(turn.id, "")) for turn in sources),
        origin="deliberation",
        position=first.position,
    )


def _subject(text: str) -> str:
    """Return the name that a statement begins with, "" where it begins with none; facts name whom they are about."""
    found = _LEADING_NAME.match(text)
    name = found[0] if found is not None and found[0][0].isupper() else ""
    return name if tokens(name) else ""
