"""Read the times that conversations are dated with; what cannot be read is no time, never today's."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

_NUMBER = re.compile(r"-?\d{9,20}(?:\.\d{1,9})?", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_ZONE_NAME = re.compile(r"\s*(?:UTC|GMT)$")
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?"
# "1:56 pm on 8 May, 2023" (LoCoMo), "8 May 2023".
_DAY_MONTH = re.compile(
    rf"(?:{_CLOCK}\s*(?P<half>[ap])\.?m\.?\s+on\s+)?"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\s+(?P<month>[a-z]+)\.?,?\s+(?P<year>\d{4})",
    re.ASCII | re.IGNORECASE,
)
# "March-15-2024" (BEAM), "March 15, 2024".
_MONTH_DAY = re.compile(
    r"(?P<month>[a-z]+)\.?[\s-]+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?[\s-]+(?P<year>\d{4})",
    re.ASCII | re.IGNORECASE,
)
# "29.12.2023, 22:42:04" (REALTALK); the dots say that the day comes first.
_DOTTED = re.compile(rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}})(?:,?\s+{_CLOCK})?", re.ASCII)

# Before 1973 and after 5138 an epoch is something else: a counter, an index, a port.
_LEAST_EPOCH = 1e8
_SECONDS_BELOW = 1e11
_EPOCH_UNITS = (1.0, 1e3, 1e6, 1e9)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_LONGEST = 64
_NOON = 12


def parse_timestamp(value: object, zone: tzinfo) -> datetime | None:
    """Return the moment `value` names, with a zone, or None if it names none.

    Read are datetimes and dates, ISO 8601, an epoch in seconds, milli-, micro- or nanoseconds (as a number or
    as text), and the ways that the benchmarks write a time. A date alone is its midnight. What has no zone is
    taken in `zone`. The result can be converted to every zone.
    """
    moment = _moment(value)
    # One year of room at both ends, so that no conversion to another zone overflows.
    if moment is None or not MINYEAR < moment.year < MAXYEAR:
        return None
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=zone)


def to_24_hours(hour: int, half: str | None) -> int:
    """Return the hour of the day for an hour on the dial and `a` or `p`.

    Without one, or where the hour is none on the dial ("13:30 PM"), it is the hour of the day already.
    """
    if half is None or hour > _NOON:
        return hour
    return hour % _NOON + (_NOON if half.lower() == "p" else 0)


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the caller knows the zone
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_epoch(value)
    if isinstance(value, str) and len(value) <= _LONGEST:
        return _from_text(value.strip())
    return None


def _from_epoch(number: float) -> datetime | None:
    for unit in _EPOCH_UNITS:
        if _LEAST_EPOCH * unit <= number < _SECONDS_BELOW * unit:
            return _EPOCH + timedelta(seconds=number / unit)
    return None


def _from_text(text: str) -> datetime | None:
    if _NUMBER.fullmatch(text):
        return _from_epoch(float(text))
    for pattern in (_DAY_MONTH, _MONTH_DAY, _DOTTED):
        if match := pattern.fullmatch(text):
            return _from_groups(match.groupdict())
    if _DIGITS.fullmatch(text) and len(text) != len("20240315"):
        return None
    try:
        return datetime.fromisoformat(_ZONE_NAME.sub("+00:00", text))
    except ValueError:
        return None


def _from_groups(groups: dict[str, str | None]) -> datetime | None:
    numbers = {name: int(groups.get(name) or 0) for name in ("year", "day", "hour", "minute", "second")}
    month = _month(groups["month"] or "")
    numbers["hour"] = to_24_hours(numbers["hour"], groups.get("half"))
    try:
        return datetime(month=month, **numbers)  # type: ignore[arg-type] # noqa: DTZ001 - as above
    except ValueError:
        return None


def _month(text: str) -> int:
    """Return the number of a month that is named, shortened or a number already, 0 if it is none."""
    if text.isdecimal():
        return int(text)
    word = text.lower()
    for number, name in enumerate(_MONTHS, start=1):
        if len(word) >= len("mar") and name.startswith(word):
            return number
    return 0
