"""What the nodes of recall and deliberation did, in words, from what they add to the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dualmem.records import Answer, Coverage, ModelCall, PackedContext, Recollection, Verdict

_HEADINGS: Final = {
    "retrieve": "Retrieve",
    "filter": "Filter",
    "answer": "Answer",
    "gate": "Gate",
    "deliberate.plan": "Plan the reading",
    "deliberate.extract": "Read a part of the history",
    "deliberate.threshold": "Keep what is relevant enough",
    "deliberate.filter": "Select facts",
    "deliberate.reconcile": "Reconcile facts",
    "deliberate.answer": "Answer from facts",
    "deliberate.gate": "Gate after a wave",
    "deliberate.remember": "Write back",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step that was done."""

    name: str
    lines: tuple[str, ...] = ()
    answer: str = ""
    verdict: Verdict | None = None
    calls: tuple[ModelCall, ...] = ()
    seconds: float = 0.0
    recollection: Recollection | None = None

    @property
    def heading(self) -> str:
        """The step's name as a person reads it."""
        return heading(self.name)

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Tokens in, tokens out, and tokens in that were cached."""
        return (
            sum(call.tokens_in for call in self.calls),
            sum(call.tokens_out for call in self.calls),
            sum(call.tokens_cached for call in self.calls),
        )


def heading(name: str) -> str:
    """Return a step's name as a person reads it."""
    return _HEADINGS.get(name, name)


def step(node: str, change: Mapping[str, Any] | None, *, deliberating: bool) -> Step | None:
    """Return what a node did; None for a node that is a graph of its own, whose steps were told already.

    Args:
        node: Its name in its graph.
        change: What it added to the state.
        deliberating: Whether it is a node of the deliberation graph.
    """
    if not deliberating and node == "deliberation":
        return None
    change = change or {}
    seconds = sum(span.end - span.start for span in change.get("spans") or [])
    answer: Answer | None = change.get("concluded" if deliberating else "drafted")
    verdict: Verdict | None = change.get("final") if deliberating else change.get("verdict")
    return Step(
        name=f"deliberate.{node}" if deliberating else node,
        lines=tuple(_lines(node, change, deliberating=deliberating)),
        answer=answer.text if answer is not None and node == "answer" else "",
        verdict=verdict if node == "gate" else None,
        calls=tuple(change.get("calls") or ()),
        seconds=seconds,
        recollection=change.get("recollection"),
    )


def _lines(node: str, change: Mapping[str, Any], *, deliberating: bool) -> list[str]:
    if deliberating:
        return _lines_of_deliberation(node, change)
    packed: PackedContext | None = change.get("packed")
    if packed is not None:
        return [_packed(packed, "found" if node == "retrieve" else "kept")]
    if node == "filter":
        return ["off, or nothing left out"]
    return [f"route: {change['route']}"] if node == "gate" and change.get("route") else []


def _lines_of_deliberation(node: str, change: Mapping[str, Any]) -> list[str]:
    if node == "plan":
        waves = change.get("waves") or []
        return [f"{sum(len(wave) for wave in waves)} parts in {len(waves)} waves"]
    if node == "extract":
        return [_reading(reading) for reading in change.get("readings") or []]
    counted = (("relevant", "above the threshold"), ("facts", "facts in hand"))
    return [f"{len(change[key])} {words}" for key, words in counted if key in change]


def _reading(reading: Any) -> str:
    facts = f"{len(reading.facts)} facts"
    failure = f"; not read: {reading.failure}" if reading.failure else ""
    return f"part {reading.number + 1}: {reading.turns} turns, {facts}{failure}"


def _packed(packed: PackedContext, did: str) -> str:
    memories = sum(len(unit.members) for unit in packed.units)
    turns = sum(1 for unit in packed.units if not unit.members)
    left = f", {len(packed.dropped)} left out for want of room" if packed.dropped else ""
    return (
        f"{did} {memories} memories and {turns} single turns in {len(packed.units)} units, {packed.tokens} tokens{left}"
    )


def note(event: Any) -> str:
    """Return what a node said while it ran, in words; "" for what its step says anyway."""
    if not isinstance(event, Mapping):
        return ""
    match event.get("event"):
        case "wave":
            passed = "satisfied" if event.get("passed") else "reads on"
            return f"wave {event.get('wave')}: {passed}. {event.get('reason') or ''}".strip()
        case "coverage":
            return str(Coverage.model_validate(event["coverage"]))
        case "check":
            said = "stands" if event.get("passed") else "does not stand"
            return f"the answer {said}. {event.get('reason') or ''}".strip()
        case "remember":
            return f"not written back: {event['failed']}" if event.get("failed") else ""
    return ""
