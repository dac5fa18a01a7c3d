"""Which part of the history is read for a question, in which order."""

from __future__ import annotations

from dualmem.context import Context
from dualmem.deliberation.chunks import cut_chunks, plan_waves
from dualmem.deliberation.questions import needs_everything
from dualmem.errors import ModelError
from dualmem.records import Scope, Turn
from dualmem.searching.turns import rank_turns
from dualmem.state import Chunk


async def waves_of(
    turns: list[Turn],
    user_id: str,
    question: str,
    context: Context,
    *,
    scope: Scope | None = None,
    seen: list[str] | None = None,
) -> list[list[Chunk]]:
    """Return the chunks of `turns` in the waves in which they are read; no chat model is called.

    Args:
        turns: The history, conversation by conversation.
        user_id: Whose it is.
        question: As asked.
        context: Settings, store and embedding model.
        scope: Narrows the search that ranks them.
        seen: Ids of the turns behind the evidence of the fast answer.
    """
    settings = context.settings
    chunks = cut_chunks(
        turns,
        most_turns=settings.chunk_turns,
        most_tokens=settings.chunk_tokens,
        overlap=settings.chunk_overlap,
    )
    if not chunks:
        return []
    whole = settings.deliberation == "exhaustive" or needs_everything(question)
    limited = any((settings.budget_calls, settings.budget_tokens, settings.budget_seconds, settings.budget_cost))
    if not limited and (whole or len(chunks) <= settings.wave_chunks):
        return [chunks]
    try:
        ranked = await rank_turns(context, user_id, question, scope=scope)
    except ModelError:
        ranked = []
    size = len(chunks) if whole else settings.wave_chunks
    return plan_waves(chunks, ranked, seen or [], size=size)


def within(turns: list[Turn], scope: Scope | None) -> list[Turn]:
    """Return the turns that a scope leaves; all without one."""
    if scope is None:
        return turns
    return [
        turn
        for turn in turns
        if (not scope.conversation_ids or turn.conversation_id in scope.conversation_ids)
        and (not scope.agent_ids or turn.agent_id in scope.agent_ids)
        and (scope.as_of is None or (turn.said_at or turn.recorded_at) <= scope.as_of)
        and scope.covers(turn.said_at)
    ]
