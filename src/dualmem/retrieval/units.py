"""Expand what was found into evidence units and order them (MemoryLACE, stage II, steps 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dualmem.records import Candidate, EvidenceUnit, Interval, Member, Memory, Status
from dualmem.retrieval.text import tokens
from dualmem.retrieval.times import overlap

_WORDS = 0.03
"""What all words of the question are worth, beside a best fused score of 1."""

_READ = 10
"""Units whose words are compared."""

_DATE = 0.25
"""What a date that meets the question's is worth."""


def expand(
    candidates: Sequence[Candidate], known: Mapping[str, Memory], *, lifecycle: bool = True
) -> list[EvidenceUnit]:
    """Return one unit for each group of linked candidates, best first.

    A unit holds a candidate's chain from the earliest state to the head, the memories that contradict its head,
    and its merge partners. A memory stands in one unit, that of the best candidate it is linked to.

    Args:
        candidates: What the rankings found, best first.
        known: The memories their links lead to, by id.
        lifecycle: False leaves each candidate alone (MemoryLACE's ablation).
    """
    units: list[EvidenceUnit] = []
    taken: set[str] = set()
    for candidate in candidates:
        memory = known.get(candidate.memory.id, candidate.memory)
        if memory.id in taken:
            continue
        members = [Member(memory, "current")]
        if lifecycle and (memory.links or not memory.active):
            members = [member for member in _members(memory, known) if member.memory.id not in taken]
        taken.update(member.memory.id for member in members)
        units.append(EvidenceUnit(tuple(members), candidate.score, shares=candidate.shares))
    return units


def _members(memory: Memory, known: Mapping[str, Memory]) -> list[Member]:
    chain = chain_of(memory, known)
    head = chain[-1]
    conflicts = [known[other] for other in head.linked("contradicts") if other in known and known[other].active]
    partners = [known[other] for other in head.linked("merged_with") if other in known and known[other].active]
    seen = {state.id for state in chain}
    members = [Member(state, "superseded") for state in chain[:-1]]
    status: Status = "conflicting" if conflicts else "current" if head.active else "superseded"
    members.append(Member(head, status))
    members += [Member(other, "conflicting") for other in sorted(conflicts, key=_told) if other.id not in seen]
    seen.update(other.id for other in conflicts)
    members += [Member(other, "supporting") for other in sorted(partners, key=_told) if other.id not in seen]
    return members


def chain_of(memory: Memory, known: Mapping[str, Memory]) -> list[Memory]:
    """Return the chain of superseded states a memory is part of, from earliest to head, as far as it is known."""
    first = memory
    seen = {memory.id}
    while (earlier := first.linked("supersedes")) and earlier[0] in known and earlier[0] not in seen:
        first = known[earlier[0]]
        seen.add(first.id)
    chain = [first]
    seen = {first.id}
    while (later := chain[-1].linked("superseded_by")) and later[0] in known and later[0] not in seen:
        chain.append(known[later[0]])
        seen.add(later[0])
    return chain


def _told(memory: Memory) -> tuple[object, ...]:
    return (*memory.told, memory.id)


def rerank(units: Sequence[EvidenceUnit], question: str, asked_for: Interval | None) -> list[EvidenceUnit]:
    """Reorder units by their words and dates.

    A unit's fused score is raised a little by the share of the question's words that its members and turns hold
    together, and by a date that meets the one the question names. Cheap: no model is called, and only the words of
    the first units are looked at.

    Args:
        units: Best first.
        question: As asked.
        asked_for: The time the question names.
    """
    words = set(tokens(question))
    best = max((unit.score for unit in units), default=0.0) or 1.0

    def score(place: int, unit: EvidenceUnit) -> float:
        dated = _DATE if asked_for and _meets(unit, asked_for) else 0.0
        if place >= _READ:
            return unit.score / best + dated
        texts = [member.memory.text for member in unit.members] + [turn.text for turn in unit.turns]
        share = len(words & set(tokens(" ".join(texts)))) / len(words) if words else 0.0
        return unit.score / best + _WORDS * share + dated

    scored = [replace(unit, score=score(place, unit)) for place, unit in enumerate(units)]
    order = sorted(range(len(scored)), key=lambda place: (-scored[place].score, place))
    return [scored[place] for place in order]


def _meets(unit: EvidenceUnit, asked_for: Interval) -> bool:
    return any(
        member.memory.valid is not None and overlap(member.memory.valid, asked_for) for member in unit.members
    ) or any(
        turn.said_at is not None and overlap(Interval(start=turn.said_at, end=turn.said_at), asked_for)
        for turn in unit.turns
    )
