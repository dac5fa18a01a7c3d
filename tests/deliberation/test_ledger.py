"""What is computed from the facts of all chunks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from dualmem.deliberation.ledger import MOST_LINES, compute, in_order, time_between
from dualmem.records import Fact, Interval, LedgerRecord

START = datetime(2024, 3, 1, tzinfo=UTC)
ASKED = datetime(2024, 6, 1, 12, tzinfo=UTC)


def day(year: int, month: int, number: int) -> Interval:
    start = datetime(year, month, number, tzinfo=UTC)
    return Interval(start=start, end=start + timedelta(hours=23, minutes=59), precision="day")


def month(year: int, number: int, days: int) -> Interval:
    start = datetime(year, number, 1, tzinfo=UTC)
    return Interval(start=start, end=start + timedelta(days=days) - timedelta(seconds=1), precision="month")


def noted(number: int, text: str = "", **record: Any) -> Fact:
    entry = LedgerRecord(**record) if record else None
    return Fact(
        text=text or f"Fact {number}.",
        score=8,
        turn_ids=(f"t{number}",),
        when=START + timedelta(days=number),
        record=entry,
    )


def dated(number: int, text: str, valid: Interval) -> Fact:
    return noted(number, text).model_copy(update={"valid": valid})


# intervals


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (day(2024, 1, 1), day(2024, 1, 2), "1 day"),
        (day(2024, 1, 1), day(2024, 1, 15), "14 days = 2 weeks (whole)"),
        (day(2023, 3, 15), day(2024, 3, 15), "366 days = 52 weeks (whole) = 12 months (whole) = 1 year (whole)"),
        (day(2024, 1, 31), day(2024, 2, 29), "29 days = 4 weeks (whole)"),
        (month(2024, 1, 31), day(2024, 2, 10), "10 to 40 days"),
    ],
)
def test_the_time_between_is_said_in_every_unit(first: Interval, second: Interval, said: str) -> None:
    assert time_between(first, second) == said


def test_dated_facts_are_compared_and_measured_to_the_question() -> None:
    facts = [dated(0, "Ana moved.", day(2024, 3, 2)), dated(1, "Ana gave a party.", day(2024, 3, 16))]
    lines = compute(facts, asked_at=ASKED, intervals=True)
    assert 'from "Ana moved" (2 March 2024) to "Ana gave a party" (16 March 2024): 14 days = 2 weeks (whole)' in lines
    assert any(line.startswith('from "Ana moved" (2 March 2024) to the day of the question: 91 days') for line in lines)
    assert compute(facts, asked_at=ASKED) == [], "nobody asked for it"


def test_an_open_or_unknown_date_is_not_measured() -> None:
    facts = [dated(0, "Since then.", Interval(start=START)), dated(1, "Then.", day(2024, 3, 9))]
    assert compute(facts, intervals=True) == []


# counts


def event(number: int, what: str, who: str = "Ana", when: Interval | None = None) -> Fact:
    return noted(number, kind="event", who=who, what=what, when=when)


def test_distinct_events_are_counted_once() -> None:
    facts = [
        event(0, "hike", when=day(2024, 3, 2)),
        event(1, "hikes", when=day(2024, 3, 2)),
        event(2, "hike", when=day(2024, 3, 9)),
        event(3, "hike"),
        event(4, "concert", who="Bob"),
    ]
    lines = compute(facts)
    assert "hike: 3 distinct (2 March 2024, 9 March 2024)" in lines
    assert "concert: 1 distinct" in lines
    assert "different kinds of events: 2" in lines
    assert "order of first mention: hike, then concert" in lines


def test_events_are_counted_by_person() -> None:
    lines = compute([event(0, "swim"), event(1, "swim", who="Bob"), event(2, "swim")])
    assert "swim, by person: Ana 2, Bob 1" in lines


def test_opinions_are_counted_with_their_shares() -> None:
    sides = ["positive"] * 5 + ["negative"]
    facts = [noted(n, kind="opinion", who="Ana", what="fantasy", value=side) for n, side in enumerate(sides)]
    facts += [noted(9, kind="opinion", who="Ana", what="poetry", value="negative")]
    lines = compute(facts)
    assert "opinions of fantasy: 6, of these 1 negative (16.7%), 5 positive (83.3%)" in lines
    assert "opinions of poetry: 1, of these 1 negative (100%)" in lines


# ages


def test_an_age_follows_from_a_birth_and_from_an_age_told() -> None:
    facts = [
        noted(0, kind="birth", who="Bob", when=day(1990, 6, 2)),
        noted(1, kind="event", who="Bob", what="wedding", when=day(2020, 6, 2)),
        noted(2, kind="age", who="Eva", amount=Decimal(7), unit="year"),
    ]
    lines = compute(facts, asked_at=ASKED)
    assert "age of Bob on 1 June 2024: 33 years" in lines
    assert "age of Bob at wedding (2 June 2020): 30 years" in lines
    assert "Eva was 7 when it was told (3 March 2024), so 7 or 8 years old on 1 June 2024" in lines


def test_an_age_of_a_year_of_birth_has_two_values() -> None:
    born = Interval(start=datetime(1990, 1, 1, tzinfo=UTC), end=datetime(1990, 12, 31, tzinfo=UTC), precision="year")
    lines = compute([noted(0, kind="birth", who="Bob", when=born)], asked_at=ASKED)
    assert "age of Bob on 1 June 2024: 33 to 34 years" in lines


# conflicts


def test_what_was_told_in_two_ways_is_a_conflict() -> None:
    facts = [
        noted(0, kind="birth", who="Bob", when=day(1990, 6, 2)),
        noted(1, kind="birth", who="bob", when=day(1991, 6, 2)),
        noted(2, kind="amount", who="Ana", what="bill", amount=Decimal(40), unit="EUR", when=day(2024, 3, 2)),
        noted(3, kind="amount", who="Ana", what="bill", amount=Decimal(45), unit="EUR", when=day(2024, 3, 2)),
        noted(4, kind="amount", who="Ana", what="bill", amount=Decimal(50), unit="EUR", when=day(2024, 4, 2)),
    ]
    lines = [line for line in compute(facts) if line.startswith("conflict")]
    assert lines == [
        "conflict: birth of Bob was told as 2 June 1990 and as 2 June 1991",
        "conflict: bill of Ana (2 March 2024) was told as 40 EUR and as 45 EUR",
    ]


# the ledger itself


def test_two_payments_alike_are_two_unless_they_come_from_one_turn() -> None:
    lunch: dict[str, Any] = {"kind": "payment", "who": "Ana", "what": "lunch", "amount": Decimal(9), "unit": "EUR"}
    same = noted(0, "Ana paid 9 EUR for lunch.", **lunch)
    facts = [same, same, noted(1, "Ana paid 9 EUR for lunch.", **lunch)]
    assert [fact.turn_ids for fact in in_order(facts)] == [("t0",), ("t1",)]


def test_what_goes_into_a_prompt_is_bounded() -> None:
    assert len(compute([event(n, f"thing{n}", who=f"person {n}") for n in range(200)])) == MOST_LINES
    assert compute([]) == []
