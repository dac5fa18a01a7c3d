"""Money: every party's balance is exact, and what settles it brings all to zero."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.deliberation.accounts import account_lines, amount_of, balances, settle, stands_in, unit_of, written
from dualmem.records import LedgerRecord


def entry(kind: Any, who: str, amount: object, *others: str, **fields: Any) -> LedgerRecord:
    return LedgerRecord(kind=kind, who=who, amount=Decimal(str(amount)), others=others, unit="EUR", **fields)


TRIP = [
    entry("payment", "Nora", 90, everyone=True, what="train"),
    entry("payment", "Omar", 40, "Nora", "Omar", what="lunch"),
    entry("payment", "Pia", 30, "Nora", "Omar", what="museum"),
    entry("refund", "Nora", 12, "Omar", "Pia"),
    entry("refund", "Omar", 5, everyone=True, each=True),
    entry("transfer", "Pia", 10, "Nora"),
    entry("debt", "Omar", 7, "Pia"),
]


def test_payments_refunds_transfers_and_debts_add_up() -> None:
    owed = balances(TRIP)["EUR"]
    # Nora: +90 - 30 (train), -20 (lunch), -15 (museum), -12 (refund she holds), +5 (her part of Omar's), -10 (got back)
    assert owed == {"Nora": Fraction(8), "Omar": Fraction(-36), "Pia": Fraction(28)}


def test_what_settles_is_said_with_sums() -> None:
    lines = account_lines(TRIP)
    assert "sum of 3 paid: 160 EUR, on average 53.33 EUR" in lines
    assert "paid by person: Nora 90 EUR, Omar 40 EUR, Pia 30 EUR" in lines
    assert "sum of 2 refunded: 27 EUR, on average 13.50 EUR" in lines
    assert "balances: Nora is owed 8 EUR, Omar owes 36 EUR, Pia is owed 28 EUR" in lines
    assert "settled by: Omar pays 28 EUR to Pia, Omar pays 8 EUR to Nora" in lines


def test_names_count_in_any_case_and_units_apart() -> None:
    records = [
        entry("payment", "nora", 10, "Nora", "Omar"),
        entry("payment", "OMAR", 10, "NORA", "omar").model_copy(update={"unit": "USD"}),
    ]
    found = balances(records)
    assert found["EUR"] == {"nora": Fraction(5), "Omar": Fraction(-5)}
    assert found["USD"] == {"nora": Fraction(-5), "Omar": Fraction(5)}


def test_when_all_is_even_nobody_owes_anything() -> None:
    records = [entry("payment", "A", 10, "A", "B"), entry("payment", "B", 10, "A", "B")]
    assert "all balances in EUR are zero: nobody owes anything" in account_lines(records)


def test_other_amounts_are_added_up_by_thing() -> None:
    records = [
        LedgerRecord(kind="amount", who="Ana", what=what, amount=Decimal(amount), unit="km")
        for what, amount in (("run", "5"), ("ride", "20.5"), ("runs", "7"))
    ]
    lines = account_lines(records)
    assert lines[0] == "sum of 3 amounts: 32.50 km, on average 10.83 km"
    assert "amounts by thing: run 12 km, ride 20.50 km" in lines
    assert account_lines(records[:1]) == []


NAMES = ("A", "B", "C", "D")
ENTRIES = st.lists(
    st.builds(
        lambda kind, who, others, cents, each: entry(kind, who, Decimal(cents) / 100, *others, each=each),
        st.sampled_from(["payment", "refund", "transfer", "debt"]),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
        st.integers(1, 100_000),
        st.booleans(),
    ),
    max_size=30,
)


@given(records=ENTRIES)
def test_balances_always_sum_to_zero_and_are_settled_in_few_payments(records: list[LedgerRecord]) -> None:
    for owed in balances(records).values():
        assert sum(owed.values()) == 0
        left = dict(owed)
        payments = settle(owed)
        for debtor, creditor, amount in payments:
            assert amount > 0
            left[debtor] += amount
            left[creditor] -= amount
        assert not any(left.values())
        assert len(payments) < len(NAMES)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("179", "179"),
        ("€179", "179"),
        ("179 EUR", "179"),
        ("1,200.50", "1200.50"),
        ("1.200,50", "1200.50"),
        ("1,200", "1200"),
        ("1'200", "1200"),
        ("12,5", "12.5"),
        ("3.141", "3141"),
        ("0.5", "0.5"),
        ("-12", "-12"),
        ("1,234,567", "1234567"),
        ("twelve", None),
        ("12 and 13", None),
        ("", None),
    ],
)
def test_amounts_are_read_in_many_spellings(text: str, amount: str | None) -> None:
    assert amount_of(text) == (None if amount is None else Decimal(amount))


@given(text=st.text(max_size=40))
def test_whatever_stands_there_is_an_amount_or_none(text: str) -> None:
    found = amount_of(text)
    assert found is None or found.is_finite()


def test_an_amount_must_be_one_of_the_turns_numbers() -> None:
    assert stands_in(Decimal(54), "Lunch was €54, so you owe me 18 each")
    assert not stands_in(Decimal(36), "Lunch was €54, so you owe me 18 each")
    assert stands_in(Decimal(20), "I paid twenty euros")


@pytest.mark.parametrize(
    ("unit", "code"), [("€", "EUR"), ("Euros", "EUR"), ("$", "USD"), ("km", "km"), ("apples", "apple"), ("gas", "gas")]
)
def test_units_have_one_spelling(unit: str, code: str) -> None:
    assert unit_of(unit) == code


def test_amounts_are_written_in_at_most_two_decimals() -> None:
    assert [written(Fraction(10, 3), "EUR"), written(Decimal("4.50")), written(Fraction(2))] == [
        "3.33 EUR",
        "4.50",
        "2",
    ]
