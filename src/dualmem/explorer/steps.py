"""What the nodes of recall and deliberation did, in words, from what they add to the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dualmem.explorer.rendering import plural
from dualmem.records import Answer, ModelCall, PackedContext, Recollection, Verdict

DELIBERATION: Final = "deliberation"
"""The node that is a graph of its own."""

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


def step_name(node: str, deliberating: bool) -> str:  # noqa: FBT001 - a fact about the node
    """Return a node's name as the name of its step."""
    return f"deliberate.{node}" if deliberating else node


def step(node: str, change: Mapping[str, Any] | None, *, deliberating: bool) -> Step:
    """Return what a node did.

    Args:
        node: Its name in its graph.
        change: What it added to the state.
        deliberating: Whether it is a node of the deliberation graph.
    """
    change = change or {}
    answer: Answer | None = change.get("concluded" if deliberating else "drafted")
    verdict: Verdict | None = change.get("final" if deliberating else "verdict")
    return Step(
        name=step_name(node, deliberating),
        lines=tuple(_lines_of_deliberation(node, change) if deliberating else _lines(node, change)),
        answer=answer.text if answer is not None and node == "answer" else "",
        verdict=verdict if node == "gate" else None,
        calls=tuple(change.get("calls") or ()),
        seconds=sum(span.end - span.start for span in change.get("spans") or ()),
        recollection=change.get("recollection"),
    )


def _lines(node: str, change: Mapping[str, Any]) -> list[str]:
    packed: PackedContext | None = change.get("packed")
    if packed is not None:
        return [_packed(packed, "found" if node == "retrieve" else "kept")]
    if node == "filter":
        return ["off, or nothing left out"]
    return [f"route: {change['route']}"] if node == "gate" and change.get("route") else []


def _lines_of_deliberation(node: str, change: Mapping[str, Any]) -> list[str]:
    recollection: Recollection | None = change.get("recollection")
    lines: list[str] = []
    match node:
        case "plan":
            waves = change.get("waves") or []
            lines = [f"{plural(sum(map(len, waves)), 'part')} in {plural(len(waves), 'wave')}"]
        case "extract":
            lines = [_reading(reading) for reading in change.get("readings") or []]
        case "threshold":
            lines = [f"{plural(len(change.get('relevant') or []), 'fact')} above the threshold"]
        case "filter" | "reconcile":
            lines = [
                f"{plural(len(change.get('facts') or []), 'fact')} in hand",
                *map(str, change.get("computed") or []),
            ]
        case "answer" if recollection and recollection.coverage:
            lines = [str(recollection.coverage)]
        case "gate":
            lines = [f"after wave {change.get('wave', 0)}: {'no more' if change.get('satisfied') else 'reads on'}"]
            if change.get("stopped"):
                lines.append(f"stopped: {change['stopped']}")
        case "remember":
            lines = [
                f"{plural(len(recollection.remembered) if recollection else 0, 'memory', 'memories')} written back"
            ]
    return lines


def _reading(reading: Any) -> str:
    facts = plural(len(reading.facts), "fact")
    failure = f"; not read: {reading.failure}" if reading.failure else ""
    return f"part {reading.number + 1}: {plural(reading.turns, 'turn')}, {facts}{failure}"


def _packed(packed: PackedContext, did: str) -> str:
    memories = sum(len(unit.members) for unit in packed.units)
    turns = sum(1 for unit in packed.units if not unit.members)
    left = f", {len(packed.dropped)} left out for want of room" if packed.dropped else ""
    return (
        f"{did} {plural(memories, 'memory', 'memories')} and {plural(turns, 'single turn')} in "
        f"{plural(len(packed.units), 'unit')}, {packed.tokens} tokens{left}"
    )
