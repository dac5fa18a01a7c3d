"""Review a batch once more as a group."""

from __future__ import annotations

from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.ingestion.decisions import Proposal, Strategy, carry_out
from dualmem.labels import letters
from dualmem.prompts import evolution
from dualmem.records import IngestReceipt
from dualmem.state import IngestionState

GROUP = 60
"""Memories reviewed in one call."""

_STRATEGIES: dict[str, Strategy] = {
    "replaces": "supersede",
    "conflicts_with": "contradict",
    "same_as": "merge",
}


async def evolve(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Add links that show only in the group; text is never changed (MemoryLACE, stage I, step 4).

    The review is a refinement: where it fails, what was decided before stands, and the failure is counted.
    """
    context = runtime.context
    working = state["working"]
    group = sorted(
        (memory for memory_id in state["group"] if (memory := working.memories[memory_id]).active),
        key=lambda memory: memory.told,
    )[-GROUP:]
    # One alone has no relations, and those among what was there before were looked for then.
    if not context.settings.evolution or len(group) <= 1 or not any(memory.id in working.new for memory in group):
        return {}
    labels = letters(memory.id for memory in group)
    ids = {label: memory_id for memory_id, label in labels.items()}
    try:
        reply = await context.chat.ask(evolution.render(group, labels, dates=context.settings.temporal))
    except ModelError as error:
        return {"rejected": [f"batch review: {error}"]}
    proposals: list[Proposal] = []
    rejected = ["malformed relation"] * reply.value.malformed
    for related in reply.value.relations:
        later, earlier = ids.get(related.later.strip("[] ")), ids.get(related.earlier.strip("[] "))
        if later is None or earlier is None:
            rejected.append("relation of a memory that was not offered")
            continue
        if working.memories[later].told < working.memories[earlier].told:
            later, earlier = earlier, later
        proposals.append(Proposal(later, earlier, _STRATEGIES[related.relation], related.reason))
    done = state["tally"][-1].superseded  # by this batch's consolidation
    outcome = carry_out(
        proposals, working, at=datetime.now(UTC), retirements=max(0, context.settings.retirements - done)
    )
    receipt = IngestReceipt(
        user_id=state["user_id"],
        conversation_id=state["conversation_id"],
        merged=outcome.done["merge"],
        superseded=outcome.done["supersede"],
        contradicted=outcome.done["contradict"],
    )
    return {
        "working": working,
        "rejected": [*rejected, *outcome.refused],
        "tally": [receipt],
        "calls": list(reply.calls),
    }
