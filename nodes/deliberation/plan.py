"""Decide which chunks of the raw history are read, and in which waves."""

from __future__ import annotations

import time

from langgraph.runtime import Runtime

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.deliberation.budget import affordable
from dualmem.deliberation.planning import waves_of, within
from dualmem.deliberation.questions import needs_ledger
from dualmem.errors import InputError
from dualmem.inputs import scope_of, time_of
from dualmem.records import Turn
from dualmem.state import DeliberationState


async def plan(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Cut the history into chunks; one wave of all of them, or waves by relevance.

    Exhaustive reading is forced for questions that need all of it. A ranking that fails costs the order of the
    waves, not the reading.

    Raises:
        InputError: The user is missing or blank, there is no question, or the scope or the time cannot be used.
        ConfigurationError: A limit of money is set, and no price.
    """
    context = runtime.context
    settings = context.settings
    user_id = clean_user_id(state.get("user_id"))
    question = clean_text(state["question"])
    if not question:
        message = "there is no question; give one as `question`"
        raise InputError(message)
    question = await context.redacted(question)
    scope, asked_at = scope_of(state.get("scope")), time_of(state.get("asked_at"))
    turns: list[Turn] = []
    if await context.store.open(create=False):
        turns = await context.store.turns(user_id)
    stored = bool(state.get("stored")) or bool(turns)
    waves = await waves_of(within(turns, scope), user_id, question, context, scope=scope, seen=_seen(state))
    ledger = settings.ledger and needs_ledger(question)
    deadline = _started(state) + settings.budget_seconds if settings.budget_seconds is not None else None
    due = affordable(
        waves[0] if waves else [],
        state.get("calls", []),
        settings,
        question=question,
        asked_at=asked_at,
        ledger=ledger,
        deadline=deadline,
    )
    verdict = state.get("verdict")
    update: DeliberationState = {
        "user_id": user_id,
        "question": question,
        "stored": stored,
        "waves": waves,
        "wave": 0,
        "due": list(due.chunks),
        "spare": None if due.spare is None else list(due.spare),
        "stopped": due.stopped,
        "deadline": deadline,
        "ledger": ledger,
        "missing": verdict.missing if verdict is not None else "",
    }
    if asked_at is not None:
        update["asked_at"] = asked_at
    return update


def _started(state: DeliberationState) -> float:
    """Return when the question was begun: the budget of seconds counts the fast answer too."""
    return min((span.start for span in state.get("spans", [])), default=time.time())


def _seen(state: DeliberationState) -> list[str]:
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
