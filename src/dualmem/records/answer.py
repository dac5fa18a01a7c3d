"""Answers, what the gate said of them, and the public result of a recall."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dualmem.records.evidence import Status
from dualmem.records.ledger import LedgerRecord
from dualmem.records.memory import Interval, Kind
from dualmem.records.usage import Usage

Route = Literal["fast", "deliberate", "degraded"]

Outcome = Literal["answered", "nothing_stored", "nothing_relevant", "not_answerable"]
"""What recall found. `not_answerable`: there was evidence, and it does not answer the question. A recall that
failed raises instead."""


class Answer(BaseModel):
    """An answer and the evidence it rests on."""

    model_config = ConfigDict(frozen=True)

    text: str
    abstained: bool = False
    memory_ids: tuple[str, ...] = ()
    turn_ids: tuple[str, ...] = ()


class Verdict(BaseModel):
    """What the gate says of an answer: three grades and a reason (D-Mem, quality gate)."""

    model_config = ConfigDict(frozen=True)

    passed: bool
    policy: str
    relevant: bool = True
    faithful: bool = True
    complete: bool = True
    reason: str = ""
    missing: str = ""
    """What the answer lacks, in a few words; deliberation looks for it."""
    readable: bool = True
    """False when the gate's reply could not be read; such a verdict never passes."""


class Fact(BaseModel):
    """A fact deliberation found in a chunk of the raw history, for one question."""

    model_config = ConfigDict(frozen=True)

    text: str
    score: float
    """Relevance to the question, 0 to 10."""
    turn_ids: tuple[str, ...] = ()
    speaker: str = ""
    when: datetime | None = None
    """When the first source turn was said."""
    valid: Interval | None = None
    record: LedgerRecord | None = None
    """What the ledger counts and adds up; only where the question needs that."""


class Coverage(BaseModel):
    """How much of the raw history deliberation read."""

    model_config = ConfigDict(frozen=True)

    turns_read: int
    turns_failed: int
    turns_total: int
    chunks_read: int
    chunks_failed: int
    chunks_total: int
    facts_found: int = 0
    facts_used: int = 0
    failures: tuple[str, ...] = ()
    stopped: str = ""
    """The limit at which reading stopped, "" where none did."""

    @property
    def complete(self) -> bool:
        """Whether every turn was read."""
        return self.turns_read == self.turns_total

    def __str__(self) -> str:
        """Say it as a person reads it."""
        text = f"read {self.turns_read} of {self.turns_total} turns"
        text = f"{text}, {self.turns_failed} failed" if self.turns_failed else text
        return f"{text}, stopped: {self.stopped}" if self.stopped else text


class SourceTurn(BaseModel):
    """A turn as evidence, in a public result."""

    model_config = ConfigDict(frozen=True)

    turn_id: str
    speaker: str
    text: str
    said_at: datetime | None = None


class EvidenceItem(BaseModel):
    """A memory (or a fact read in the raw history) as evidence, in a public result."""

    model_config = ConfigDict(frozen=True)

    memory_id: str | None
    """None for a raw turn or a fact that deliberation found."""
    text: str
    status: Status
    kind: Kind | None = None
    valid: Interval | None = None
    known_at: datetime | None = None
    source_turn_ids: tuple[str, ...]
    sources: tuple[SourceTurn, ...] = ()
    cited: bool = False
    rankings: tuple[str, ...] = ()
    unit: int = 0
    """Items with the same number belong together (a chain, a contradiction)."""


class Recollection(BaseModel):
    """The public result of a recall."""

    model_config = ConfigDict(frozen=True)

    question: str
    user_id: str
    answer: str
    outcome: Outcome
    route: Route
    verdict: Verdict
    evidence: tuple[EvidenceItem, ...] = ()
    coverage: Coverage | None = None
    fast_answer: str | None = None
    """What the fast route had said, where deliberation or a failure followed."""
    final: Verdict | None = None
    """What was said of the deliberated answer; `verdict` is that of the fast one."""
    computed: tuple[str, ...] = ()
    """What code computed from the facts that were read: intervals, counts, sums, balances."""
    remembered: tuple[str, ...] = ()
    """Ids of the memories that deliberation wrote back."""
    degraded_reason: str = ""
    dropped: tuple[str, ...] = ()
    usage: Usage = Usage()
    timings: dict[str, float] = {}
    """Seconds by step."""
