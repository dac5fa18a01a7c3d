"""Keep the facts that score above the threshold."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.deliberation.support import History, is_supported
from dualmem.state import DeliberationState

RESCUED = 3
"""Weak facts kept in progressive mode when none passes."""


async def threshold(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Sort the facts of all waves by score and drop those at or below the threshold (D-Mem, step 2).

    Where none passes, progressive reading takes the best of the weak ones whose source turns hold a word that the
    question is about; an answer from those alone is graded once more. For a ledger every item counts, weak or not.
    """
    settings = runtime.context.settings
    facts = [fact for reading in state.get("readings", []) for fact in reading.facts]
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.text))
    if state.get("ledger"):
        kept = [fact for fact in ranked if fact.record is not None or fact.score > settings.score_threshold]
        return {"relevant": kept}
    kept = [fact for fact in ranked if fact.score > settings.score_threshold]
    if not kept and settings.deliberation == "progressive":
        history = History.of(chunk for wave in state.get("waves", []) for chunk in wave)
        kept = [fact for fact in ranked if is_supported(fact, state["question"], history)][:RESCUED]
    return {"relevant": kept[: settings.max_facts]}
