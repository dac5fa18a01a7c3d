"""Typed records: what a model proposes and code counts, adds up and measures."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dualmem.records.memory import Interval

RecordKind = Literal["event", "opinion", "amount", "payment", "refund", "transfer", "debt", "birth", "age"]
"""`payment`: someone pays for a group. `refund`: someone gets money back for a group. `transfer`: someone gives money
to someone. `debt`: someone owes money to someone. `amount`: any other number of something. `opinion`: what someone
thinks of something, with `value` the side they take."""


class LedgerRecord(BaseModel):
    """One entry of the ledger."""

    model_config = ConfigDict(frozen=True)

    kind: RecordKind
    who: str = ""
    """Who did it, paid it, thinks so, or is that old."""
    what: str = ""
    """What it is about, in the same words for the same thing."""
    others: tuple[str, ...] = ()
    """For a payment or refund everyone who shares it, the payer too if they do; for a transfer or debt who gets it."""
    everyone: bool = False
    """A payment or refund that all parties of the ledger share, whoever they are."""
    each: bool = False
    """Whether the amount is that of every single one who shares it, not of all together."""
    value: str = ""
    """The side of an opinion ("positive", "negative", "mixed")."""
    amount: Decimal | None = None
    unit: str = ""
    when: Interval | None = None
    """When it happened, where that was said."""
