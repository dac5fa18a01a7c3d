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

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from itertools import zip_longest
from typing import Literal

from dualmem.records.memory import Interval, Precision

__all__ = [
    "Difference",
    "Found",
    "Prefer",
    "between",
    "describe",
    "distance_days",
    "find",
    "overlap",
    "resolve",
]

Prefer = Literal["past", "future", "nearest"]
"""Which occurrence of something that recurs is meant where the words do not say ("on Monday", "in May")."""

LONGEST_PHRASE = 200
"""Characters; a longer phrase is no time expression."""


@dataclass(frozen=True, slots=True)
class Found:
    """A time expression inside a text."""

    phrase: str
    start_index: int
    end_index: int
    interval: Interval


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


# Words, in lower case. German, French and Spanish names of months and weekdays stand beside the English ones.


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


_MONTH_LINES = _lines("""
january jan januar jänner janvier enero
february feb februar février febrero
march mar märz mars marzo
april apr avril abril
may mai mayo
june jun juni juin junio
july jul juli juillet julio
august aug août agosto
september sept sep septembre septiembre
october oct oktober octobre octubre
november nov novembre noviembre
december dec dezember décembre diciembre
""")
_MONTHS = {name: number for number, line in enumerate(_MONTH_LINES, 1) for name in line}
_VERBS = frozenset({"may", "march", "mar"})
"""Months that are also other words, unless they are capitalised."""
_WEEKDAY_LINES = _lines("""
monday mon montag lundi lunes
tuesday tues tue dienstag mardi martes
wednesday weds wed mittwoch mercredi miércoles
thursday thurs thur thu donnerstag jeudi jueves
friday fri freitag vendredi viernes
saturday sat samstag sonnabend samedi sábado
sunday sun sonntag dimanche domingo
""")
_WEEKDAYS = {name: number for number, line in enumerate(_WEEKDAY_LINES) for name in line}
_SATURDAY, _SUNDAY = 5, 6
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_UNITS = {
    name: (unit, int(count))
    for unit, count, *names in _lines("""
minute 1 minute min
hour 1 hour hr
day 1 day night morning afternoon evening
week 1 week
week 2 fortnight
weekend 1 weekend
month 1 month
quarter 1 quarter
year 1 year yr
year 10 decade
year 100 century centurie
""")
    for name in names
}
_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_DAYS_IN = {"day": 1, "week": 7, "weekend": 7}
_MINUTES_IN = {"minute": 1, "hour": 60}
_PRECISION: dict[str, Precision] = {"year": "year", "quarter": "month", "month": "month"}
"""Of a count of these units; of others it is the day."""
_HALF = {"year": ("month", 6), "month": ("week", 2), "week": ("day", 3), "day": ("hour", 12), "hour": ("minute", 30)}
"""What a half of a unit is counted in, and how many of those it is."""
_ARTICLES = frozenset({"a", "an", "the"})
(_COUNTS,) = _lines(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_NUMBERS = {word: number for number, word in enumerate(_COUNTS)} | dict.fromkeys(_ARTICLES, 1)
_VAGUE = {"few": (2, 5), "several": (3, 7)}
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": -1}
_EDGES = {
    name: edge
    for edge, *names in _lines("""
early early beginning start anfang début principios
mid mid middle mitte mediados
late late end ende fin finales
""")
    for name in names
}
_BACKWARDS = frozenset({"before", "prior to", "preceding", "leading up to"})
_HOLIDAYS = {
    " ".join(name): (int(month), int(day))
    for month, day, *name in _lines("""
1 1 new year's
1 1 new year's day
2 14 valentine's day
2 14 valentines day
10 31 halloween
12 24 christmas eve
12 25 christmas
12 25 christmas day
12 25 xmas
12 26 boxing day
12 31 new year's eve
12 31 new years eve
""")
}
_FIRST_YEAR, _LAST_YEAR = 1800, 2199
"""Bare numbers outside are not read as years."""
_PIVOT, _TWO_DIGITS = 70, 99
"""Two-digit years from the first on are of the 20th century."""
_TWELVE = 12
"""Months of a year, and hours of a clock's face."""
_MOST_PIECES = 400
"""Days of the longest interval that is cut into days, and some."""


# Arithmetic on days and calendar periods.


@dataclass(frozen=True, slots=True)
class _Clock:
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

    def on(self, day: date, prefer: Prefer = "past") -> _Clock:
        """Return the clock set to another day."""
        return _Clock(datetime.combine(day, time.min, UTC), prefer, self.day_first)

    def leaning(self, prefer: Prefer) -> _Clock:
        """Return the same clock with another preferred direction."""
        return _Clock(self.anchor, prefer, self.day_first)


def _days(first: date, last: date, precision: Precision = "day") -> Interval:
    return Interval(
        start=datetime.combine(first, time.min, UTC),
        end=datetime.combine(last, time.max, UTC),
        precision=precision,
    )


def _minute(moment: datetime, last: datetime | None = None) -> Interval:
    start, end = moment.astimezone(UTC), (last or moment).astimezone(UTC)
    return Interval(
        start=start.replace(second=0, microsecond=0),
        end=end.replace(second=59, microsecond=999999),
        precision="minute",
    )


def _bounds(interval: Interval) -> tuple[date, date]:
    """Return the first and the last day of a closed interval."""
    if interval.start is None or interval.end is None:
        raise ValueError("the interval is open")
    return interval.start.date(), interval.end.date()


def _join(first: Interval, last: Interval) -> Interval:
    if first.start is None or last.end is None or first.start > last.end:
        raise ValueError("the range is open or runs backwards")
    return Interval(start=first.start, end=last.end, precision=first.precision)


def _shift(day: date, unit: str, count: int) -> date:
    """Move by calendar units; a day the month does not have becomes its last one."""
    if unit in _DAYS_IN:
        return day + timedelta(days=count * _DAYS_IN[unit])
    if unit not in _MONTHS_IN:
        raise ValueError("hours and minutes do not move days")
    year, month = divmod(day.year * 12 + day.month - 1 + count * _MONTHS_IN[unit], 12)
    if not date.min.year <= year <= date.max.year:
        raise OverflowError("the calendar ends before that year")
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _months(year: int, month: int, count: int, precision: Precision = "month") -> Interval:
    first = date(year, month, 1)
    last = _shift(first, "month", count - 1)
    return _days(first, last.replace(day=monthrange(last.year, last.month)[1]), precision)


def _period(unit: str, day: date) -> Interval:
    """Return the calendar period that holds `day`."""
    monday = day.toordinal() - day.weekday()
    if unit == "week":
        return _days(date.fromordinal(monday), date.fromordinal(monday + _SUNDAY))
    if unit == "weekend":
        return _days(date.fromordinal(monday + _SATURDAY), date.fromordinal(monday + _SUNDAY))
    if unit == "month":
        return _months(day.year, day.month, 1)
    if unit == "quarter":
        return _months(day.year, (day.month - 1) // 3 * 3 + 1, 3)
    if unit == "year":
        return _months(day.year, 1, 12, "year")
    return _days(day, day)


def _near(day: date, weekday: int, word: str) -> date:
    """Return the weekday strictly before ("last") or after ("next") `day`, or in its week ("this")."""
    if word == "last":
        return day - timedelta(days=(day.weekday() - weekday - 1) % 7 + 1)
    if word == "next":
        return day + timedelta(days=(weekday - day.weekday() - 1) % 7 + 1)
    return day + timedelta(days=weekday - day.weekday())


def _weekday(name: str, word: str, clock: _Clock) -> Interval:
    day, weekday = clock.today, _WEEKDAYS[name]
    if word == "this" and clock.prefer == "future" and weekday < day.weekday():
        word = "next"
    if not word:
        last, following = _near(day, weekday, "last"), _near(day, weekday, "next")
        nearest = last if day - last <= following - day else following
        return _period("day", {"past": last, "future": following, "nearest": nearest}[clock.prefer])
    return _period("day", _near(day, weekday, word))


def _recurring(make: Callable[[int], Interval], word: str, clock: _Clock) -> Interval:
    """Choose the year of something yearly: by `word` (last, this, next), else by the preferred direction."""
    today = clock.today
    spans: list[tuple[date, date, Interval]] = []
    for year in range(today.year - 8, today.year + 9):
        try:
            interval = make(year)
        except (ValueError, OverflowError):  # 29 February, or a year outside the calendar
            continue
        spans.append((*_bounds(interval), interval))
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
    return _period("day", date(year, month, day + 1))


def _holiday(name: str) -> Callable[[int], Interval]:
    if name == "easter":
        return _easter
    if name == "thanksgiving":
        return lambda year: _period("day", _near(date(year, 10, 31), 3, "next") + timedelta(days=21))
    month, day = _HOLIDAYS[name]
    return lambda year: _period("day", date(year, month, day))


def _pieces(first: date, last: date, unit: str, weekday: int | None = None) -> Iterator[Interval]:
    """Yield the periods of `unit` (or the days of that name) that begin between two days; weeks count from `first`."""
    if unit == "weekend":
        weekday = _SATURDAY
    day = first if weekday is None else _near(first - timedelta(days=1), weekday, "next")
    for _ in range(_MOST_PIECES):
        if day > last:
            return
        yield _days(day, day + timedelta(days=_SUNDAY)) if unit == "week" else _period(unit, day)
        day = _shift(day, "week" if weekday is not None else unit, 1)


def _third(interval: Interval, edge: str) -> Interval:
    """Return the early, middle or late third, in days of a month, months of a year, years of a decade."""
    first, last = _bounds(interval)
    unit: str = interval.precision
    if unit == "year" and first.year == last.year:
        unit = "month"
    elif unit not in _MONTHS_IN or (first.year, first.month) == (last.year, last.month):
        unit = "day"
    pieces = list(_pieces(first, last, unit))
    cut = len(pieces) // 3
    if not cut:
        return interval
    return {
        "early": _join(pieces[0], pieces[cut - 1]),
        "mid": _join(pieces[cut], pieces[-cut - 1]),
        "late": _join(pieces[-cut], pieces[-1]),
    }[edge]


# Rules: what a match means. Each raises ValueError or OverflowError for what is no time after all.

_Rule = Callable[[re.Match[str], _Clock], Interval]


def _year_number(text: str) -> int:
    """Read "2023", "'23" or "23"."""
    number = int(text.lstrip("'\u2019"))
    if number > _TWO_DIGITS:
        return number
    return number + (1900 if number >= _PIVOT else 2000)


def _group(match: re.Match[str], name: str) -> str:
    """Return what a group matched; nothing where the pattern has no such group."""
    return match.groupdict().get(name) or ""


def _which(match: re.Match[str]) -> str:
    """Return "last", "this", "next" or nothing."""
    word = _group(match, "which").rpartition(" ")[2]
    return {"past": "last", "previous": "last", "coming": "next", "upcoming": "next"}.get(word, word)


def _iso(match: re.Match[str], clock: _Clock) -> Interval:
    day = date(int(match["year"]), int(match["month"]), int(match["day"]))
    if not _group(match, "hour"):
        return _period("day", day)
    moment = datetime.combine(day, time(int(match["hour"]), int(match["minute"])), clock.zone)
    if _group(match, "zone"):
        moment = datetime.fromisoformat(moment.strftime("%Y-%m-%dT%H:%M") + match["zone"].upper())
    return _minute(moment)


def _numeric(match: re.Match[str], clock: _Clock) -> Interval:
    first, second = int(match["a"]), int(match["b"])
    # Dots are used where the day comes first; a number above 12 can only be the day.
    day_first = match["sep"] == "." or first > _TWELVE or (clock.day_first and second <= _TWELVE)
    day, month = (first, second) if day_first else (second, first)
    return _period("day", date(_year_number(match["year"]), month, day))


def _dated(match: re.Match[str], clock: _Clock) -> Interval:
    """Read "8 May 2023", "March 15th" and "3 to 9 April"."""
    month, first = _MONTHS[match["month"]], int(match["day"])
    last = int(_group(match, "to") or first)

    def make(year: int) -> Interval:
        return _join(_period("day", date(year, month, first)), _period("day", date(year, month, last)))

    return make(_year_number(match["year"])) if _group(match, "year") else _recurring(make, "", clock)


def _months_of(match: re.Match[str], clock: _Clock) -> Interval:
    """Read a month, season or quarter, with its year or without."""
    if _group(match, "month"):
        month, count = _MONTHS[match["month"]], 1
    elif _group(match, "season"):
        month, count = _SEASONS[match["season"]], 3
    else:
        month, count = int(match["quarter"]) * 3 - 2, 3
    if _group(match, "year"):
        return _months(_year_number(match["year"]), month, count)
    return _recurring(lambda year: _months(year, month, count), _which(match), clock)


def _feast(match: re.Match[str], clock: _Clock) -> Interval:
    make = _holiday(" ".join(match["holiday"].replace("\u2019", "'").split()))
    return make(int(match["year"])) if _group(match, "year") else _recurring(make, _which(match), clock)


def _years(match: re.Match[str], _clock: _Clock) -> Interval:
    first = int(match["year"])
    last = _year_number(match["to"]) if _group(match, "to") else first
    if not _FIRST_YEAR <= first <= last <= _LAST_YEAR:
        raise ValueError("no year that people speak of by its number alone")
    return _days(date(first, 1, 1), date(last, 12, 31), "year")


def _decade(match: re.Match[str], _clock: _Clock) -> Interval:
    first = int(match["decade"])
    first += 1900 if first < _TWO_DIGITS else 0
    return _days(date(first, 1, 1), date(first + 9, 12, 31), "year")


def _relative_day(match: re.Match[str], clock: _Clock) -> Interval:
    offset = {"yesterday": -1, "last": -1, "tomorrow": 1}.get(match["word"], 0)
    return _period("day", clock.today + timedelta(days=offset))


def _other_day(_match: re.Match[str], clock: _Clock) -> Interval:
    return _days(_shift(clock.today, "week", -1), _shift(clock.today, "day", -1))


def _calendar(match: re.Match[str], clock: _Clock) -> Interval:
    """Read a period by its place: "last week", "this month", "the week before last"."""
    unit, factor = _UNITS[match["unit"]]
    count = {"last": -1, "next": 1, "before last": -2, "after next": 2}.get(_which(match) or _group(match, "place"), 0)
    day = _shift(clock.today, unit, count * factor)
    if match["unit"] == "decade":
        first = day.year // factor * factor
        return _days(date(first, 1, 1), date(first + factor - 1, 12, 31), "year")
    return _period(unit, day)


def _weekend(match: re.Match[str], clock: _Clock) -> Interval:
    """Read "the weekend": the one under way, else the last or the coming one."""
    under_way, since = clock.today.weekday() >= _SATURDAY, clock.today.weekday() + 1
    ahead = match[0].startswith("for") or clock.prefer == "future"  # "plans for the weekend"
    if under_way or ahead or (clock.prefer == "nearest" and since > _SATURDAY - clock.today.weekday()):
        return _period("weekend", clock.today)
    return _period("weekend", _shift(clock.today, "weekend", -1))


def _day_name(match: re.Match[str], clock: _Clock) -> Interval:
    return _weekday(match["weekday"], _which(match), clock)


def _day_of_month(match: re.Match[str], clock: _Clock) -> Interval:
    day, start = int(match["day"]), clock.today.replace(day=1)
    months = [_shift(start, "month", count) for count in range(-2, 3)]
    days = [month.replace(day=day) for month in months if day <= monthrange(month.year, month.month)[1]]
    if clock.prefer == "past":
        days = [one for one in days if one <= clock.today]
    elif clock.prefer == "future":
        days = [one for one in days if one >= clock.today]
    if not days:
        raise ValueError("no such day near the anchor")
    return _period("day", min(days, key=lambda one: abs(one - clock.today)))


def _clocked(match: re.Match[str], day: date, clock: _Clock) -> Interval:
    hour = int(match["hour"])
    if _group(match, "half"):
        if not 1 <= hour <= _TWELVE:
            raise ValueError("no hour of a twelve-hour clock")
        hour = hour % _TWELVE + (_TWELVE if match["half"] == "p" else 0)
    return _minute(datetime.combine(day, time(hour, int(_group(match, "minute") or 0)), clock.zone))


def _at(match: re.Match[str], clock: _Clock) -> Interval:
    return _clocked(match, clock.today, clock)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS[word]


def _amount(match: re.Match[str]) -> tuple[int, int, str]:
    """Read "three weeks", "a few days", "a year and a half": the least and the most, and the unit they count."""
    unit, factor = _UNITS[match["unit"]]
    words = (_group(match, "n") or "a").removesuffix(".5").split()
    vague = next((_VAGUE[word] for word in words if word in _VAGUE), None)
    if vague:
        return vague[0] * factor, vague[1] * factor, unit
    if words[0] == "half":
        count = 0
    elif "couple" in words:
        count = 2
    else:
        count = _number(words[0])
    if _group(match, "least"):
        return _number(match["least"]) * factor, count * factor, unit
    count *= factor
    if _group(match, "half") or "half" in words or _group(match, "n").endswith(".5"):
        if factor > 1:
            count += factor // 2
        elif unit in _HALF:
            unit, size = _HALF[unit]
            count = count * size * 2 + size
        else:
            raise ValueError("halves of that are not counted")
    return count, count, unit


def _away(least: int, most: int, unit: str, clock: _Clock, sign: int) -> Interval:
    """Return the period that lies so many units before (-1) or after (1) the clock."""
    if unit in _MINUTES_IN:
        step = timedelta(minutes=_MINUTES_IN[unit] * sign)
        return _minute(*sorted((clock.now + least * step, clock.now + most * step)))
    first, last = sorted(_shift(clock.today, unit, sign * count) for count in (least, most))
    return _join(_period(unit, first), _period(unit, last))


def _ago(match: re.Match[str], clock: _Clock) -> Interval:
    return _away(*_amount(match), clock, -1)


def _weekdays_ago(match: re.Match[str], clock: _Clock) -> Interval:
    count = _number(match["n"])
    nearest = _near(clock.today, _WEEKDAYS[match["weekday"]], "last")
    return _period("day", _shift(nearest, "week", 1 - count))


def _ahead(match: re.Match[str], clock: _Clock) -> Interval:
    return _away(*_amount(match), clock, 1)


def _lasting(match: re.Match[str], clock: _Clock) -> Interval:
    """Read a stretch that ends (or, where the future is meant, begins) at the anchor: "for three years"."""
    _, most, unit = _amount(match)
    sign = 1 if (_which(match) or clock.prefer) in {"next", "future"} else -1
    if unit in _MINUTES_IN:
        return _minute(*sorted((clock.now, clock.now + timedelta(minutes=_MINUTES_IN[unit] * most * sign))))
    first, last = sorted((clock.today, _shift(clock.today, unit, most * sign)))
    return _days(first, last, _PRECISION.get(unit, "day"))


# Modifiers: what the words before a time make of it ("since", "the week before", "early").

_Modifier = Callable[[re.Match[str], Interval, _Clock], Interval]


def _same(_match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    return base


def _since(_match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    if base.start is None:
        raise ValueError("it does not begin")
    return Interval(start=base.start, precision=base.precision)


def _until(_match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    if base.end is None:
        raise ValueError("it does not end")
    return Interval(end=base.end, precision=base.precision)


def _before(_match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    if base.start is None:
        raise ValueError("nothing comes before what does not begin")
    return Interval(end=base.start - timedelta(microseconds=1), precision=base.precision)


def _after(_match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    if base.end is None:
        raise ValueError("nothing comes after what does not end")
    return Interval(start=base.end + timedelta(microseconds=1), precision=base.precision)


def _so_far(match: re.Match[str], base: Interval, clock: _Clock) -> Interval:
    """Read "earlier this year" and "later this week"."""
    first, last = _bounds(base)
    today = max(first, min(last, clock.today))
    return _days(first, today) if match["side"] == "earlier" else _days(today, last)


def _on_weekday(match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    """Read "Friday, 14 July 2023" (the date counts) and "Tuesday of last week"."""
    first, last = _bounds(base)
    if first == last:
        return base
    if (last - first).days != _SUNDAY:
        raise ValueError("only a week has one day of that name")
    return next(_pieces(first, last, "day", _WEEKDAYS[match["weekday"]]))


def _at_hour(match: re.Match[str], base: Interval, clock: _Clock) -> Interval:
    first, last = _bounds(base)
    if first != last or base.precision != "day":
        raise ValueError("only a day has hours")
    return _clocked(match, first, clock)


def _holding(match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    """Read "the week of 23 August"."""
    return _period(match["unit"], _bounds(base)[0])


def _edge(match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    return _third(base, _EDGES[match["edge"]])


def _ordinal(match: re.Match[str], base: Interval, _clock: _Clock) -> Interval:
    """Read "the first week of May" and "the last Friday of June"."""
    first, last = _bounds(base)
    index, unit = _ORDINALS[match["ordinal"]], _group(match, "unit") or "day"
    if index < 0 and unit == "week":
        return _days(last - timedelta(days=_SUNDAY), last)
    weekday = _WEEKDAYS[match["weekday"]] if _group(match, "weekday") else None
    pieces = list(_pieces(first, last, unit, weekday))
    if not 0 < abs(index) <= len(pieces):
        raise ValueError("the period has not so many")
    return pieces[index if index < 0 else index - 1]


def _neighbour(match: re.Match[str], base: Interval, clock: _Clock) -> Interval:
    """Read "the week before ...", "two days after ...", "the Sunday before ..."."""
    first, last = _bounds(base)
    sign = -1 if match["side"] in _BACKWARDS else 1
    edge = first if sign < 0 else last
    if _group(match, "weekday"):
        return _period("day", _near(edge, _WEEKDAYS[match["weekday"]], "last" if sign < 0 else "next"))
    least, most, unit = _amount(match)
    if unit == "weekend":  # those that lie wholly before or after
        edge = _near(edge, _SUNDAY, "last") if sign < 0 else _near(edge, _SATURDAY, "next")
        return _away(least - 1, most - 1, unit, clock.on(edge), sign)
    if (_group(match, "n") or "the") not in _ARTICLES:
        return _away(least, most, unit, clock.on(edge), sign)
    start = edge if sign < 0 else edge + timedelta(days=1)
    ends = sorted((start, _shift(start, unit, sign * most)))
    precision = _PRECISION.get(unit, "day")
    return _days(ends[0], ends[1] - timedelta(days=1), precision if precision == base.precision else "day")


# Other languages: each pattern says the same as an English phrase.


def _said(template: str) -> _Rule:
    """Return a rule that reads a phrase as its English translation."""

    def rule(match: re.Match[str], clock: _Clock) -> Interval:
        words = {name: _english(name, word) for name, word in match.groupdict().items() if word}
        interval = _whole(template.format_map(words), clock, translated=True)
        if interval is None:
            raise ValueError("the translation says no time")
        return interval

    return rule


def _english(name: str, word: str) -> str:
    if name == "weekday" and word in _CJK_WEEKDAYS:
        return _CJK_WEEKDAYS[word]
    if name == "month" and word.isdecimal() and 1 <= int(word) <= _TWELVE:
        return _MONTH_LINES[int(word) - 1][0]
    return _TRANSLATIONS.get(word.rpartition(" ")[2], word)


def _hier(match: re.Match[str], clock: _Clock) -> Interval:
    """Read French "hier"; in German it means "here"."""
    if _GERMAN.search(match.string):
        raise ValueError("the text is German")
    return _period("day", clock.today - timedelta(days=1))


# Patterns. A blank stands for one to three white-space characters, so that no match can run away; "<...>" for a part.


def _any(words: Iterable[str]) -> str:
    """Return an alternation, longest first; an apostrophe may be straight or curled."""
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace("'", _QUOTE).replace(r"\ ", " ") for word in longest_first)


_QUOTE, _DASH = r"['\u2019]", r"[-\u2013]"
_AFTER_DAYS = "and or at in for to is was we i he she they it that with but so because when"
"""Words that may follow "the 15th" where it is a day; a noun makes it something else ("the 3rd floor")."""
_LEAST = rf"\d{{1,3}}|{_any(_COUNTS)}"
_COUNT = (
    r"\d{1,4}(?:\.5)?|(?:a )?few|several|(?:a )?couple(?: of)?|half an?"
    rf"|(?:{_any([*_COUNTS, 'a', 'an'])})(?: and a half)?"
)
_TRANSLATIONS = {
    word: english
    for english, *words in _lines("""
a ein eine einem einer un une uno una 一
two zwei deux dos 二 两 兩
three drei trois tres 三
four vier quatre cuatro 四
five fünf cinq cinco 五
six sechs seis 六
seven sieben sept siete 七
eight acht huit ocho 八
nine neun neuf nueve 九
ten zehn dix diez 十
few paar einigen einige quelques unos unas pocos pocas algunos algunas 几 幾 数 數
minute minuten minutos 分 分钟 分鐘
hour stunde stunden heure heures hora horas 小时 小時 時間
day tag tage tagen jour jours día días 天 日
week woche wochen semaine semaines semana semanas 周 週 星期 個星期 个星期 週間
weekend wochenende 周末 週末
month monat monate monaten mois mes meses 月 个月 個月 ヶ月 か月 カ月 ヵ月
year jahr jahre jahren an ans année années año años 年
spring frühling frühjahr printemps primavera
summer sommer été verano
autumn herbst automne otoño
winter hiver invierno
""")
    for word in words
}
_PARTS = {
    "<month>": f"(?P<month>{_any(_MONTHS)})",
    "<weekday>": f"(?P<weekday>{_any(_WEEKDAYS)})",
    "<season>": f"(?P<season>{_any(_SEASONS)})",
    "<holiday>": f"(?P<holiday>{_any([*_HOLIDAYS, 'easter', 'thanksgiving'])})",
    "<which>": "(?P<which>last|next|this past|this coming|this|past|previous|coming|upcoming)",
    "<unit>": f"(?P<unit>{_any(_UNITS)})s?",
    "<n>": rf"(?:(?P<least>{_LEAST}) ?(?:{_DASH}|to|or) ?)?(?P<n>{_COUNT})",
    "<the n>": f"(?:(?P<n>the|{_COUNT}) )?",
    "<half>": "(?P<half> and a half)?",
    "<year>": r"(?P<year>[12]\d{3})",
    "<short year>": rf"(?P<year>[12]\d{{3}}|{_QUOTE}\d\d)",
    "<day>": r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er)?",
    "<to day>": rf"(?: ?(?:{_DASH}|to|until|bis|au|al) ?(?P<to>[0-3]?\d)(?:st|nd|rd|th|\.)?)?",
    "<clock>": (
        r"(?P<hour>\d{1,2})(?=:\d\d| ?[ap]\.?m)(?::(?P<minute>[0-5]\d)(?::[0-5]\d)?)?(?: ?(?P<half>[ap])(?:m|\.m\.))?"
    ),
    "<no noun>": rf"(?! (?!(?:{_any(_AFTER_DAYS.split())})\b)[^\W\d_])",
    "<part>": "(?:early |late )?(?:in the )?(?:morning|afternoon|evening|night)",
    "<about>": "(?:(?:about|almost|around|at least|roughly|nearly|over|more than|some) )?",
    "<count>": rf"(?P<count>\d{{1,4}}|{_any([*_TRANSLATIONS, 'ein paar'])})",
    "<period>": f"(?P<word>{_any(_TRANSLATIONS)})",
    "<word>": f"(?P<word>{_any([*_TRANSLATIONS, *_WEEKDAYS, *_MONTHS])})",
}


def _regex(pattern: str, *, starts: bool = False, ends: bool = False) -> re.Pattern[str]:
    """Compile a pattern; with `starts` or `ends` it holds at that end of the search, else at a word's border."""
    pattern = re.sub(r"(?<!\?P)<[\w ]+>", lambda name: _PARTS[name[0]], pattern).replace(" ", r"(?:\s{1,3})")
    # Not inside a word, nor inside a longer number such as a version, an amount or a decimal.
    before, behind = r"(?<!\w)(?<!\d[.,:/])", r"(?!\w)(?![.,:/]\d)"
    return re.compile(("" if starts else before) + f"(?:{pattern})" + (r"\Z" if ends else behind))


_MONTH_LEAD = (
    r"(?:in|since|until|till|by|before|after|from|during|of|for|between|through|around|starting|beginning|early|mid"
    r"|late|end|ending|im|seit|bis|en|de|depuis|desde|anfang|mitte|ende|début|fin)[\s-](?:the )?"
)
_SEASON_LEAD = r"(?:in|since|until|till|by|before|after|during|over|for|early|mid|late|end of)[\s-](?:the )?"
_YEAR_LEAD = (
    r"(?:in|since|until|till|by|before|after|from|during|between|year|around|circa|early|mid|late"
    r"|(?:end|beginning|start|middle) of|jahr|seit|bis|en|depuis|desde|año|année)[\s-]"
)
_DECADE_LEAD = r"(?:the|early|mid|late)[\s-]"
_WEEKDAY_LEAD = "(?:on|by|until|till|since|before|after|from|am) "
_NOW_LEAD = "(?:until|till|by|from) "
_DAY_LEAD = "(?:on|by|until|till|since|before|after|from) "
_EDGE_LEAD = "(?:beginning|start|middle|end)(?: of)? "
_ALONE = "(?!)"
"""Matches nothing: only a whole phrase is read so."""

_ENGLISH: tuple[tuple[str, _Rule, str], ...] = (
    # pattern, rule, and what must stand before it inside a longer text
    (
        r"<year>-(?P<month>\d\d)-(?P<day>\d\d)"
        r"(?:(?:t| )(?P<hour>\d\d):(?P<minute>\d\d)(?::\d\d(?:\.\d{1,9})?)?(?P<zone>z|[+-]\d\d:\d\d)?)?",
        _iso,
        "",
    ),
    (r"<year>/(?P<month>\d\d?)/(?P<day>\d\d?)", _iso, ""),
    (r"(?P<a>\d\d?)(?P<sep>[./-])(?P<b>\d\d?)(?P=sep)(?P<year>[12]\d{3})", _numeric, ""),
    (r"(?P<a>\d\d?)(?P<sep>/)(?P<b>\d\d?)/(?P<year>\d\d)", _numeric, ""),
    (
        r"(?:the )?<day>\.?<to day>(?: |-)(?:of |de )?<month>(?:\.(?=,? ?\d))?(?:(?:,|-| of| de| del)? ?<short year>)?",
        _dated,
        _MONTH_LEAD,
    ),
    (
        r"<month>\.?(?: |-)(?:the )?<day>(?!\d|:\d| ?[ap]m)<to day>(?:(?:,|-| of)? ?<short year>)?",
        _dated,
        _MONTH_LEAD,
    ),
    (r"between <month> <day> and (?P<to>[0-3]?\d)(?:st|nd|rd|th)?(?:,? <year>)?", _dated, ""),
    (r"<month>\.?,?(?: of| de)? ?<short year>", _months_of, ""),
    (r"<which> <month>", _months_of, ""),
    (r"<month>", _months_of, _MONTH_LEAD),
    (r"<which> <season>", _months_of, ""),
    (rf"<season>(?:,| of)? ?<short year>(?: ?(?:{_DASH}|/) ?\d{{2,4}})?", _months_of, ""),
    (r"<season>", _months_of, _SEASON_LEAD),
    (r"(?P<quarter>[1-4])(?:st|nd|rd|th) quarter(?:(?:,| of)? <year>)?", _months_of, ""),
    (r"q(?P<quarter>[1-4])(?:(?:,| of)? ?<year>)?", _months_of, ""),
    (r"(?:<which> )?<holiday>(?:(?:,| of)? <year>)?", _feast, ""),
    (r"<year>", _years, _YEAR_LEAD),
    (rf"<year> ?{_DASH} ?(?P<to>[12]\d{{3}})", _years, ""),
    (rf"(?:the )?(?P<decade>1[89]\d0|20\d0){_QUOTE}?s", _decade, ""),
    (rf"{_QUOTE}?(?P<decade>[5-9]0){_QUOTE}?s", _decade, _DECADE_LEAD),
    (rf"(?P<word>yesterday|today|tomorrow)(?:{_QUOTE}s)?(?: <part>)?", _relative_day, ""),
    (r"(?P<word>tonight|right now|currently|at the moment|these days|nowadays)", _relative_day, ""),
    (r"(?P<word>now)", _relative_day, _NOW_LEAD),
    (r"(?P<word>last|this) (?:morning|afternoon|evening|night)", _relative_day, ""),
    (r"the other (?:day|night|evening)", _other_day, ""),
    (r"(?:the )?<which> (?P<unit>week|weekend|month|quarter|year|decade)", _calendar, ""),
    (r"the (?P<unit>week|weekend|month|quarter|year) (?P<place>before last|after next)", _calendar, ""),
    (r"the (?P<unit>week|month|quarter|year|decade)(?! \d)", _calendar, _EDGE_LEAD),
    (r"(?:over|on|at|for|during) the weekend", _weekend, ""),
    (r"(?:the )?weekend", _weekend, _ALONE),
    (r"<which> <weekday>s?", _day_name, ""),
    (r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?(?: <part>)?", _day_name, ""),
    (r"<weekday>(?: <part>)?", _day_name, _WEEKDAY_LEAD),
    (r"the (?P<day>[0-3]?\d)(?:st|nd|rd|th)<no noun>", _day_of_month, _DAY_LEAD),
    (r"(?:at )?<clock>", _at, _ALONE),
    (r"<about><n> <unit><half> (?:ago|back(?! (?:to|in|and)))", _ago, ""),
    (rf"(?P<n>{_LEAST}) <weekday>s ago", _weekdays_ago, ""),
    (rf"in <about><n> <unit><half>(?:{_QUOTE}s?)?(?: time)?(?! of)", _ahead, ""),
    (r"<n> <unit><half> from (?:now|today)", _ahead, ""),
    (r"for (?:the )?<about><n> <unit><half>(?! of)", _lasting, ""),
    (r"<n> <unit><half> now", _lasting, ""),
    (r"(?:(?:in|over|during|for|within) )?(?:the |these )?<which> <about><n> <unit>", _lasting, ""),
    (r"(?:(?:in|over|during|for|within) )?the (?P<which>past) <unit>", _lasting, ""),
)
_SPACED: tuple[tuple[str, str], ...] = (
    # German
    ("vorgestern", "2 days ago"),
    ("gestern(?: (?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht))?|letzte nacht", "yesterday"),
    ("heute(?: (?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht))?|jetzt|derzeit", "today"),
    (r"(?<!am\s)(?<!guten\s)(?<!jeden\s)morgen(?: (?:früh|vormittag|mittag|nachmittag|abend))?", "tomorrow"),
    ("übermorgen", "in 2 days"),
    ("vor <count> <period>", "{count} {word} ago"),
    ("seit <count> <period>", "for {count} {word}"),
    ("in <count> <period>", "in {count} {word}"),
    ("(?:letzt|vergangen|vorig)e[nrsm]? <word>", "last {word}"),
    ("nächste[nrsm]? <word>", "next {word}"),
    ("diese[nrsm]? <word>", "this {word}"),
    # French
    ("avant-hier", "2 days ago"),
    ("hier (?:soir|matin|après-midi)", "yesterday"),
    (rf"aujourd{_QUOTE}hui|ce (?:soir|matin)|en ce moment", "today"),
    ("(?<!après-)demain(?: (?:soir|matin))?", "tomorrow"),
    ("après-demain", "in 2 days"),
    ("il y a <count> <period>", "{count} {word} ago"),
    ("dans <count> <period>", "in {count} {word}"),
    ("depuis <count> <period>", "for {count} {word}"),
    (rf"(?:l{_QUOTE}|l[ea] )?<word> (?:derni(?:er|ère)|passée?)", "last {word}"),
    (rf"(?:l{_QUOTE}|l[ea] )?<word> prochaine?", "next {word}"),
    ("cet?(?:te)? <word>", "this {word}"),
    # Spanish
    ("anteayer", "2 days ago"),
    ("ayer(?: por la (?:mañana|tarde|noche))?|anoche", "yesterday"),
    ("hoy|esta (?:mañana|tarde|noche)|ahora", "today"),
    (r"(?<!la\s)mañana(?: por la (?:mañana|tarde|noche))?", "tomorrow"),
    ("pasado mañana", "in 2 days"),
    ("hace <count> <period>", "{count} {word} ago"),
    ("dentro de <count> <period>", "in {count} {word}"),
    ("desde hace <count> <period>", "for {count} {word}"),
    ("(?:el |la )?<word> pasad[oa]", "last {word}"),
    ("(?:el |la )?próxim[oa] <word>", "next {word}"),
    ("(?:el |la )?<word> que viene", "next {word}"),
    ("est[ea] <word>", "this {word}"),
)
_CJK_WEEKDAYS = {
    sign: name
    for name, signs in _lines("""
monday 一月
tuesday 二火
wednesday 三水
thursday 四木
friday 五金
saturday 六土
sunday 日天
""")
    for sign in signs
}
_CJK_UNIT = "(?P<word>周末|週末|周|週|星期|月|年)"
_CJK_DAY = "(?P<weekday>[一二三四五六日天月火水木金土])(?:曜日)?"
_CJK_AMOUNT = (
    r"(?P<count>\d{1,4}|[一二两兩三四五六七八九十几幾数數])\s?"
    "(?P<word>分钟|分鐘|分|小时|小時|時間|天|日|[个個]?星期|週間|周|週|[个個ヶかカヵ]月|年)[以之]?"
)
_SCRIPTS: tuple[tuple[str, str], ...] = (
    # Chinese and Japanese, which write no blanks
    (r"(?P<year>[12]\d{3})\s?年\s?(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})\s?[日号號]", "{year}-{m:0>2}-{d:0>2}"),
    (r"(?P<year>[12]\d{3})\s?年\s?(?P<month>\d{1,2})\s?月", "{month} {year}"),
    (r"(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[日号號]", "{day} {month}"),
    (r"(?P<year>[12]\d{3})\s?年", "{year}"),
    (r"(?P<month>\d{1,2})\s?月", "{month}"),
    ("昨[天日晚夜]|きのう", "yesterday"),
    ("今[天日晚夜]|现在|現在|きょう", "today"),
    ("明[天日晚]|あした", "tomorrow"),
    ("前天|一昨日|おととい", "2 days ago"),
    ("[后後]天|明後日|あさって", "in 2 days"),
    ("去年|昨年", "last year"),
    ("[明来來]年", "next year"),
    ("前年|一昨年", "2 years ago"),
    (f"{_CJK_AMOUNT}前", "{count} {word} ago"),
    (f"{_CJK_AMOUNT}[后後]", "in {count} {word}"),
    (f"(?:上[个個]?|先){_CJK_UNIT}", "last {word}"),
    (f"(?:下[个個]?|来|來){_CJK_UNIT}", "next {word}"),
    (f"(?:[这這][个個]?|本|今){_CJK_UNIT}", "this {word}"),
    (f"(?:上[个個]?(?:周|週|星期|礼拜)|先週の?){_CJK_DAY}", "{weekday} of last week"),
    (f"(?:下[个個]?(?:周|週|星期|礼拜)|来週の?){_CJK_DAY}", "{weekday} of next week"),
)
_MODIFIERS: tuple[tuple[str, _Modifier], ...] = (
    # what stands before a time, and what it makes of it
    ("<weekday>,? (?:(?:of|in|on) )?(?:the )?", _on_weekday),
    ("(?:the )?(?:early |late )?(?:morning|afternoon|evening|night) (?:of|on) (?:the )?", _same),
    ("(?:at )?<clock>,? (?:on )?(?:the )?", _at_hour),
    (
        f"(?:the )?(?P<ordinal>{_any(_ORDINALS)}) (?:<weekday>|(?P<unit>day|week|weekend|month|quarter|year))"
        " (?:of|in) (?:the )?",
        _ordinal,
    ),
    (f"<the n>(?:<weekday>|<unit>)<half> (?P<side>{_any(_BACKWARDS)}|after|following) (?:the )?", _neighbour),
    ("(?:the )?(?P<unit>week|weekend|month|quarter|year) of (?:the )?", _holding),
    (rf"(?:the )?(?P<edge>{_any(_EDGES)})(?: of| in| de)?[\s-](?:the )?", _edge),
    ("(?P<side>earlier|later) ", _so_far),
    ("(?:ever )?since (?:the )?|(?:starting|beginning)(?: from| in| on)? (?:the )?|seit |depuis |desde ", _since),
    (rf"(?:until|till|by|no later than|bis|jusqu{_QUOTE}à|hasta) (?:the )?", _until),
    ("(?:before|prior to|earlier than) (?:the )?", _before),
    ("(?:after|later than) (?:the )?", _after),
)
_HOUR_BEHIND = "(?:,|,? at| um| à)? <clock>"
_BETWEEN = "(?:between|from|zwischen|von|entre|de|desde|du) (?:the )?"
_JOINT = r" ?(?P<word>and|und|et|y|to|until|till|through|bis|au|a|al|hasta|[-\u2013\u2014~至到]|から) ?(?:the )?"
_DASHES, _DIGIT = frozenset("-\u2013\u2014"), re.compile(r"\d")
_FORWARD = "(?:until|till|by|due|starting|beginning|no later than|bis) (?:the )?"
_FILLERS = (
    r"\W*(?:(?:in|on|at|during|over|for|the|of|sometime|around|about|circa|back|as of|year|im|am|en|le|el|au)"
    r"[\s,]{1,3}){0,4}"
)
_GERMAN = re.compile(r"\b(?:ich|und|der|die|das|ist|sind|nicht|wir|es|ein|eine|hat|war|mit|auch)\b")
_WIDE_DIGITS = {ord("\uff10") + digit: str(digit) for digit in range(10)}
_LONGEST_CHAIN = 3
"""Modifiers before one time ("since the week before ...")."""
_REACH = 48
"""Characters before a time in which its modifiers are looked for."""


# Scanning.


@dataclass(frozen=True, slots=True)
class _Candidate:
    match: re.Match[str]
    rule: _Rule
    loose: bool
    """Needs company to be a time: "2023" and "May" are more often something else."""

    @property
    def start(self) -> int:
        return self.match.start()

    @property
    def end(self) -> int:
        return self.match.end()

    def read(self, clock: _Clock) -> Interval | None:
        """Return what it means, None for a time that does not exist or that needs an anchor."""
        try:
            return self.rule(self.match, clock)
        except (ValueError, OverflowError):
            return None


@dataclass(frozen=True, slots=True)
class _Grammar:
    english: tuple[tuple[re.Pattern[str], _Rule, re.Pattern[str] | None], ...]
    others: tuple[tuple[re.Pattern[str], _Rule, re.Pattern[str] | None], ...]
    modifiers: tuple[tuple[re.Pattern[str], _Modifier], ...]
    part_behind: re.Pattern[str]
    hour_behind: re.Pattern[str]
    between: re.Pattern[str]
    joint: re.Pattern[str]
    forward: re.Pattern[str]
    fillers: re.Pattern[str]


@cache
def _grammar() -> _Grammar:
    """Compile the patterns, on first use."""
    spaced = [(_regex(pattern), _said(template), None) for pattern, template in _SPACED]
    unspaced = [(re.compile(rf"(?<!\d){pattern}"), _said(template), None) for pattern, template in _SCRIPTS]
    return _Grammar(
        english=tuple((_regex(one), rule, _regex(lead, ends=True) if lead else None) for one, rule, lead in _ENGLISH),
        others=(*spaced, *unspaced, (_regex("hier"), _hier, None)),
        modifiers=tuple((_regex(pattern, ends=True), modifier) for pattern, modifier in _MODIFIERS),
        part_behind=_regex(" <part>", starts=True),
        hour_behind=_regex(_HOUR_BEHIND, starts=True),
        between=_regex(_BETWEEN, ends=True),
        joint=_regex(_JOINT, starts=True, ends=True),
        forward=_regex(_FORWARD, ends=True),
        fillers=_regex(_FILLERS, starts=True, ends=True),
    )


def _lower(text: str) -> str:
    """Return the text in lower case with every character in its place."""
    lowered = text.lower().translate(_WIDE_DIGITS)
    if len(lowered) == len(text):
        return lowered
    return "".join(one.lower() if len(one.lower()) == 1 else one for one in text).translate(_WIDE_DIGITS)


def _candidates(text: str, lowered: str, *, whole: bool, translated: bool) -> list[_Candidate]:
    """Return the matches of all rules, first and longest first; a translation is not translated again."""
    found: list[_Candidate] = []
    for pattern, rule, lead in _grammar().english + (() if translated else _grammar().others):
        for match in pattern.finditer(lowered):
            loose = not (whole or lead is None or lead.search(lowered, max(0, match.start() - _REACH), match.start()))
            if loose and rule is _dated:  # "march 15" may be a walk, "March 15" is a day
                loose = match["month"] in _VERBS and text[match.start("month")].islower()
            found.append(_Candidate(match, rule, loose))
    return sorted(found, key=lambda one: (one.start, -one.end))


def _joined(lowered: str, first: _Candidate, second: _Candidate) -> bool:
    """Tell whether two times are the ends of one range; "and" needs "between" before it."""
    joint = _grammar().joint.match(lowered, first.end, second.start)
    if joint is None:
        return False
    if (
        joint["word"] in _DASHES and joint[0] != joint["word"]
    ):  # "last week - yesterday I" is no range, "May 3 - June 5" is
        return bool(_DIGIT.search(first.match[0]) and _DIGIT.search(second.match[0]))
    opened = _grammar().between.search(lowered, max(0, first.start - _REACH), first.start)
    return bool(opened) or joint["word"] not in {"and", "und", "et", "y", "a"}


def _chosen(text: str, lowered: str, *, whole: bool, translated: bool) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    for candidate in _candidates(text, lowered, whole=whole, translated=translated):
        if chosen and candidate.start < chosen[-1].end:
            continue
        if candidate.loose and not (chosen and _joined(lowered, chosen[-1], candidate)):
            continue
        chosen.append(candidate)
    return chosen


def _range(first: _Candidate, second: _Candidate, clock: _Clock) -> Interval | None:
    """Read both ends; one without a year takes it from the other."""
    last = second.read(_Clock(None, day_first=clock.day_first))
    begin = first.read(clock.on(last.start.date()) if last and last.start else clock)
    if begin is None or begin.start is None:
        return None
    last = last or second.read(clock)
    if last is None or last.end is None or last.end < begin.start:
        last = second.read(clock.on(begin.start.date(), "future"))
    try:
        return _join(begin, last) if last else None
    except ValueError:
        return None


def _scan(text: str, clock: _Clock, *, whole: bool = False, translated: bool = False) -> list[Found]:
    lowered, grammar = _lower(text), _grammar()
    chosen = _chosen(text, lowered, whole=whole, translated=translated)
    found: list[Found] = []
    taken = 0
    for here, following in zip_longest(chosen, chosen[1:]):
        if here.start < taken:
            continue
        floor = max(0, here.start - _REACH)
        interval, start, end = None, here.start, here.end
        if following and _joined(lowered, here, following):
            interval = _range(here, following, clock)
            if interval:
                end = following.end
                opened = grammar.between.search(lowered, floor, start)
                start = opened.start() if opened else start
        if interval is None:
            forward = grammar.forward.search(lowered, floor, start)
            interval = here.read(clock.leaning("future") if forward else clock)
        if interval is None:
            continue
        interval, start, end = _modified(lowered, start, end, interval, clock)
        while found and found[-1].end_index > start:  # a modifier took it in: "the Sunday before 25 May"
            found.pop()
        found.append(Found(text[start:end], start, end, interval))
        taken = end
    return found


def _modified(lowered: str, start: int, end: int, interval: Interval, clock: _Clock) -> tuple[Interval, int, int]:
    """Apply what stands behind a time and before it."""
    grammar = _grammar()
    part = grammar.part_behind.match(lowered, end)
    end = part.end() if part else end
    hour = grammar.hour_behind.match(lowered, end)
    if hour:
        with suppress(ValueError, OverflowError):
            interval, end = _at_hour(hour, interval, clock), hour.end()
    for _ in range(_LONGEST_CHAIN):
        for pattern, modifier in grammar.modifiers:
            match = pattern.search(lowered, max(0, start - _REACH), start)
            if match is None:
                continue
            try:
                interval, start = modifier(match, interval, clock), match.start()
            except (ValueError, OverflowError):
                continue
            break
        else:
            break
    return interval, start, end


def _whole(phrase: str, clock: _Clock, *, translated: bool = False) -> Interval | None:
    found = _scan(phrase, clock, whole=True, translated=translated)
    if len(found) != 1 or any(character.isalnum() for character in phrase[found[0].end_index :]):
        return None
    return found[0].interval if _grammar().fillers.match(_lower(phrase), 0, found[0].start_index) else None


# The public functions.


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
    return _whole(phrase, _Clock(anchor, prefer, day_first))


def find(text: str, anchor: datetime | None, *, prefer: Prefer = "past", day_first: bool = False) -> list[Found]:
    """Return the time expressions in a text, in order and without overlap.

    Words that are more often something else ("2023", "May", "the 15th") need a preposition before them.
    The arguments are those of `resolve`; nothing is raised for any text.
    """
    return _scan(text, _Clock(anchor, prefer, day_first))


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
        (a, a_last), (b, b_last) = _bounds(first), _bounds(second)
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
    month = f"{_MONTH_LINES[moment.month - 1][0].capitalize()} {moment.year}"
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
