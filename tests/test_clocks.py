"""Memories as of a time, on either clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.clocks import begins, ends, seen_at
from dualmem.lifecycle import WorkingSet, violations
from dualmem.records import Interval, Memory, Precision
from dualmem.retrieval.times import find

START = datetime(2024, 3, 1, 10, 0, tzinfo=UTC)
NOW = datetime(2025, 1, 1, tzinfo=UTC)
Make = Callable[..., Memory]


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def of_year(first: int, last: int | None = None, precision: Precision = "year") -> Interval:
    return Interval(
        start=datetime(first, 1, 1, tzinfo=UTC),
        end=datetime(last or first, 12, 31, 23, 59, tzinfo=UTC),
        precision=precision,
    )


def chained(*memories: Memory) -> dict[str, Memory]:
    working = WorkingSet()
    working.load(memories)
    for memory in memories[1:]:
        assert working.supersede(memory.id, memories[0].id, reason="", at=NOW) == ""
    return working.memories


def states(seen: dict[str, Memory]) -> dict[str, str]:
    assert violations(seen.values()) == []
    return {key: memory.state for key, memory in seen.items()}


def test_as_of_a_time_what_was_told_later_is_not_there(a_memory: Make) -> None:
    known = chained(a_memory("berlin", 1), a_memory("porto", 5), a_memory("faro", 9))
    assert states(seen_at(known.values(), as_of=day(0))) == {}
    assert states(seen_at(known.values(), as_of=day(1))) == {"berlin": "active"}
    assert states(seen_at(known.values(), as_of=day(6))) == {"berlin": "superseded", "porto": "active"}
    assert seen_at(known.values(), as_of=day(9)) == known


def test_a_late_statement_was_not_known_before_it_was_told(a_memory: Make) -> None:
    """Told on day 9 of what was before Porto: as of day 6 the chain is the one without it."""
    known = chained(
        a_memory("berlin", 1, valid=of_year(2019)),
        a_memory("porto", 5, valid=of_year(2023)),
        a_memory("rome", 9, valid=of_year(2021)),
    )
    seen = seen_at(known.values(), as_of=day(6))
    assert states(seen) == {"berlin": "superseded", "porto": "active"}
    assert seen["berlin"].linked("superseded_by") == ("porto",)


@pytest.mark.parametrize(
    ("year", "held"), [(2018, None), (2019, "berlin"), (2020, "berlin"), (2022, "rome"), (2024, "porto")]
)
def test_valid_at_a_time_the_state_of_then_is_in_force(a_memory: Make, year: int, held: str | None) -> None:
    known = chained(
        a_memory("berlin", 1, valid=of_year(2019)),
        a_memory("porto", 5, valid=of_year(2023)),
        a_memory("rome", 9, valid=of_year(2021)),
    )
    seen = seen_at(known.values(), valid_at=datetime(year, 6, 1, tzinfo=UTC))
    assert [key for key, memory in seen.items() if memory.active] == ([held] if held else [])


def test_events_hold_on_their_day_and_spans_until_their_end(a_memory: Make) -> None:
    party = Interval(start=day(3), end=day(4), precision="day")
    memories = [
        a_memory("party", 1, kind="event", valid=party),
        a_memory("studies", 1, kind="fact", valid=of_year(2019, 2021)),
        a_memory("moved", 1, kind="state", valid=of_year(2019)),
        a_memory("undated", 2, kind="fact"),
    ]

    def held(moment: datetime) -> set[str]:
        return {key for key, memory in seen_at(memories, valid_at=moment).items() if memory.active}

    assert held(datetime(2020, 1, 1, tzinfo=UTC)) == {"studies", "moved"}
    assert held(day(3.5)) == {"party", "moved", "undated"}
    assert held(day(20)) == {"moved", "undated"}


@pytest.mark.parametrize(
    ("words", "over"),
    [
        ("last week", False),
        ("at the weekend", False),
        ("the other day", False),
        ("a few days ago", False),
        ("last month", False),
        ("in spring 2023", False),
        ("last quarter", False),
        ("in 2019", False),
        ("in the 1990s", False),
        ("for three years", False),
        ("from 2019 to 2021", True),
        ("from May to August 2023", True),
        ("1 March 2024 to 31 March 2024", True),
    ],
)
def test_what_lasts_is_over_only_where_its_time_is_a_span(a_memory: Make, words: str, over: bool) -> None:
    (found, *_) = find(words, day(20), prefer="past")
    state = a_memory("moved", 20, valid=found.interval)
    assert found.interval.end is not None
    assert (ends(state) is not None) is over
    assert begins(state) == found.interval.start
    assert ends(a_memory("party", 20, kind="event", valid=found.interval)) == found.interval.end


def test_both_clocks_at_once(a_memory: Make) -> None:
    """What was held on day 6 to be true in 2022; that it was Rome was told on day 9."""
    known = chained(
        a_memory("berlin", 1, valid=of_year(2019)),
        a_memory("porto", 5, valid=of_year(2023)),
        a_memory("rome", 9, valid=of_year(2021)),
    )
    seen = seen_at(known.values(), as_of=day(6), valid_at=datetime(2022, 6, 1, tzinfo=UTC))
    assert [key for key, memory in seen.items() if memory.active] == ["berlin"]


@given(
    told=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    pairs=st.lists(
        st.tuples(st.sampled_from(["supersede", "merge", "contradict"]), st.integers(0, 4), st.integers(0, 4))
    ),
    moment=st.integers(-1, 7),
)
def test_as_of_a_time_holds_what_was_told_by_then_and_is_whole(
    a_memory: Make, told: list[int], pairs: list[tuple[str, int, int]], moment: int
) -> None:
    working = WorkingSet()
    working.load(a_memory(str(number), when, position=number) for number, when in enumerate(told))
    for operation, left, right in pairs:
        getattr(working, operation)(str(left), str(right), reason="", at=NOW)
    before = dict(working.memories)
    seen = seen_at(before.values(), as_of=day(moment))
    assert set(seen) == {str(number) for number, when in enumerate(told) if when <= moment}
    assert violations(seen.values()) == []
    # The filter that a search puts on the stored times gives the same.
    assert {key for key, one in seen.items() if one.active} == {
        key
        for key, one in before.items()
        if one.known_at <= day(moment) and (one.retired_at is None or one.retired_at > day(moment))
    }
    assert working.memories == before
