from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.loaders.times import parse_timestamp, to_24_hours

ROME = ZoneInfo("Europe/Rome")
PLUS_2 = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:05 am on 1 February, 2023", datetime(2023, 2, 1, 0, 5, tzinfo=UTC)),
        ("12:05 pm on 1 Sept 2023", datetime(2023, 9, 1, 12, 5, tzinfo=UTC)),
        ("29.12.2023, 22:42:04", datetime(2023, 12, 29, 22, 42, 4, tzinfo=UTC)),
        ("29.12.2023", datetime(2023, 12, 29, tzinfo=UTC)),
        ("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)),
        ("March 5th, 2024", datetime(2024, 3, 5, tzinfo=UTC)),
        ("2024-03-15", datetime(2024, 3, 15, tzinfo=UTC)),
        ("20240315", datetime(2024, 3, 15, tzinfo=UTC)),
        ("2024-03-15T10:00:00Z", datetime(2024, 3, 15, 10, tzinfo=UTC)),
        ("2024-03-15 10:00:00 UTC", datetime(2024, 3, 15, 10, tzinfo=UTC)),
        ("2024-03-15T10:00:00+02:00", datetime(2024, 3, 15, 10, tzinfo=PLUS_2)),
        (1710493200, datetime(2024, 3, 15, 9, tzinfo=UTC)),
        (1710493200.5, datetime(2024, 3, 15, 9, 0, 0, 500_000, tzinfo=UTC)),
        (1710493200_000, datetime(2024, 3, 15, 9, tzinfo=UTC)),
        (1710493200_000_000, datetime(2024, 3, 15, 9, tzinfo=UTC)),
        (1710493200_000_000_000, datetime(2024, 3, 15, 9, tzinfo=UTC)),
        ("1710493200.000100", datetime(2024, 3, 15, 9, 0, 0, 100, tzinfo=UTC)),
        ("1710493200000", datetime(2024, 3, 15, 9, tzinfo=UTC)),
        (datetime(2024, 3, 15, 10, tzinfo=PLUS_2), datetime(2024, 3, 15, 10, tzinfo=PLUS_2)),
        (date(2024, 3, 15), datetime(2024, 3, 15, tzinfo=UTC)),
    ],
)
def test_a_time_is_read(value: object, moment: datetime) -> None:
    assert parse_timestamp(value, UTC) == moment


@pytest.mark.parametrize("value", ["2024-07-01T10:00", datetime(2024, 7, 1, 10), "10:00 am on 1 July, 2024"])
def test_a_time_without_a_zone_is_taken_in_the_given_one(value: object) -> None:
    parsed = parse_timestamp(value, ROME)

    assert parsed is not None
    assert parsed.tzinfo is ROME
    assert parsed.astimezone(UTC) == datetime(2024, 7, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "soon",
        "9077",
        9077,
        0,
        -1710493200,
        float("nan"),
        float("inf"),
        10**400,
        "100000 years ago",
        "31.02.2024",
        "Marchy-15-2024",
        "Ma-15-2024",
        "25:00 pm on 8 May, 2023",
        "99999999999999999999999999",
        "0001-01-01",
        datetime(9999, 12, 31),
        "9999-12-31T23:59:59",
        [],
        "x" * 10_000,
    ],
)
def test_what_is_no_time_is_none(value: object) -> None:
    assert parse_timestamp(value, UTC) is None


class _Nowhere(tzinfo):
    def utcoffset(self, when: datetime | None) -> None: ...

    def dst(self, when: datetime | None) -> None: ...

    def tzname(self, when: datetime | None) -> None: ...


def test_a_zone_without_an_offset_is_no_zone() -> None:
    assert parse_timestamp(datetime(2024, 1, 1, tzinfo=_Nowhere()), UTC) == datetime(2024, 1, 1, tzinfo=UTC)


@given(st.text() | st.integers() | st.floats() | st.datetimes() | st.dates() | st.none())
def test_any_value_gives_a_convertible_time_or_none(value: object) -> None:
    parsed = parse_timestamp(value, timezone(timedelta(hours=-14)))

    assert parsed is None or parsed.astimezone(timezone(timedelta(hours=14))) == parsed


@pytest.mark.parametrize(
    ("hour", "half", "expected"), [(12, "a", 0), (12, "p", 12), (1, "P", 13), (11, "a", 11), (22, None, 22)]
)
def test_a_dial_hour_becomes_an_hour_of_the_day(hour: int, half: str | None, expected: int) -> None:
    assert to_24_hours(hour, half) == expected
