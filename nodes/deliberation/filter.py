"""Let a model select the facts that are needed, when there are many."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.deliberation.budget import repairable
from dualmem.errors import ModelError
from dualmem.prompts import fact_filter
from dualmem.state import DeliberationState


async def filter_facts(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Select the strictly necessary facts, above the count only (D-Mem, step 2).

    All stay where the selection fails or keeps nothing, which the result says, and for a ledger, whose items are all
    needed.
    """
    context = runtime.context
    facts = state["relevant"]
    if state.get("ledger") or len(facts) <= context.settings.fact_filter_above:
        return {"facts": facts, "selection_failure": ""}
    prompt = fact_filter.render(facts, state["question"], asked_at=state.get("asked_at"))
    try:
        # The answer and its grade are still to come.
        repair = repairable(prompt, state.get("calls", []), context.settings, after=2)
        reply = await context.chat.ask(prompt, repair=repair)
    except ModelError as error:
        failure = f"all {len(facts)} facts were used, since the selection among them failed: {error}"
        return {"facts": facts, "selection_failure": failure, "calls": list(error.calls)}
    numbers = dict.fromkeys(number for number in reply.value.keep if 1 <= number <= len(facts))
    kept = [facts[number - 1] for number in numbers]
    failure = "" if kept else f"all {len(facts)} facts were used, since the selection among them kept none"
    return {"facts": kept or facts, "selection_failure": failure, "calls": list(reply.calls)}
