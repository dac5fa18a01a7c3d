"""Time expressions: from words to intervals, counted from the time at which the words were said.

The parser is bounded. What it does not know, and what falls outside the calendar, is no constraint (None), and
nothing is counted from today's date, so that an old conversation read again gives the same intervals.

How loose words are read:

- Weeks run from Monday to Sunday. "last week", "two weeks ago" and "this weekend" are the calendar's; "the week
  before 9 June" is the seven days before that day, so it always meets the "last week" that was said on it.
- "last Friday" and "next Friday" are the nearest one strictly before or after; "last May" and "last summer" the
  latest that is over; "this Friday" and "this May" those of the current week or year.
- "a few" is two to five, "several" three to seven, "early", "mid" and "late" are thirds.
- Seasons are those of the northern hemisphere, in whole months.
- Days are the calendar days where it was said (the anchor's own zone), written as days in UTC; clock times are
  converted to UTC. Parts of a day ("this morning", "last night") are the whole day.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from dualmem.records.memory import Interval, Precision
from dualmem.retrieval.times import periods, scanning, vocabulary
from dualmem.retrieval.times.periods import Prefer
from dualmem.retrieval.times.scanning import Found

__all__ = [
    "Difference",
    "Found",
    "Prefer",
    "between",
    "describe",
    "distance_days",
    "find",
    "overlap",
    "prepare",
    "resolve",
]

LONGEST_PHRASE = 200
"""Characters; a longer phrase is no time expression."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The time from one interval to another, measured from start to start."""

    order: Literal["before", "after", "same"]
    """Where the first starts, seen from the second."""
    days: int
    weeks: int
    """Whole weeks in `days`, as `months` and `years` are whole calendar months and years."""
    months: int
    years: int
    least_days: int
    """Between the two nearest days of the intervals, as `most_days` between the two farthest."""
    most_days: int

    @property
    def exact(self) -> bool:
        """Whether both are single days, so that `days` is the only possible count."""
        return self.least_days == self.most_days


def resolve(
    phrase: str, anchor: datetime | None, *, prefer: Prefer = "past", day_first: bool = False
) -> Interval | None:
    """Return the interval a phrase means, counted from `anchor`.

    Args:
        phrase: A time expression and nothing else ("last Friday", "the week before 9 June 2023").
        anchor: When it was said. Without one only phrases that name their year are read; a naive one is UTC.
        prefer: Which occurrence is meant where the words do not say ("on Monday", "15 March").
        day_first: Read "5/8/2023" as 5 August. Dates with dots always have the day first.

    Returns:
        An interval in UTC, open at one end for "since ..." and "until ...", or None for anything else: no time,
        a time that does not exist, or one that cannot be counted. Never raises.
    """
    if len(phrase) > LONGEST_PHRASE:
        return None
    return scanning.read_whole(phrase, periods.Clock(anchor, prefer, day_first))


def find(text: str, anchor: datetime | None, *, prefer: Prefer = "past", day_first: bool = False) -> list[Found]:
    """Return the time expressions in a text, in order and without overlap.

    Words that are more often something else ("2023", "May", "the 15th") need a preposition before them.
    The arguments are those of `resolve`; nothing is raised for any text.
    """
    return scanning.scan(text, periods.Clock(anchor, prefer, day_first))


def prepare() -> None:
    """Get ready to read many texts; it takes as long as reading some hundred."""
    scanning.prepare()


def overlap(first: Interval, second: Interval) -> bool:
    """Tell whether two intervals have an instant in common; an open end goes on for ever."""
    return distance_days(first, second) == 0


def distance_days(first: Interval, second: Interval) -> float:
    """Return the days that lie between two intervals, 0 where they overlap."""
    gaps = [
        (_utc(later.start) - _utc(earlier.end)).total_seconds()
        for earlier, later in ((first, second), (second, first))
        if later.start is not None and earlier.end is not None
    ]
    return max([0.0, *gaps]) / timedelta(days=1).total_seconds()


def between(first: Interval, second: Interval) -> Difference | None:
    """Return the time from the start of one interval to the start of the other, in whole calendar units.

    Returns:
        None where an interval has no start or no end to count from.
    """
    try:
        (a, a_last), (b, b_last) = periods.bounds(first), periods.bounds(second)
    except ValueError:
        return None
    order: Literal["before", "after", "same"] = "before" if a < b else "after" if a > b else "same"
    if order == "after":
        (a, a_last), (b, b_last) = (b, b_last), (a, a_last)
    days = (b - a).days
    months = (b.year - a.year) * 12 + b.month - a.month - (b.day < a.day)
    return Difference(
        order=order,
        days=days,
        weeks=days // 7,
        months=months,
        years=months // 12,
        least_days=max(0, (b - a_last).days),
        most_days=max((b_last - a).days, (a_last - b).days),
    )


def describe(interval: Interval) -> str:
    """Return the interval in a few words for a prompt: "7 May 2023", "May 2023", "since 2016", "unknown"."""
    if interval.start is None:
        return "unknown" if interval.end is None else f"until {_moment(interval.end, interval.precision)}"
    start = _moment(interval.start, interval.precision)
    if interval.end is None:
        return f"since {start}"
    end = _moment(interval.end, interval.precision)
    return start if start == end else f"{start} to {end}"


def _moment(moment: datetime, precision: Precision) -> str:
    moment = _utc(moment)
    if precision == "year":
        return str(moment.year)
    month = f"{vocabulary.MONTH_LINES[moment.month - 1][0].capitalize()} {moment.year}"
    if precision == "month":
        return month
    day = f"{moment.day} {month}"
    return f"{day}, {moment:%H:%M}" if precision == "minute" else day


def _utc(moment: datetime) -> datetime:
    """Return the moment in UTC; at the very ends of the calendar its own clock is kept."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)
