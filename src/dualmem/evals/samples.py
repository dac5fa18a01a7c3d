"""What every benchmark gives: samples, the conversations they are asked about, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dualmem.records import Transcript


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with what a right answer is known by."""

    id: str
    """Unique in its benchmark, and the same each time the files are read."""
    conversation: str
    """Key of the conversation it is asked about."""
    question: str
    target: str
    """The reference answer."""
    category: str
    """The benchmark's own kind of question; samples are stratified by it."""
    evidence: tuple[str, ...] = ()
    """The messages that answer it, by the ids their source gives them; only such that exist."""
    rubric: tuple[str, ...] = ()
    """What an answer must state, item by item (BEAM)."""
    asked_at: datetime | None = None
    """When it is asked, where the benchmark says so."""
    scenario: str = ""
    """Samples that succeed or fail together (StructMemEval)."""
    answerable: bool = True
    """False where the right answer is that nothing is known."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact that the benchmark itself extracted from a conversation, with the messages it comes from."""

    text: str
    speaker: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as it was read: what can be asked, of which conversations."""

    name: str
    samples: tuple[Sample, ...]
    transcripts: Mapping[str, Transcript]
    """By key; a sample's conversation is one of them."""
    skipped: Counter[str] = field(default_factory=Counter)
    """What was repaired or left out, by reason."""
    observations: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)
    """By conversation key (LoCoMo only)."""
