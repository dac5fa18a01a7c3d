"""Keep the facts that score above the threshold."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.state import DeliberationState

RESCUED = 3
"""Facts kept in progressive mode when none passes: weak evidence is better than none."""


async def threshold(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Sort the facts of all waves by score and drop those at or below the threshold (D-Mem, step 2)."""
    settings = runtime.context.settings
    facts = [fact for reading in state.get("readings", []) for fact in reading.facts]
    ranked = sorted(facts, key=lambda fact: (-fact.score, fact.text))
    kept = [fact for fact in ranked if fact.score > settings.score_threshold]
    if not kept and settings.deliberation == "progressive":
        kept = ranked[:RESCUED]
    return {"relevant": kept[: settings.max_facts]}
