"""Find the evidence a question may need."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.errors import InputError
from dualmem.retrieval.packing import pack
from dualmem.retrieval.search import search
from dualmem.state import RecallState


async def retrieve(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Search active memories and raw turns, expand lifecycle relations, and pack what fits the budget.

    Raises:
        InputError: There is no question, or the user is missing or blank.
    """
    context = runtime.context
    user_id = clean_user_id(state.get("user_id"))
    question = clean_text(state.get("question") or _asked_in(state))
    if not question:
        message = "there is no question; give one as `question`, or as the last human message of `messages`"
        raise InputError(message)
    scope, asked_at = state.get("scope"), state.get("asked_at")
    found = await search(context, user_id, question, scope=scope, asked_at=asked_at)
    packed = pack(found.units, budget=context.settings.context_tokens, dates=context.settings.temporal)
    standing = await context.store.standing(user_id) if found.stored else []
    return {
        "user_id": user_id,
        "question": question,
        "packed": packed,
        "stored": found.stored,
        "standing": [memory.text for memory in standing],
    }


def _asked_in(state: RecallState) -> str:
    """Return the last human message of a chat, or ""."""
    humans = [message for message in state.get("messages", []) if message.type == "human"]
    return humans[-1].text if humans else ""
