"""Carry out what a model decided, as far as the rules allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dualmem.ingestion.grounding import FIRST_PERSON
from dualmem.lifecycle import WorkingSet
from dualmem.records import Memory
from dualmem.retrieval.text import tokens

Strategy = Literal["supersede", "contradict", "merge", "absorb"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A relation that a model proposes between a later memory and an earlier one."""

    later_id: str
    earlier_id: str
    strategy: Strategy
    reason: str


@dataclass
class Outcome:
    """What was done of a list of proposals."""

    done: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)


def carry_out(proposals: Sequence[Proposal], working: WorkingSet, *, at: datetime, retirements: int) -> Outcome:
    """Apply `proposals` to `working`, in order.

    Refused are proposals between different subjects, those that the lifecycle's invariants exclude, and those
    beyond the cap on retirements.

    Args:
        proposals: Between memories that `working` holds.
        working: Is changed.
        at: When it is decided.
        retirements: Most memories that may be superseded.
    """
    outcome = Outcome()
    for proposal in proposals:
        later, earlier = working.memories.get(proposal.later_id), working.memories.get(proposal.earlier_id)
        if later is None or earlier is None:
            outcome.refused.append(f"{proposal.strategy}: a memory that another one absorbed")
            continue
        if proposal.strategy in {"supersede", "contradict"} and not same_subject(later, earlier):
            outcome.refused.append(f"{proposal.strategy}: another subject")
            continue
        if proposal.strategy == "supersede":
            if outcome.done["supersede"] >= retirements:
                outcome.refused.append("supersede: more than one batch may retire")
                continue
            refusal = working.supersede(later.id, earlier.id, reason=proposal.reason, at=at)
        elif proposal.strategy == "contradict":
            refusal = working.contradict(later.id, earlier.id, reason=proposal.reason, at=at)
        elif proposal.strategy == "absorb":
            refusal = working.absorb(later.id, earlier.id)
        else:
            refusal = working.merge(later.id, earlier.id, reason=proposal.reason, at=at)
        if refusal:
            outcome.refused.append(f"{proposal.strategy}: {refusal}")
        else:
            outcome.done[proposal.strategy] += 1
    return outcome


def same_subject(left: Memory, right: Memory) -> bool:
    """Whether two memories are about one subject: the same, or one that the other's statement names.

    An unnamed subject is the speaker.
    """
    ours, theirs = _subject(left), _subject(right)
    return bool(
        ours & theirs or (ours and ours <= set(tokens(right.text))) or (theirs and theirs <= set(tokens(left.text)))
    )


def same_attribute(left: Memory, right: Memory) -> bool:
    """Whether two memories say something about the same attribute, by a common word of its name."""
    return bool(set(tokens(left.attribute)) & set(tokens(right.attribute)))


def _subject(memory: Memory) -> set[str]:
    name = memory.subject if memory.subject.casefold() not in FIRST_PERSON else memory.speaker
    found = set(tokens(name))
    # Single signs of a script without spaces are shared by many names.
    return {token for token in found if len(token) > 1} or found
