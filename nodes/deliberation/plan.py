"""Decide which chunks of the raw history are read, and in which waves."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.deliberation.chunks import cut_chunks, needs_everything, plan_waves
from dualmem.errors import ModelError
from dualmem.records import Turn
from dualmem.retrieval.search import rank_turns
from dualmem.state import DeliberationState


async def plan(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Cut the history into chunks; one wave of all of them, or waves by relevance.

    Exhaustive reading is forced for questions that need all of it. A ranking that fails costs the order of the
    waves, not the reading.
    """
    context = runtime.context
    settings = context.settings
    user_id = clean_user_id(state.get("user_id"))
    question = clean_text(state["question"])
    turns: list[Turn] = []
    if await context.store.open(create=False):
        turns = await context.store.turns(user_id)
    scope = state.get("scope")
    if scope is not None:
        turns = [
            turn
            for turn in turns
            if (not scope.conversation_ids or turn.conversation_id in scope.conversation_ids)
            and (scope.as_of is None or (turn.said_at or turn.recorded_at) <= scope.as_of)
        ]
    chunks = cut_chunks(
        turns,
        most_turns=settings.chunk_turns,
        most_tokens=settings.chunk_tokens,
        overlap=settings.chunk_overlap,
    )
    whole = settings.deliberation == "exhaustive" or needs_everything(question)
    if whole or len(chunks) <= settings.wave_chunks:
        waves = [chunks] if chunks else []
    else:
        try:
            ranked = await rank_turns(context, user_id, question, scope=scope)
        except ModelError:
            ranked = []
        waves = plan_waves(chunks, ranked, _evidence_turns(state), size=settings.wave_chunks)
    return {"user_id": user_id, "question": question, "waves": waves, "wave": 0}


def _evidence_turns(state: DeliberationState) -> list[str]:
    packed = state.get("packed")
    if packed is None:
        return []
    return [
        turn_id
        for unit in packed.units
        for turn_id in (
            *(t for member in unit.members for t in member.memory.turn_ids),
            *(t.id for t in unit.turns),
        )
    ]
