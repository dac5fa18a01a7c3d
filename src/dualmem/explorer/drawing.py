"""Where things stand in a drawing: times on an axis, lifelines, bars. Pure geometry; the templates draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from dualmem.records import Memory

WIDTH: Final = 1000.0
"""Units across a drawing; the page scales it."""

_LEAST: Final = 6.0
"""A bar is at least so wide, to be seen."""

_ROOM: Final = 0.06

_UNITS: Final[tuple[tuple[timedelta, str], ...]] = (
    (timedelta(days=365 * 3), "%Y"),
    (timedelta(days=70), "%b %Y"),
    (timedelta(days=3), "%-d %b"),
    (timedelta(0), "%-d %b %H:%M"),
)
"""How a tick is written, by how much time the axis covers."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time."""

    start: datetime
    end: datetime

    def parts(self, count: int) -> Iterator[tuple[datetime, datetime]]:
        """Return `count` equal parts; the last ends just after the end, so that nothing at the end is left out."""
        step = (self.end - self.start + timedelta(microseconds=1)) / count
        for number in range(count):
            yield self.start + step * number, self.start + step * (number + 1) + timedelta(microseconds=1)

    def padded(self) -> Span:
        """Return it with some room after its end, so that what began at the end can be seen."""
        return Span(self.start, self.end + max((self.end - self.start) * _ROOM, timedelta(minutes=1)))

    def place(self, instant: datetime) -> float:
        """Return where a time stands, from 0 to `WIDTH`; times outside stand at an end."""
        whole = (self.end - self.start).total_seconds()
        share = (instant - self.start).total_seconds() / whole if whole else 0.5
        return round(WIDTH * min(1.0, max(0.0, share)), 2)


class Tick(NamedTuple):
    """A mark on an axis."""

    x: float
    label: str


def ticks(span: Span, count: int = 5) -> list[Tick]:
    """Return marks at equal distances, each with its time in as few words as tell it from the others."""
    whole = span.end - span.start
    if not whole:
        return [Tick(WIDTH / 2, _written(span.start, "%-d %b %Y"))]
    form = next(form for least, form in _UNITS if whole >= least)
    marks = [
        Tick(round(WIDTH * n / count, 2), _written(span.start + whole * n / count, form)) for n in range(count + 1)
    ]
    seen: set[str] = set()
    return [mark for mark in marks if not (mark.label in seen or seen.add(mark.label))]  # type: ignore[func-returns-value] # both are false


def _written(instant: datetime, form: str) -> str:
    # `%-d` is not everywhere.
    return instant.astimezone(UTC).strftime(form.replace("%-d", str(instant.astimezone(UTC).day)))


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a drawing."""

    x: float
    width: float
    height: float = 0.0
    label: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Lifeline:
    """A memory on both clocks: from when it was told to when it was replaced, and when it holds in the world."""

    told: Bar
    open: bool
    """Whether it is in force, so that the line goes on."""
    held: Bar | None


def lifeline(memory: Memory, span: Span) -> Lifeline:
    """Return the lines of a memory on the axis of `span`; its date is cut off where it leaves the axis."""
    start = span.place(memory.known_at)
    end = span.place(memory.retired_at) if memory.retired_at else WIDTH
    held = None
    valid = memory.valid
    if valid is not None and (valid.start or valid.end):
        held = _bar(span.place(valid.start) if valid.start else 0.0, span.place(valid.end) if valid.end else WIDTH)
    return Lifeline(told=_bar(start, end), open=memory.active, held=held)


def _bar(start: float, end: float) -> Bar:
    width = max(_LEAST, end - start)
    return Bar(round(min(start, WIDTH - width), 2), round(width, 2))


def bars(counts: Sequence[int], span: Span, height: float) -> list[Bar]:
    """Return the bars of a density: the highest is `height`, and where there is anything, something is seen."""
    most = max(counts, default=0) or 1
    width = WIDTH / max(1, len(counts))
    return [
        Bar(
            round(width * number, 2),
            round(width * 0.86, 2),
            round(max(2.0, height * count / most), 2),
            f"{_written(start, '%-d %b %Y')}: {count}",
            count,
        )
        for number, (count, (start, _)) in enumerate(zip(counts, span.parts(len(counts)), strict=True))
        if count
    ]


def stack(shares: Mapping[str, float], whole: float) -> list[Bar]:
    """Return the parts of a sum as one bar after the other, `whole` being `WIDTH`."""
    parts: list[Bar] = []
    x = 0.0
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        width = WIDTH * share / whole if whole > 0 else 0.0
        parts.append(Bar(round(x, 2), round(width, 2), label=name))
        x += width
    return parts
