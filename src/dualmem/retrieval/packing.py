"""Pack evidence units into a token budget (MemoryLACE, stage II, step 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dualmem.labels import numbered
from dualmem.prompting import evidence_lines
from dualmem.records import EvidenceUnit, Member, PackedContext
from dualmem.retrieval.text import count_tokens

_IMPORTANCE = {"current": 0, "conflicting": 0, "superseded": 1, "supporting": 2}


def pack(units: Sequence[EvidenceUnit], *, budget: int, dates: bool = True) -> PackedContext:
    """Return as many units as `budget` tokens hold, best first.

    A unit goes in whole; one that does not fit gives its most important members (the head and what conflicts with
    it, then earlier states from the latest back, then supporters), its order kept, and its turns go before its
    members do. What stays out is named.
    """
    kept: list[EvidenceUnit] = []
    dropped: list[str] = []
    left = budget
    for unit in units:
        for smaller in _reductions(unit):
            cost = _cost(smaller, dates=dates)
            if cost <= left:
                kept.append(smaller)
                left -= cost
                dropped += _missing(unit, smaller)
                break
        else:
            dropped += _missing(unit, EvidenceUnit((), 0.0))
    memories = [member.memory.id for unit in kept for member in unit.members]
    turns = [turn.id for unit in kept for turn in unit.turns]
    labels = {**numbered(memories, "M"), **numbered(turns, "T")}
    return PackedContext(tuple(kept), tuple(dict.fromkeys(dropped)), budget - left, labels)


def _reductions(unit: EvidenceUnit) -> list[EvidenceUnit]:
    """Return the unit, then ever smaller parts of it."""
    parts = [unit]
    if unit.turns and unit.members:
        parts.append(replace(unit, turns=()))
    order = sorted(range(len(unit.members)), key=lambda place: (_IMPORTANCE[unit.members[place].status], -place))
    for size in range(len(order) - 1, 0, -1):
        chosen = sorted(order[:size])
        members: tuple[Member, ...] = tuple(unit.members[place] for place in chosen)
        parts.append(replace(unit, members=members, turns=()))
    return parts


def _cost(unit: EvidenceUnit, *, dates: bool) -> int:
    labels = {member.memory.id: "M00" for member in unit.members} | {turn.id: "T00" for turn in unit.turns}
    return sum(count_tokens(line) + 1 for line in evidence_lines([unit], labels, dates=dates))


def _missing(whole: EvidenceUnit, part: EvidenceUnit) -> list[str]:
    held = {member.memory.id for member in part.members} | {turn.id for turn in part.turns}
    ids = [member.memory.id for member in whole.members] + [turn.id for turn in whole.turns]
    return [identifier for identifier in ids if identifier not in held]
