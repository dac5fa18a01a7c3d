"""What an ingestion did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from dualmem.records.usage import Usage


class IngestReceipt(BaseModel):
    """The account of one ingestion. Nothing that happened to a turn or a draft is left out of it."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    conversation_id: str
    turns_stored: int = 0
    turns_known: int = 0
    """Turns that were stored before."""
    turns_skipped: dict[str, int] = {}
    """Messages that no model is shown, by reason; those with text are stored all the same."""
    turns_pending: int = 0
    """Turns stored whose memories could not be extracted; the next ingestion takes them up."""
    memories_made: int = 0
    merged: int = 0
    superseded: int = 0
    contradicted: int = 0
    repeated: int = 0
    """Drafts that said again, from the same turns, what another draft said."""
    suspicious: int = 0
    """Memories that read like an instruction to a model; they are flagged."""
    quarantined: int = 0
    """Those of them that are out of force until they are released."""
    rejected: dict[str, int] = {}
    """Drafts and decisions that were refused, by reason."""
    failures: tuple[str, ...] = ()
    """Why turns are pending."""
    memory_ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0


class ForgetReceipt(BaseModel):
    """The account of what was forgotten."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    turns: int = 0
    memories: int = 0
    """Memories that came from forgotten turns only, or were named."""
    sources: int = 0
    """Memories that lost one of several sources."""
    rejections: int = 0
    """Rejected drafts that may have held words of what was forgotten."""
    restored: int = 0
    """Earlier states that are in force again, since what had replaced them is gone."""


def combine(parts: Iterable[IngestReceipt], **totals: Any) -> IngestReceipt:
    """Add up partial receipts of one ingestion; `totals` are set on the sum."""
    parts = list(parts)
    first = parts[0]
    counted = (
        "turns_stored",
        "turns_known",
        "memories_made",
        "merged",
        "superseded",
        "contradicted",
        "repeated",
        "suspicious",
        "quarantined",
    )
    values: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in counted}
    for name in ("turns_skipped", "rejected"):
        reasons: Counter[str] = Counter()
        for part in parts:
            reasons.update(getattr(part, name))
        values[name] = dict(reasons)
    for name in ("failures", "memory_ids"):
        values[name] = tuple(dict.fromkeys(item for part in parts for item in getattr(part, name)))
    return IngestReceipt(user_id=first.user_id, conversation_id=first.conversation_id, **{**values, **totals})
