"""Which of a model's typed records are believed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dualmem.deliberation.records import record_of
from dualmem.prompts.chunk_extraction import ChunkFact
from dualmem.records import LedgerRecord, Turn


@pytest.fixture
def read(a_turn: Callable[..., Turn]) -> Callable[..., LedgerRecord | None]:
    def make(text: str, **fields: Any) -> LedgerRecord | None:
        item = ChunkFact(turns=[1], fact=fields.pop("fact", "A fact."), score=9, **fields)
        return record_of(item, [a_turn(text, 0, speaker="Nora")])

    return make


def test_a_payment_is_read(read: Any) -> None:
    found = read(
        "I paid €1,200 for the flat, split with Omar, last Friday",
        kind="payment",
        who="me",
        what=" the  flat ",
        others=["Omar", "I", "omar "],
        amount="€1,200",
        date="last Friday",
    )
    assert (found.who, found.what, found.others) == ("Nora", "the flat", ("Omar", "Nora", "omar"))
    assert (found.amount, found.unit, found.everyone, found.each) == (Decimal(1200), "EUR", False, False)
    assert found.when is not None


def test_all_are_everyone(read: Any) -> None:
    found = read("Refund €27 each for all", kind="refund", who="Nora", others="all", amount="27", unit="€", each=True)
    assert (found.everyone, found.others, found.each, found.unit) == (True, (), True, "EUR")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "payment", "amount": "36"},
        {"kind": "payment", "amount": ""},
        {"kind": "payment", "amount": "some"},
        {"kind": "age", "amount": ""},
        {"kind": "gift", "amount": "54"},
        {"kind": ""},
    ],
)
def test_what_the_turn_does_not_say_is_no_record(read: Any, fields: dict[str, Any]) -> None:
    assert read("Lunch was €54, you owe me 18 each", who="Nora", **fields) is None


def test_an_opinion_or_event_needs_no_amount(read: Any) -> None:
    found = read("I loved it", kind="opinion", who="I", what="fantasy", value="Positive", amount=None, each=None)
    assert (found.value, found.amount, found.who) == ("positive", None, "Nora")
    assert read("We hiked", kind="event", fact="Nora hiked on 2 March 2024.").when is not None
