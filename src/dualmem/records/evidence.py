"""Evidence: what search found, from single hits to the context of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from dualmem.records.memory import Kind, Memory
from dualmem.records.restored import Restored
from dualmem.records.turn import Turn

Status = Literal["current", "superseded", "conflicting", "supporting"]
"""`supporting` is a merge partner: it says the same from another source."""


class Scope(BaseModel):
    """Narrows a search inside one user's memory. An empty scope is the whole of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conversation_ids: tuple[str, ...] = ()
    agent_ids: tuple[str, ...] = ()
    """Only what was said in conversations with these agents."""
    speakers: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    entities: tuple[str, ...] = ()
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    """Only what was said between these two instants, both included."""
    as_of: AwareDatetime | None = None
    """Answer from what was known at this time (the known-at clock)."""
    valid_at: AwareDatetime | None = None
    """Answer from what held in the world at this time, by all that is known (the event clock)."""

    def covers(self, moment: datetime | None) -> bool:
        """Whether something said at `moment` lies between `since` and `until`; what has no time lies in no range."""
        if moment is None:
            return self.since is None and self.until is None
        return (self.since is None or moment >= self.since) and (self.until is None or moment <= self.until)

    @property
    def dated(self) -> bool:
        """Whether it asks for the memory of another time than now."""
        return self.as_of is not None or self.valid_at is not None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that rankings found."""

    memory: Memory
    shares: Mapping[str, float]
    """What each ranking gave to its score, by the ranking's name."""

    @property
    def score(self) -> float:
        """The sum of its shares."""
        return sum(self.shares.values())


@dataclass(frozen=True, slots=True)
class Member:
    """A memory inside an evidence unit."""

    memory: Memory
    status: Status


@dataclass(frozen=True, slots=True)
class EvidenceUnit(Restored):
    """Memories that explain each other, from earlier to newer, with the turns around them.

    A unit without members is a raw turn shown as evidence itself.
    """

    members: tuple[Member, ...]
    score: float
    turns: tuple[Turn, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    """What each of the rankings that led to it gave to its score."""

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that led to it."""
        return tuple(self.shares)


@dataclass(frozen=True, slots=True)
class PackedContext(Restored):
    """The evidence that goes into a prompt."""

    units: tuple[EvidenceUnit, ...]
    dropped: tuple[str, ...] = ()
    """Ids of memories and turns that did not fit."""
    tokens: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    """The label (`M1`, `T1`) of each memory and turn in the prompt, by id."""
