"""What the commands take, and how the words of a person become values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from dualmem.errors import InputError
from dualmem.presets import PRESETS

GRAPHS = ("recall", "deliberation", "ingestion")


def _presets() -> list[str]:
    return list(PRESETS)


def _graphs() -> list[str]:
    return list(GRAPHS)


User = Annotated[str, typer.Option("--user", "-u", help="Whose memory it is: any non-blank text.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Store = Annotated[str | None, typer.Option(help="Folder, URL or `:memory:`, in place of DUALMEM_STORE.")]
Preset = Annotated[
    str | None, typer.Option(help=f"A named set of values: {', '.join(PRESETS)}.", autocompletion=_presets)
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="From what had been told by this time (ISO 8601): the known-at clock.")
]
ValidAt = Annotated[
    str | None, typer.Option("--valid-at", help="What held in the world at this time (ISO 8601): the event clock.")
]
GraphName = Annotated[str, typer.Argument(help=f"{', '.join(GRAPHS)}.", autocompletion=_graphs)]

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)


def zone_of(given: str | None) -> tzinfo:
    """Return the zone that a name like Europe/Berlin or an offset like +02:00 means; UTC where none is given.

    Raises:
        InputError: It means none.
    """
    if given is None or given.strip().upper() in {"UTC", "GMT", "Z"}:
        return UTC
    if match := _OFFSET.fullmatch(given.strip()):
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours < 24 and minutes < 60:  # noqa: PLR2004 - a day and an hour
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(given.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # no such name, a path, a folder of names
        message = f"--timezone {given!r} is no time zone; write it like Europe/Berlin or +02:00"
        raise InputError(message) from error


def asking_time(question: str, given: str | None) -> datetime | None:
    """Return when a question is asked: as given, or now where it says something like "last week".

    Raises:
        InputError: What is given is no time.
    """
    if given is not None:
        try:
            moment = datetime.fromisoformat(given)
        except ValueError as error:
            message = f"--asked-at {given!r} is no time; write it like 2024-05-08T13:30"
            raise InputError(message) from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    from dualmem.retrieval.times import find

    now = datetime.now(UTC)
    return now if len(find(question, now)) > len(find(question, None)) else None
