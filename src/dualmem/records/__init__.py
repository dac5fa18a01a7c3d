"""The records a piece of data passes through, each holding the one before.

`Message` -> `Turn` -> `Draft` -> `Memory` -> `Candidate` -> `EvidenceUnit` -> `PackedContext` ->
`Answer` -> `Verdict` -> `Recollection`. Pydantic models cross a border (a model's output, a stored payload,
a public result); dataclasses stay inside.
"""

from dualmem.records.answer import (
    Answer,
    Coverage,
    EvidenceItem,
    Fact,
    Outcome,
    Recollection,
    Route,
    SourceTurn,
    Verdict,
)
from dualmem.records.decision import Decision, Explanation, TurnEffects, Undone
from dualmem.records.estimate import Estimate, StepCost
from dualmem.records.evidence import (
    Candidate,
    EvidenceUnit,
    Member,
    PackedContext,
    Scope,
    Status,
)
from dualmem.records.ledger import LedgerRecord, RecordKind
from dualmem.records.memory import (
    Draft,
    Interval,
    Kind,
    Link,
    Memory,
    MemoryState,
    Precision,
    Relation,
    Source,
)
from dualmem.records.receipt import ForgetReceipt, IngestReceipt, combine
from dualmem.records.rejection import Rejection
from dualmem.records.transfer import CopyReceipt, ExportHeader, ImportReceipt
from dualmem.records.turn import Message, Role, Transcript, Turn, TurnState
from dualmem.records.usage import ModelCall, Usage

__all__ = [
    "Answer",
    "Candidate",
    "CopyReceipt",
    "Coverage",
    "Decision",
    "Draft",
    "Estimate",
    "EvidenceItem",
    "EvidenceUnit",
    "Explanation",
    "ExportHeader",
    "Fact",
    "ForgetReceipt",
    "ImportReceipt",
    "IngestReceipt",
    "Interval",
    "Kind",
    "LedgerRecord",
    "Link",
    "Member",
    "Memory",
    "MemoryState",
    "Message",
    "ModelCall",
    "Outcome",
    "PackedContext",
    "Precision",
    "Recollection",
    "RecordKind",
    "Rejection",
    "Relation",
    "Role",
    "Route",
    "Scope",
    "Source",
    "SourceTurn",
    "Status",
    "StepCost",
    "Transcript",
    "Turn",
    "TurnEffects",
    "TurnState",
    "Undone",
    "Usage",
    "Verdict",
    "combine",
]
