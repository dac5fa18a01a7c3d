"""Arithmetic on days and calendar periods."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal

from dualmem.records.memory import Interval, Precision
from dualmem.retrieval.times import vocabulary

Prefer = Literal["past", "future", "nearest"]
"""Which occurrence of something that recurs is meant where the words do not say ("on Monday", "in May")."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What a phrase is counted from."""

    anchor: datetime | None
    prefer: Prefer = "past"
    day_first: bool = False

    @property
    def now(self) -> datetime:
        """The anchor; a naive one is read as UTC. Raises ValueError without one: the phrase stays open."""
        if self.anchor is None:
            raise ValueError("the phrase needs an anchor")
        return self.anchor if self.anchor.tzinfo else self.anchor.replace(tzinfo=UTC)

    @property
    def today(self) -> date:
        return self.now.date()

    @property
    def zone(self) -> tzinfo:
        return (self.anchor.tzinfo if self.anchor else None) or UTC

    def on(self, day: date, prefer: Prefer = "past") -> Clock:
        """Return the clock set to another day."""
        return Clock(datetime.combine(day, time.min, UTC), prefer, self.day_first)

    def leaning(self, prefer: Prefer) -> Clock:
        """Return the same clock with another preferred direction."""
        return Clock(self.anchor, prefer, self.day_first)


def days(first: date, last: date, precision: Precision = "day") -> Interval:
    return Interval(
        start=datetime.combine(first, time.min, UTC),
        end=datetime.combine(last, time.max, UTC),
        precision=precision,
    )


def minute(moment: datetime, last: datetime | None = None) -> Interval:
    start, end = moment.astimezone(UTC), (last or moment).astimezone(UTC)
    return Interval(
        start=start.replace(second=0, microsecond=0),
        end=end.replace(second=59, microsecond=999999),
        precision="minute",
    )


def bounds(interval: Interval) -> tuple[date, date]:
    """Return the first and the last day of a closed interval."""
    if interval.start is None or interval.end is None:
        raise ValueError("the interval is open")
    return interval.start.date(), interval.end.date()


def join(first: Interval, last: Interval) -> Interval:
    if first.start is None or last.end is None or first.start > last.end:
        raise ValueError("the range is open or runs backwards")
    return Interval(start=first.start, end=last.end, precision=first.precision)


def shift(day: date, unit: str, count: int) -> date:
    """Move by calendar units; a day the month does not have becomes its last one."""
    if unit in vocabulary.DAYS_IN:
        return day + timedelta(days=count * vocabulary.DAYS_IN[unit])
    if unit not in vocabulary.MONTHS_IN:
        raise ValueError("hours and minutes do not move days")
    year, month = divmod(day.year * 12 + day.month - 1 + count * vocabulary.MONTHS_IN[unit], 12)
    if not date.min.year <= year <= date.max.year:
        raise OverflowError("the calendar ends before that year")
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def months(year: int, month: int, count: int, precision: Precision = "month") -> Interval:
    first = date(year, month, 1)
    last = shift(first, "month", count - 1)
    return days(first, last.replace(day=monthrange(last.year, last.month)[1]), precision)


def period(unit: str, day: date) -> Interval:
    """Return the calendar period that holds `day`."""
    monday = day.toordinal() - day.weekday()
    if unit == "week":
        return days(date.fromordinal(monday), date.fromordinal(monday + vocabulary.SUNDAY))
    if unit == "weekend":
        return days(date.fromordinal(monday + vocabulary.SATURDAY), date.fromordinal(monday + vocabulary.SUNDAY))
    if unit == "month":
        return months(day.year, day.month, 1)
    if unit == "quarter":
        return months(day.year, (day.month - 1) // 3 * 3 + 1, 3)
    if unit == "year":
        return months(day.year, 1, 12, "year")
    return days(day, day)


def near(day: date, weekday: int, word: str) -> date:
    """Return the weekday strictly before ("last") or after ("next") `day`, or in its week ("this")."""
    if word == "last":
        return day - timedelta(days=(day.weekday() - weekday - 1) % 7 + 1)
    if word == "next":
        return day + timedelta(days=(weekday - day.weekday() - 1) % 7 + 1)
    return day + timedelta(days=weekday - day.weekday())


def named_weekday(name: str, word: str, clock: Clock) -> Interval:
    day, weekday = clock.today, vocabulary.WEEKDAYS[name]
    if word == "this" and clock.prefer == "future" and weekday < day.weekday():
        word = "next"
    if not word:
        last, following = near(day, weekday, "last"), near(day, weekday, "next")
        nearest = last if day - last <= following - day else following
        return period("day", {"past": last, "future": following, "nearest": nearest}[clock.prefer])
    return period("day", near(day, weekday, word))


def recurring(make: Callable[[int], Interval], word: str, clock: Clock) -> Interval:
    """Choose the year of something yearly: by `word` (last, this, next), else by the preferred direction."""
    today = clock.today
    spans: list[tuple[date, date, Interval]] = []
    for year in range(today.year - 8, today.year + 9):
        try:
            interval = make(year)
        except (ValueError, OverflowError):  # 29 February, or a year outside the calendar
            continue
        spans.append((*bounds(interval), interval))
    if word == "this":
        spans.sort(key=lambda s: (not s[0] <= today <= s[1], abs(s[0].year - today.year)))
    elif word == "last":
        spans = [span for span in reversed(spans) if span[1] < today]
    elif word == "next":
        spans = [span for span in spans if span[0] > today]
    elif clock.prefer == "past":
        spans = [span for span in reversed(spans) if span[0] <= today]
    elif clock.prefer == "future":
        spans = [span for span in spans if span[1] >= today]
    else:
        spans.sort(key=lambda s: max((s[0] - today).days, (today - s[1]).days, 0))
    if not spans:
        raise ValueError("no such time near the anchor")
    return spans[0][2]


def _easter(year: int) -> Interval:
    """Return Easter Sunday (the anonymous Gregorian algorithm, Nature 13, 1876)."""
    a, b, c = year % 19, year // 100, year % 100
    h = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    k = (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7
    month, day = divmod(h + k - 7 * ((a + 11 * h + 22 * k) // 451) + 114, 31)
    return period("day", date(year, month, day + 1))


def holiday(name: str) -> Callable[[int], Interval]:
    if name == "easter":
        return _easter
    if name == "thanksgiving":
        return lambda year: period("day", near(date(year, 10, 31), 3, "next") + timedelta(days=21))
    month, day = vocabulary.HOLIDAYS[name]
    return lambda year: period("day", date(year, month, day))


def cut_pieces(first: date, last: date, unit: str, weekday: int | None = None) -> Iterator[Interval]:
    """Yield the periods of `unit` (or the days of that name) that begin between two days; weeks count from `first`."""
    if unit == "weekend":
        weekday = vocabulary.SATURDAY
    day = first if weekday is None else near(first - timedelta(days=1), weekday, "next")
    for _ in range(vocabulary.MOST_PIECES):
        if day > last:
            return
        yield days(day, day + timedelta(days=vocabulary.SUNDAY)) if unit == "week" else period(unit, day)
        day = shift(day, "week" if weekday is not None else unit, 1)


def third(interval: Interval, edge: str) -> Interval:
    """Return the early, middle or late third, in days of a month, months of a year, years of a decade."""
    first, last = bounds(interval)
    unit: str = interval.precision
    if unit == "year" and first.year == last.year:
        unit = "month"
    elif unit not in vocabulary.MONTHS_IN or (first.year, first.month) == (last.year, last.month):
        unit = "day"
    pieces = list(cut_pieces(first, last, unit))
    cut = len(pieces) // 3
    if not cut:
        return interval
    return {
        "early": join(pieces[0], pieces[cut - 1]),
        "mid": join(pieces[cut], pieces[-cut - 1]),
        "late": join(pieces[-cut], pieces[-1]),
    }[edge]
