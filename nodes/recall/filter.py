"""Let a model keep only the evidence that helps."""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.prompts import memory_filter
from dualmem.prompts.evidence import evidence_part
from dualmem.records import EvidenceUnit, PackedContext
from dualmem.state import RecallState


async def filter_evidence(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Drop the evidence units that do not help to answer (D-Mem, filter), by a model's choice or by their score.

    Everything stays where the filter is off, keeps nothing, or fails; that it failed is told.
    """
    context = runtime.context
    packed = state["packed"]
    if context.settings.memory_filter == "off" or not packed.units:
        return {}
    if context.settings.memory_filter == "score":
        least = context.settings.filter_score
        good = tuple(unit for unit in packed.units if unit.score >= least)
        return {"packed": _only(packed, good)} if good else {}
    prompt = memory_filter.render(
        evidence_part(packed.units, packed.labels, dates=context.settings.temporal),
        state["question"],
        labels=list(packed.labels.values()),
        asked_at=state.get("asked_at"),
    )
    try:
        reply = await context.chat.ask(prompt)
    except ModelError as error:
        failures = [state.get("ranking_failure", ""), f"the filter failed: {error}"]
        return {"calls": list(error.calls), "ranking_failure": "; ".join(filter(None, failures))}
    kept = set(reply.value.keep)
    units = tuple(
        unit
        for unit in packed.units
        if kept
        & {packed.labels[item] for item in (*(m.memory.id for m in unit.members), *(turn.id for turn in unit.turns))}
    )
    calls = list(reply.calls)
    return {"packed": _only(packed, units), "calls": calls} if units else {"calls": calls}


def _only(packed: PackedContext, units: tuple[EvidenceUnit, ...]) -> PackedContext:
    shown = {item for unit in units for item in (*(m.memory.id for m in unit.members), *(t.id for t in unit.turns))}
    labels = {item: label for item, label in packed.labels.items() if item in shown}
    return replace(packed, units=units, labels=labels)
