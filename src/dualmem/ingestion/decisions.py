"""Carry out what a model decided, as far as the rules allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dualmem.identity import memory_id
from dualmem.ingestion.grounding import FIRST_PERSON
from dualmem.lifecycle import WorkingSet
from dualmem.records import Memory
from dualmem.retrieval.text import tokens

Strategy = Literal["supersede", "contradict", "merge", "compact", "absorb"]

COVERED = 0.8
"""Share of the words of two statements that one written for both must hold, or of one that the other must."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A relation that a model proposes between a later memory and an earlier one."""

    later_id: str
    earlier_id: str
    strategy: Strategy
    reason: str
    text: str = ""
    """What a compact merge is to say."""


@dataclass
class Outcome:
    """What was done of a list of proposals."""

    done: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)


def carry_out(proposals: Sequence[Proposal], working: WorkingSet, *, at: datetime, retirements: int) -> Outcome:
    """Apply `proposals` to `working`, in order.

    Refused are proposals between different subjects, those that the lifecycle's invariants exclude, and those
    beyond the cap on retirements. What others said never retires what the user said.

    Args:
        proposals: Between memories that `working` holds.
        working: Is changed.
        at: When it is decided.
        retirements: Most memories that may be superseded.
    """
    outcome = Outcome()
    for proposal in proposals:
        later, earlier = working.memories.get(proposal.later_id), working.in_place_of(proposal.earlier_id)
        if later is None or earlier is None:
            outcome.refused.append(f"{proposal.strategy}: a memory that another one absorbed")
            continue
        if proposal.strategy in {"supersede", "contradict"} and not same_subject(later, earlier):
            outcome.refused.append(f"{proposal.strategy}: another subject")
            continue
        strategy = _allowed(proposal.strategy, later, earlier)
        if strategy == "supersede":
            if outcome.done["supersede"] >= retirements:
                outcome.refused.append("supersede: more than one batch may retire")
                continue
            refusal = working.supersede(later.id, earlier.id, reason=proposal.reason, at=at)
        elif strategy == "contradict":
            refusal = working.contradict(later.id, earlier.id, reason=proposal.reason, at=at)
        elif strategy == "compact":
            merged = written_for(later, earlier, proposal.text, at)
            refusal = working.compact(later.id, earlier.id, merged, reason=proposal.reason, at=at)
        elif strategy == "absorb":
            refusal = working.absorb(later.id, earlier.id)
        else:
            refusal = working.merge(later.id, earlier.id, reason=proposal.reason, at=at)
        if refusal:
            outcome.refused.append(f"{strategy}: {refusal}")
        else:
            outcome.done[strategy] += 1
    return outcome


def _allowed(strategy: Strategy, later: Memory, earlier: Memory) -> Strategy:
    """Return what is done of a proposal, by who said what.

    What an assistant, a tool or a document says is no claim of the user's: it retires nothing that the user said, but
    stands beside it, and neither takes the other's words or sources over.
    """
    if strategy == "supersede" and earlier.role == "user" and later.role != "user":
        return "contradict"
    if strategy in {"compact", "absorb"} and (earlier.role == "user") != (later.role == "user"):
        return "merge"
    return strategy


def written_for(new: Memory, old: Memory, text: str, at: datetime) -> Memory:
    """Return the memory that takes the place of two which say the same (compact merge).

    It says `text` where that holds the words of both; else what one of them says, if it holds those of the other; else
    what both say. It has the sources of both, and is known since the second of them was told.
    """
    words = set(tokens(old.text)) | set(tokens(new.text))
    text = " ".join(text.split())
    if not _covers(text, words):
        longer = max(old.text, new.text, key=len)
        text = longer if _covers(longer, words) else f"{old.text} {new.text}"
    known = set(old.turn_ids)
    sources = (*old.sources, *(source for source in new.sources if source.turn_id not in known))
    told = max(old, new, key=lambda memory: memory.told)
    return old.model_copy(
        update={
            "id": memory_id(old.user_id, f"merge of {old.id} and {new.id}: {text}", [s.turn_id for s in sources]),
            "text": text,
            "attribute": old.attribute or new.attribute,
            "topic": old.topic or new.topic,
            "entities": tuple(dict.fromkeys((*old.entities, *new.entities))),
            "valid": old.valid or new.valid,
            "standing": old.standing or new.standing,
            "suspicion": old.suspicion or new.suspicion,
            "known_at": told.known_at,
            "position": told.position,
            "recorded_at": at,
            "sources": sources,
            "links": (),
            "origin": "merge",
        }
    )


def _covers(text: str, words: set[str]) -> bool:
    return len(words & set(tokens(text))) >= COVERED * len(words)


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
