"""Bring the facts of all chunks together, and compute what follows from them."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.deliberation.ledger import compute, in_order
from dualmem.deliberation.questions import needs_intervals
from dualmem.state import DeliberationState


async def reconcile(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Order the facts by time, join duplicates, and compute counts, sums, balances and intervals.

    All facts are counted; the best of them go into the answer's prompt.
    """
    settings = runtime.context.settings
    facts = in_order(state["facts"])
    computed: list[str] = []
    if settings.ledger:
        computed = compute(facts, asked_at=state.get("asked_at"), intervals=needs_intervals(state["question"]))
    if len(facts) > settings.max_facts:
        best = sorted(range(len(facts)), key=lambda place: -facts[place].score)[: settings.max_facts]
        facts = [facts[place] for place in sorted(best)]
    return {"facts": facts, "computed": computed}
