"""Check the typed records that a model proposes against the turns they come from."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from dualmem.deliberation.accounts import amount_of, stands_in, unit_of
from dualmem.ingestion.grounding import FIRST_PERSON
from dualmem.prompts.chunk_extraction import KINDS, ChunkFact
from dualmem.records import LedgerRecord, RecordKind, Turn
from dualmem.retrieval.times import find, resolve

EVERYONE = frozenset(
    {
        "all", "all of us", "everyone", "everybody", "the group", "group", "us", "we", "all three", "all four", "alle",
        "jeder", "tous", "tout le monde", "todos", "所有人", "大家", "全员",
    }
)  # fmt: skip
"""Names that stand for all parties of a ledger."""

_NEED_AMOUNT = frozenset({"payment", "refund", "transfer", "debt", "amount", "age"})


def record_of(item: ChunkFact, cited: Sequence[Turn]) -> LedgerRecord | None:
    """Return the record of a fact, or None where it has none that can be counted on.

    An amount must be one of the numbers of its turns: a model that adds up by itself is not believed. A turn that has
    no digits may say the number in words.

    Args:
        item: A fact as the model wrote it.
        cited: The turns it cites, at least one.
    """
    if item.kind not in KINDS:
        return None
    amount = amount_of(item.amount) if item.amount else None
    text = " ".join(turn.text for turn in cited)
    if item.kind in _NEED_AMOUNT and (amount is None or not stands_in(amount, text)):
        return None
    who = _person(item.who, cited[0])
    named = [_person(name, cited[0]) for name in item.others if name.casefold() not in EVERYONE]
    found = resolve(item.date, cited[0].said_at) if item.date else None
    dated = find(item.fact, cited[0].said_at, prefer="nearest") if found is None else []
    return LedgerRecord(
        kind=cast("RecordKind", item.kind),
        who=who,
        what=" ".join(item.what.split()),
        others=tuple(dict.fromkeys(named)),
        everyone=item.kind in {"payment", "refund"} and any(name.casefold() in EVERYONE for name in item.others),
        each=item.each,
        value=item.value.casefold(),
        amount=_signless(amount),
        unit=unit_of(item.unit or _unit_beside(item.amount)),
        when=found or (dated[0].interval if dated else None),
    )


def _person(name: str, turn: Turn) -> str:
    return turn.speaker if name.casefold() in FIRST_PERSON else name


def _unit_beside(amount: str) -> str:
    return "".join(character for character in amount if not (character.isdigit() or character in " .,'-+"))


def _signless(amount: Decimal | None) -> Decimal | None:
    return abs(amount) if amount is not None else None
