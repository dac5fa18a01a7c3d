"""Rules: what a match means, and what the words before a time make of it ("since", "the week before", "early").

Each raises ValueError or OverflowError for what is no time after all.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta

from dualmem.records.memory import Interval
from dualmem.retrieval.times import periods, vocabulary

Rule = Callable[[re.Match[str], periods.Clock], Interval]


def _year_number(text: str) -> int:
    """Read "2023", "'23" or "23"."""
    number = int(text.lstrip("'\u2019"))
    if number > vocabulary.TWO_DIGITS:
        return number
    return number + (1900 if number >= vocabulary.PIVOT else 2000)


def _group(match: re.Match[str], name: str) -> str:
    """Return what a group matched; nothing where the pattern has no such group."""
    return match.groupdict().get(name) or ""


def _which(match: re.Match[str]) -> str:
    """Return "last", "this", "next" or nothing."""
    word = _group(match, "which").rpartition(" ")[2]
    return {"past": "last", "previous": "last", "coming": "next", "upcoming": "next"}.get(word, word)


def iso(match: re.Match[str], clock: periods.Clock) -> Interval:
    day = date(int(match["year"]), int(match["month"]), int(match["day"]))
    if not _group(match, "hour"):
        return periods.period("day", day)
    moment = datetime.combine(day, time(int(match["hour"]), int(match["minute"])), clock.zone)
    if _group(match, "zone"):
        moment = datetime.fromisoformat(moment.strftime("%Y-%m-%dT%H:%M") + match["zone"].upper())
    return periods.minute(moment)


def numeric(match: re.Match[str], clock: periods.Clock) -> Interval:
    first, second = int(match["a"]), int(match["b"])
    # Dots are used where the day comes first; a number above 12 can only be the day.
    day_first = match["sep"] == "." or first > vocabulary.TWELVE or (clock.day_first and second <= vocabulary.TWELVE)
    day, month = (first, second) if day_first else (second, first)
    return periods.period("day", date(_year_number(match["year"]), month, day))


def dated(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read "8 May 2023", "March 15th" and "3 to 9 April"."""
    month, first = vocabulary.MONTHS[match["month"]], int(match["day"])
    last = int(_group(match, "to") or first)

    def make(year: int) -> Interval:
        return periods.join(
            periods.period("day", date(year, month, first)), periods.period("day", date(year, month, last))
        )

    return make(_year_number(match["year"])) if _group(match, "year") else periods.recurring(make, "", clock)


def months_of(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read a month, season or quarter, with its year or without."""
    if _group(match, "month"):
        month, count = vocabulary.MONTHS[match["month"]], 1
    elif _group(match, "season"):
        month, count = vocabulary.SEASONS[match["season"]], 3
    else:
        month, count = int(match["quarter"]) * 3 - 2, 3
    if _group(match, "year"):
        return periods.months(_year_number(match["year"]), month, count)
    return periods.recurring(lambda year: periods.months(year, month, count), _which(match), clock)


def feast(match: re.Match[str], clock: periods.Clock) -> Interval:
    make = periods.holiday(" ".join(match["holiday"].replace("\u2019", "'").split()))
    return make(int(match["year"])) if _group(match, "year") else periods.recurring(make, _which(match), clock)


def years(match: re.Match[str], _clock: periods.Clock) -> Interval:
    first = int(match["year"])
    last = _year_number(match["to"]) if _group(match, "to") else first
    if not vocabulary.FIRST_YEAR <= first <= last <= vocabulary.LAST_YEAR:
        raise ValueError("no year that people speak of by its number alone")
    return periods.days(date(first, 1, 1), date(last, 12, 31), "year")


def decade(match: re.Match[str], _clock: periods.Clock) -> Interval:
    first = int(match["decade"])
    first += 1900 if first < vocabulary.TWO_DIGITS else 0
    return periods.days(date(first, 1, 1), date(first + 9, 12, 31), "year")


def relative_day(match: re.Match[str], clock: periods.Clock) -> Interval:
    offset = {"yesterday": -1, "last": -1, "tomorrow": 1}.get(match["word"], 0)
    return periods.period("day", clock.today + timedelta(days=offset))


def other_day(_match: re.Match[str], clock: periods.Clock) -> Interval:
    return periods.days(periods.shift(clock.today, "week", -1), periods.shift(clock.today, "day", -1))


def calendar(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read a period by its place: "last week", "this month", "the week before last"."""
    unit, factor = vocabulary.UNITS[match["unit"]]
    count = {"last": -1, "next": 1, "before last": -2, "after next": 2}.get(_which(match) or _group(match, "place"), 0)
    day = periods.shift(clock.today, unit, count * factor)
    if match["unit"] == "decade":
        first = day.year // factor * factor
        return periods.days(date(first, 1, 1), date(first + factor - 1, 12, 31), "year")
    return periods.period(unit, day)


def weekend(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read "the weekend": the one under way, else the last or the coming one."""
    under_way, since = clock.today.weekday() >= vocabulary.SATURDAY, clock.today.weekday() + 1
    ahead = match[0].startswith("for") or clock.prefer == "future"  # "plans for the weekend"
    if under_way or ahead or (clock.prefer == "nearest" and since > vocabulary.SATURDAY - clock.today.weekday()):
        return periods.period("weekend", clock.today)
    return periods.period("weekend", periods.shift(clock.today, "weekend", -1))


def day_name(match: re.Match[str], clock: periods.Clock) -> Interval:
    return periods.named_weekday(match["weekday"], _which(match), clock)


def day_of_month(match: re.Match[str], clock: periods.Clock) -> Interval:
    day, start = int(match["day"]), clock.today.replace(day=1)
    months = [periods.shift(start, "month", count) for count in range(-2, 3)]
    days = [month.replace(day=day) for month in months if day <= monthrange(month.year, month.month)[1]]
    if clock.prefer == "past":
        days = [one for one in days if one <= clock.today]
    elif clock.prefer == "future":
        days = [one for one in days if one >= clock.today]
    if not days:
        raise ValueError("no such day near the anchor")
    return periods.period("day", min(days, key=lambda one: abs(one - clock.today)))


def _clocked(match: re.Match[str], day: date, clock: periods.Clock) -> Interval:
    hour = int(match["hour"])
    if _group(match, "half"):
        if not 1 <= hour <= vocabulary.TWELVE:
            raise ValueError("no hour of a twelve-hour clock")
        hour = hour % vocabulary.TWELVE + (vocabulary.TWELVE if match["half"] == "p" else 0)
    return periods.minute(datetime.combine(day, time(hour, int(_group(match, "minute") or 0)), clock.zone))


def at(match: re.Match[str], clock: periods.Clock) -> Interval:
    return _clocked(match, clock.today, clock)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else vocabulary.NUMBERS[word]


def _amount(match: re.Match[str]) -> tuple[int, int, str]:
    """Read "three weeks", "a few days", "a year and a half": the least and the most, and the unit they count."""
    unit, factor = vocabulary.UNITS[match["unit"]]
    words = (_group(match, "n") or "a").removesuffix(".5").split()
    vague = next((vocabulary.VAGUE[word] for word in words if word in vocabulary.VAGUE), None)
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
        elif unit in vocabulary.HALF:
            unit, size = vocabulary.HALF[unit]
            count = count * size * 2 + size
        else:
            raise ValueError("halves of that are not counted")
    return count, count, unit


def _away(least: int, most: int, unit: str, clock: periods.Clock, sign: int) -> Interval:
    """Return the period that lies so many units before (-1) or after (1) the clock."""
    if unit in vocabulary.MINUTES_IN:
        step = timedelta(minutes=vocabulary.MINUTES_IN[unit] * sign)
        return periods.minute(*sorted((clock.now + least * step, clock.now + most * step)))
    first, last = sorted(periods.shift(clock.today, unit, sign * count) for count in (least, most))
    return periods.join(periods.period(unit, first), periods.period(unit, last))


def ago(match: re.Match[str], clock: periods.Clock) -> Interval:
    return _away(*_amount(match), clock, -1)


def weekdays_ago(match: re.Match[str], clock: periods.Clock) -> Interval:
    count = _number(match["n"])
    nearest = periods.near(clock.today, vocabulary.WEEKDAYS[match["weekday"]], "last")
    return periods.period("day", periods.shift(nearest, "week", 1 - count))


def from_now(match: re.Match[str], clock: periods.Clock) -> Interval:
    return _away(*_amount(match), clock, 1)


def lasting(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read a stretch that ends (or, where the future is meant, begins) at the anchor: "for three years"."""
    _, most, unit = _amount(match)
    sign = 1 if (_which(match) or clock.prefer) in {"next", "future"} else -1
    if unit in vocabulary.MINUTES_IN:
        return periods.minute(
            *sorted((clock.now, clock.now + timedelta(minutes=vocabulary.MINUTES_IN[unit] * most * sign)))
        )
    first, last = sorted((clock.today, periods.shift(clock.today, unit, most * sign)))
    return periods.days(first, last, vocabulary.PRECISION.get(unit, "day"))


# Modifiers: what the words before a time make of it ("since", "the week before", "early").

Modifier = Callable[[re.Match[str], Interval, periods.Clock], Interval]


def same(_match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    return base


def since_then(_match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    if base.start is None:
        raise ValueError("it does not begin")
    return Interval(start=base.start, precision=base.precision)


def until(_match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    if base.end is None:
        raise ValueError("it does not end")
    return Interval(end=base.end, precision=base.precision)


def before(_match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    if base.start is None:
        raise ValueError("nothing comes before what does not begin")
    return Interval(end=base.start - timedelta(microseconds=1), precision=base.precision)


def after(_match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    if base.end is None:
        raise ValueError("nothing comes after what does not end")
    return Interval(start=base.end + timedelta(microseconds=1), precision=base.precision)


def so_far(match: re.Match[str], base: Interval, clock: periods.Clock) -> Interval:
    """Read "earlier this year" and "later this week"."""
    first, last = periods.bounds(base)
    today = max(first, min(last, clock.today))
    return periods.days(first, today) if match["side"] == "earlier" else periods.days(today, last)


def on_weekday(match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    """Read "Friday, 14 July 2023" (the date counts) and "Tuesday of last week"."""
    first, last = periods.bounds(base)
    if first == last:
        return base
    if (last - first).days != vocabulary.SUNDAY:
        raise ValueError("only a week has one day of that name")
    return next(periods.cut_pieces(first, last, "day", vocabulary.WEEKDAYS[match["weekday"]]))


def at_hour(match: re.Match[str], base: Interval, clock: periods.Clock) -> Interval:
    first, last = periods.bounds(base)
    if first != last or base.precision != "day":
        raise ValueError("only a day has hours")
    return _clocked(match, first, clock)


def holding(match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    """Read "the week of 23 August"."""
    return periods.period(match["unit"], periods.bounds(base)[0])


def part_of(match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    return periods.third(base, vocabulary.EDGES[match["edge"]])


def ordinal(match: re.Match[str], base: Interval, _clock: periods.Clock) -> Interval:
    """Read "the first week of May" and "the last Friday of June"."""
    first, last = periods.bounds(base)
    index, unit = vocabulary.ORDINALS[match["ordinal"]], _group(match, "unit") or "day"
    if index < 0 and unit == "week":
        return periods.days(last - timedelta(days=vocabulary.SUNDAY), last)
    weekday = vocabulary.WEEKDAYS[match["weekday"]] if _group(match, "weekday") else None
    pieces = list(periods.cut_pieces(first, last, unit, weekday))
    if not 0 < abs(index) <= len(pieces):
        raise ValueError("the period has not so many")
    return pieces[index if index < 0 else index - 1]


def neighbour(match: re.Match[str], base: Interval, clock: periods.Clock) -> Interval:
    """Read "the week before ...", "two days after ...", "the Sunday before ..."."""
    first, last = periods.bounds(base)
    sign = -1 if match["side"] in vocabulary.BACKWARDS else 1
    edge = first if sign < 0 else last
    if _group(match, "weekday"):
        return periods.period(
            "day", periods.near(edge, vocabulary.WEEKDAYS[match["weekday"]], "last" if sign < 0 else "next")
        )
    least, most, unit = _amount(match)
    if unit == "weekend":  # those that lie wholly before or after
        edge = (
            periods.near(edge, vocabulary.SUNDAY, "last")
            if sign < 0
            else periods.near(edge, vocabulary.SATURDAY, "next")
        )
        return _away(least - 1, most - 1, unit, clock.on(edge), sign)
    if (_group(match, "n") or "the") not in vocabulary.ARTICLES:
        return _away(least, most, unit, clock.on(edge), sign)
    start = edge if sign < 0 else edge + timedelta(days=1)
    ends = sorted((start, periods.shift(start, unit, sign * most)))
    precision = vocabulary.PRECISION.get(unit, "day")
    return periods.days(ends[0], ends[1] - timedelta(days=1), precision if precision == base.precision else "day")
