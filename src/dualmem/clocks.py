"""Look at memories as of a time, on either of their two clocks.

The known-at clock (`as_of`): what had been told by then, and what was in force by it. The event clock (`valid_at`):
what holds in the world then, by all that is known. Both at once: what was held true then of another time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dualmem.lifecycle import WorkingSet
from dualmem.records import Interval, Kind, Memory

PASSING: Final[tuple[Kind, ...]] = ("event", "plan")
"""Kinds that last as long as their time; anything else lasts until something takes its place."""

_UNITS: Final = {
    "minute": timedelta(minutes=1),
    # "Last week", "the other day" and "at the weekend" are given to the day, and are one time.
    "day": timedelta(days=7),
    "month": timedelta(days=31),
    "year": timedelta(days=366),
}
"""The longest time that is one of its kind, by its precision."""

_DECADE = 10
_SEASON = 3


def seen_at(
    memories: Iterable[Memory], *, as_of: datetime | None = None, valid_at: datetime | None = None
) -> dict[str, Memory]:
    """Return memories by id, with the states and links they have at a time; those that are not there yet are left out.

    Args:
        memories: Together with the chains they are part of.
        as_of: On the known-at clock.
        valid_at: On the event clock.
    """
    working = WorkingSet()
    working.load(memories)
    for memory in list(working.memories.values()):
        untold = as_of is not None and memory.known_at > as_of
        ahead = valid_at is not None and begins(memory) > valid_at
        # Taking one out takes what was written for it and another, too.
        if (untold or ahead) and memory.id in working.memories:
            working.remove(memory.id)
    if valid_at is None:
        return working.memories
    return {key: _over(memory, valid_at) for key, memory in working.memories.items()}


def begins(memory: Memory) -> datetime:
    """Return from when a memory holds: by its own time, else by when it was told."""
    valid = memory.valid
    return valid.start if valid is not None and valid.start is not None else memory.known_at


def ends(memory: Memory) -> datetime | None:
    """Return when a memory ceases to hold by itself; None for what lasts until something replaces it.

    Events and plans last as long as their time. The time of anything else is when it began, unless it is plainly a
    span ("from 2019 to 2021"): longer than the unit in which it is given, and over when it was told. Who has worked
    somewhere "for three years" still does.
    """
    valid = memory.valid
    if valid is None or valid.end is None:
        return None
    if memory.kind in PASSING:
        return valid.end
    lasts = valid.end.date() == memory.known_at.date()
    return valid.end if _is_span(valid) and not lasts else None


def _is_span(valid: Interval) -> bool:
    """Whether a time is longer than the unit in which it is given: a season, quarter or decade is one, too."""
    unit = _UNITS.get(valid.precision)
    if unit is None or valid.start is None or valid.end is None or valid.end - valid.start <= unit:
        return False
    after = valid.end + timedelta(microseconds=1)
    months = (after.year - valid.start.year) * 12 + after.month - valid.start.month
    if valid.precision == "month":
        return not (valid.start.day == after.day == 1 and months == _SEASON)
    return not (valid.precision == "year" and valid.start.year % _DECADE == 0 and months == 12 * _DECADE)


def _over(memory: Memory, moment: datetime) -> Memory:
    end = ends(memory)
    if end is None or end >= moment or not memory.active:
        return memory
    return memory.model_copy(update={"state": "superseded", "retired_at": end})
