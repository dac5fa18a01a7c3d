"""Memories: atomic statements with provenance and a lifecycle (MemoryLACE, section on the memory model)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dualmem.records.turn import Role

Kind = Literal["fact", "preference", "plan", "correction", "decision", "event", "state"]

MemoryState = Literal["active", "superseded", "merged", "quarantined"]
"""`superseded`: a later state took its place. `merged`: a compact merge replaced it. `quarantined`: it reads like an
instruction, and waits for somebody to release or to forget it; it has no links. Kept as a keyword because Edge 0.9
cannot filter on booleans."""

Relation = Literal["supersedes", "superseded_by", "merged_with", "contradicts", "merges", "merged_into"]
"""`merged_with`: both say the same, and both stay (linked merge). `merges` and `merged_into`: one was written that
takes the place of two (compact merge)."""

Precision = Literal["minute", "day", "month", "year", "unknown"]


class Interval(BaseModel):
    """When something was or is true: half-open in spirit, `end` is the last instant that still counts."""

    model_config = ConfigDict(frozen=True)

    start: datetime | None = None
    end: datetime | None = None
    precision: Precision = "unknown"


class Source(BaseModel):
    """Where a memory comes from: a turn, and the words in it."""

    model_config = ConfigDict(frozen=True)

    turn_id: str
    quote: str


class Link(BaseModel):
    """A lifecycle relation to another memory, with the reason it was made."""

    model_config = ConfigDict(frozen=True)

    relation: Relation
    target: str
    reason: str = ""
    at: datetime
    turn_ids: tuple[str, ...] = ()
    """The turns that gave rise to the decision."""
    by: str = ""
    """The memory whose coming led to the decision; where nothing stands, the later one's."""
    replaced: Link | None = None
    """The link between two neighbours of a chain that this one broke, since a state came in between."""


class Draft(BaseModel):
    """A statement a model extracted, checked against its source turns, not stored yet."""

    model_config = ConfigDict(frozen=True)

    text: str
    kind: Kind
    speaker: str
    """Who said it: the speaker of its first source turn."""
    role: Role = "user"
    """The role of whoever said it: what an assistant or a tool says is never the user's own claim."""
    subject: str
    """Whom or what it is about."""
    attribute: str = ""
    """What about the subject ("home", "job"): two statements compete only if both are equal."""
    entities: tuple[str, ...] = ()
    topic: str = ""
    valid: Interval | None = None
    standing: bool = False
    """True for an instruction that holds from now on ("always answer in metric units")."""
    suspicion: str = ""
    """Why it reads like an instruction to a model, and no statement; "" where it does not."""
    agent_id: str = ""
    sources: tuple[Source, ...]
    position: int
    """Place of its first source turn, for time order inside a conversation."""
    said_at: datetime | None = None


class Memory(BaseModel):
    """One atomic statement as it is stored.

    Two clocks are kept apart: `valid` is when the statement holds in the world, `known_at` when it was told.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    user_id: str
    conversation_id: str
    agent_id: str = ""
    """The agent in whose conversation it was said."""
    text: str
    kind: Kind
    speaker: str
    role: Role = "user"
    """The role of whoever said it; what others say retires nothing that the user said."""
    subject: str
    attribute: str = ""
    entities: tuple[str, ...] = ()
    topic: str = ""
    valid: Interval | None = None
    standing: bool = False
    suspicion: str = ""
    """Why it reads like an instruction to a model, and no statement; "" where it does not, or was released."""
    known_at: datetime
    """When it was said; where nobody knows, when it was recorded."""
    recorded_at: datetime
    state: MemoryState = "active"
    sources: tuple[Source, ...]
    links: tuple[Link, ...] = ()
    origin: Literal["extraction", "deliberation", "import", "merge"] = "extraction"
    retired_at: datetime | None = None
    """When what took its place was told; None while it is active."""
    position: int = 0
    """Place of its first source turn in the conversation; orders memories told at the same instant."""

    @property
    def active(self) -> bool:
        """Whether search finds it by itself."""
        return self.state == "active"

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """The turns it comes from, without repeats, in order."""
        return tuple(dict.fromkeys(source.turn_id for source in self.sources))

    @property
    def said_at(self) -> datetime | None:
        """When it was said; None where no time came with the talk, and it counts as known since it was stored."""
        return None if self.known_at == self.recorded_at else self.known_at

    @property
    def told(self) -> tuple[datetime, int]:
        """Sort key of the known-at clock."""
        return self.known_at, self.position

    def linked(self, relation: Relation) -> tuple[str, ...]:
        """Return the ids this memory is linked to by `relation`."""
        return tuple(link.target for link in self.links if link.relation == relation)
