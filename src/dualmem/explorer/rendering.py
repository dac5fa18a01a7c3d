"""Turn what was read into HTML: one environment of templates, in which everything is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from dualmem.explorer.catalogue import TURNS_ON_PAGE
from dualmem.explorer.drawing import WIDTH, lifeline, stack
from dualmem.explorer.views import KINDS, STATUSES, as_input
from dualmem.prompting import describe_instant
from dualmem.records import Interval, Memory, Turn
from dualmem.retrieval.times import describe

RELATIONS = {
    "supersedes": "replaces",
    "superseded_by": "replaced by",
    "contradicts": "contradicts",
    "merged_with": "says the same as",
    "merges": "joins",
    "merged_into": "joined into",
}

_SHORT = 60


def make_environment() -> Environment:
    """Return the templates' environment; what a template does not get is an error, not an empty text."""
    environment = Environment(
        loader=PackageLoader("dualmem.explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        day=day, moment=said, iso=iso, when=when, short=short, as_input=as_input, plural=plural, number=number
    )
    environment.globals.update(
        href=href,
        turn_href=turn_href,
        lifeline=lifeline,
        stack=stack,
        WIDTH=WIDTH,
        KINDS=KINDS,
        STATUSES=STATUSES,
        RELATIONS=RELATIONS,
    )
    return environment


def static(name: str) -> str:
    """Return the text of a static file of this package."""
    return (files("dualmem.explorer") / "static" / name).read_text(encoding="utf-8")


def href(path: str, /, **query: Any) -> str:
    """Return an address inside the explorer; ids may hold any characters, so they are in its query."""
    pairs = [(key, value) for key, value in query.items() if value not in {None, ""}]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def turn_href(user_id: str, turn: Turn) -> str:
    """Return the address of a turn: the page of its conversation that it is on, and its place there."""
    page = turn.position // TURNS_ON_PAGE + 1
    address = href("/conversation", user=user_id, id=turn.conversation_id, page=page if page > 1 else None)
    return f"{address}#turn-{turn.position}"


def day(instant: datetime | None) -> str:
    """Write a day: "20 June 2024"."""
    return "" if instant is None else describe_instant(instant, day_only=True)


def said(instant: datetime | None) -> str:
    """Write a day and a time, in UTC."""
    return "" if instant is None else describe_instant(instant)


def iso(instant: datetime | None) -> str:
    """Write a time for machines."""
    return "" if instant is None else instant.astimezone(UTC).isoformat()


def when(memory: Memory | Interval | None) -> str:
    """Write when a memory holds in the world, "" where it has no date."""
    valid = memory.valid if isinstance(memory, Memory) else memory
    if valid is None or (valid.start is None and valid.end is None):
        return ""
    return describe(valid)


def short(text: str, most: int = _SHORT) -> str:
    """Cut a text to some characters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count with its noun."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def number(value: float) -> str:
    """Write a number with its thousands apart."""
    return f"{value:,}"
