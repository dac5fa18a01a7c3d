"""The states of the three graphs: what goes in, what comes out, and what stays inside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from dualmem.context import Spans, add
from dualmem.lifecycle import WorkingSet
from dualmem.records import (
    Answer,
    Draft,
    Fact,
    IngestReceipt,
    ModelCall,
    PackedContext,
    Recollection,
    Rejection,
    Route,
    Scope,
    Transcript,
    Turn,
    Verdict,
)
from dualmem.records.restored import Restored

Calls = Annotated[list[ModelCall], add]


# Recall


class RecallInput(TypedDict, total=False):
    """What recall needs: a user and a question."""

    user_id: str
    question: str
    messages: list[AnyMessage]
    """A chat; its last human message is the question where none is given."""
    scope: Scope
    asked_at: datetime
    """When the question is asked; "last month" in it counts from here."""


class RecallOutput(TypedDict, total=False):
    """What recall gives."""

    answer: str
    route: Route
    verdict: Verdict
    evidence_ids: list[str]
    recollection: Recollection


class RecallState(RecallInput, RecallOutput, total=False):
    """Everything recall keeps while it runs."""

    packed: PackedContext
    standing: list[str]
    """The user's standing instructions."""
    stored: bool
    """Whether there is anything stored for the user."""
    ranking_failure: str
    """Why the evidence is in a worse order, or less chosen, than it could be; "" if it is not."""
    drafted: Answer
    """The fast answer."""
    candidates: list[Answer]
    """The answers that were sampled, where the gate compares several; `drafted` is the first."""
    degraded_reason: str
    calls: Calls
    spans: Spans


# Deliberation


class DeliberationInput(TypedDict, total=False):
    """What deliberation takes over from recall; alone, it needs a user and a question."""

    user_id: str
    question: str
    scope: Scope
    asked_at: datetime
    packed: PackedContext
    standing: list[str]
    stored: bool
    drafted: Answer
    verdict: Verdict
    calls: Calls
    spans: Spans


class DeliberationOutput(TypedDict, total=False):
    """What deliberation gives back; no key has a reducer, so nothing echoes into the graph around it."""

    answer: str
    route: Route
    verdict: Verdict
    evidence_ids: list[str]
    recollection: Recollection


@dataclass(frozen=True, slots=True)
class Chunk(Restored):
    """A run of turns that is read in one call, with the turns before it as context."""

    number: int
    turns: tuple[Turn, ...]
    earlier: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkReading(Restored):
    """What one chunk gave: facts, or why it could not be read."""

    number: int
    turns: int
    failed_turns: int = 0
    facts: tuple[Fact, ...] = ()
    failure: str = ""


class ChunkTask(TypedDict):
    """The private state of one `extract`."""

    chunk: Chunk
    question: str
    asked_at: datetime | None
    missing: str
    ledger: NotRequired[bool]
    """Whether typed records are asked for."""
    deadline: NotRequired[float | None]
    """When the budget of seconds is spent, in seconds since the epoch."""
    spare: NotRequired[int | None]
    """Calls that the budget leaves to repair, to repeat or to divide; None without a limit."""


class DeliberationState(DeliberationInput, DeliberationOutput, total=False):
    """Everything deliberation keeps while it runs."""

    waves: list[list[Chunk]]
    wave: int
    """The wave that is read next."""
    due: list[Chunk]
    """The chunks of that wave that the budget allows."""
    spare: list[int] | None
    """For each of them the calls that the budget leaves to repair, to repeat or to divide; None without a limit."""
    stopped: str
    """The limit at which reading stopped, "" as long as none did."""
    deadline: float | None
    """When the budget of seconds is spent, in seconds since the epoch."""
    ledger: bool
    """Whether the question needs typed records, to count and to add up."""
    missing: str
    """What the last answer lacked, as the gate said."""
    final: Verdict
    """What was said of the last answer."""
    satisfied: bool
    """Whether the gate passed the answer made so far."""
    readings: Annotated[list[ChunkReading], add]
    relevant: list[Fact]
    """Facts above the threshold, best first."""
    facts: list[Fact]
    """Facts the answer is made from, in order of time."""
    computed: list[str]
    """What the ledger computed from them."""
    selection_failure: str
    """Why no model selected among the facts of the last wave, "" where one did or none was asked."""
    concluded: Answer
    degraded_reason: str


# Ingestion


class IngestionInput(TypedDict, total=False):
    """What ingestion needs: a user and messages, or a transcript."""

    user_id: str
    conversation_id: str
    agent_id: str
    messages: list[Any]
    transcript: Transcript


class IngestionOutput(TypedDict, total=False):
    """What ingestion gives."""

    receipt: IngestReceipt


class BatchInput(TypedDict):
    """What the integration of one batch needs."""

    user_id: str
    conversation_id: str
    drafts: list[Draft]
    rejections: list[Rejection]
    batch_turn_ids: list[str]


class BatchOutput(TypedDict, total=False):
    """What the integration of one batch adds to the account."""

    rejected: Annotated[list[str], add]
    tally: Annotated[list[IngestReceipt], add]
    given_up: Annotated[list[str], add]
    calls: Calls
    spans: Spans


@dataclass(frozen=True, slots=True)
class Window(Restored):
    """New turns that one extraction call reads, with the turns before them as context."""

    number: int
    turns: tuple[Turn, ...]
    earlier: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowReading(Restored):
    """What one window gave."""

    number: int
    drafts: tuple[Draft, ...] = ()
    read_turn_ids: tuple[str, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    """The drafts that were refused."""
    failures: tuple[str, ...] = ()
    unread_turn_ids: tuple[str, ...] = ()
    """Turns of which a part could not be read."""
    repeated: int = 0


class WindowTask(TypedDict):
    """The private state of one `extract`."""

    user_id: str
    window: Window


class IngestionState(IngestionInput, IngestionOutput, total=False):
    """Everything ingestion keeps while it runs."""

    windows: list[Window]
    next_window: int
    """The first window of the next batch."""
    batch_windows: int
    """Windows in a batch."""
    readings: Annotated[list[WindowReading], add]
    drafts: list[Draft]
    rejections: list[Rejection]
    """The refused drafts of the batch, to be kept for whoever looks."""
    batch_turn_ids: list[str]
    """Turns that are read to their end with this batch."""
    given_up: Annotated[list[str], add]
    """Turns of which something was extracted that could not be related to what is known; they stay pending."""
    working: WorkingSet
    group: list[str]
    """Ids of the memories a batch review looks at."""
    rejected: Annotated[list[str], add]
    """Reasons, one for each draft or decision that was refused."""
    tally: Annotated[list[IngestReceipt], add]
    """What each step did, as partial receipts."""
    calls: Calls
    spans: Spans
