"""Find the evidence a question may need."""

from __future__ import annotations

from langchain_core.messages import convert_to_messages
from langgraph.runtime import Runtime

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.errors import InputError
from dualmem.inputs import scope_of, time_of
from dualmem.retrieval.packing import pack
from dualmem.searching.search import search
from dualmem.state import RecallState


async def retrieve(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Search active memories and raw turns, expand lifecycle relations, and pack what fits the budget.

    Raises:
        InputError: There is no question, or the user is missing or blank.
    """
    context = runtime.context
    user_id = clean_user_id(state.get("user_id"))
    question = clean_text(state.get("question") or _asked_in(state))
    scope, asked_at = scope_of(state.get("scope")), time_of(state.get("asked_at"))
    if not question:
        message = "there is no question; give one as `question`, or as the last human message of `messages`"
        raise InputError(message)
    question = await context.redacted(question)
    found = await search(context, user_id, question, scope=scope, asked_at=asked_at)
    packed = pack(found.units, budget=context.settings.context_tokens, dates=context.settings.temporal)
    standing = await context.store.standing(user_id) if found.stored else []
    update: RecallState = {
        "user_id": user_id,
        "question": question,
        "packed": packed,
        "stored": found.stored,
        "standing": [memory.text for memory in standing],
        "ranking_failure": found.degraded,
        "calls": list(found.calls),
    }
    if scope is not None:
        update["scope"] = scope
    if asked_at is not None:
        update["asked_at"] = asked_at
    return update


def _asked_in(state: RecallState) -> str:
    """Return the last human message of a chat, or ""; over HTTP it comes as dictionaries."""
    humans = [message for message in convert_to_messages(state.get("messages", [])) if message.type == "human"]
    return humans[-1].text if humans else ""
