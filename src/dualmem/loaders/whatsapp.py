"""WhatsApp's text export, as Android and iOS write it in many languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from dualmem.loaders.conversation import Conversation, Format, Origin
from dualmem.loaders.times import to_24_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

# "12/31/23, 10:15 PM - " (Android) and "[31.12.23, 22:15:03] " (iOS), with the words and marks of other
# languages: "31.12.23 um 22:15 - ", "[12.3.2022 klo 14.08.18]", "10:15 p. m.", "2023/12/31 下午10:15 - ".
_HEADER = re.compile(
    r"(?P<open>\[)?"
    r"(?P<first>\d{1,4})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{1,4})\.?,?"
    r"\s{1,3}(?:[^\W\d]{1,4}\.?\s)?"
    r"(?P<before>[上下午前後오전후]{2}\s?)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<seconds>\d{2}))?"
    r"(?:\s?(?P<after>[ap])\.?\s?m\.?)?"
    r"(?(open)\]\s?|\s[-\u2013]\s)",
    re.IGNORECASE,
)
_AFTERNOON = frozenset({"下午", "午後", "오후"})
_NAME = re.compile(r"(?P<name>[^:\n\"\u201c\u201e]{1,100}?):(?:\s|$)")

# Marks that WhatsApp puts before lines and bodies of its own; they are not part of the text.
_MARKS = "\u200e\u200f\u202a\u202c"
# "<Media omitted>" in any language, "<attached: 00000012-PHOTO.jpg>",
# "IMG-20231231-WA0001.jpg (file attached)".
_MEDIA = re.compile(
    r"<(?=[^>]*[\s\u0080-\U0010ffff])[^<>\n]{3,120}>"
    r"|[A-Z]{3}-\d{8}-WA\d{4,6}\.\w{2,5} \([^()\n]{3,40}\)"
    r"|[^\n]{1,120}\.\w{2,5} \(file attached\)"
    r"|(?:image|video|video note|audio|sticker|GIF|document|Contact card) omitted"
)
_DELETED = re.compile(r"(?:This message was deleted|You deleted this message)\.?", re.IGNORECASE)
_EDITED = re.compile(r"\u200e?<This message was edited>\Z", re.IGNORECASE)

_SNIFFED_LINES = 20
_CENTURY = 2000
_MONTHS = 12
_YEAR_DIGITS = 4


@dataclass(frozen=True)
class _Entry:
    header: re.Match[str]
    body: str


def _lines(text: str) -> Iterator[str]:
    """Return the lines; only a newline ends one, as messages can hold every other separator."""
    return (line.removesuffix("\r") for line in text.split("\n"))


def _header(line: str) -> re.Match[str] | None:
    return _HEADER.match(line.lstrip(_MARKS))


def _sniff(text: str) -> bool:
    filled = (line for line in _lines(text) if line.strip())
    return any(_header(line) for line in islice(filled, _SNIFFED_LINES))


def _read(text: str, origin: Origin) -> list[Conversation]:
    conversation = Conversation(origin.zone)
    entries = _entries(text, conversation)
    day_first = _is_day_first([entry.header for entry in entries])
    for entry in entries:
        _add(conversation, entry, day_first=day_first)
    return [conversation]


def _entries(text: str, conversation: Conversation) -> list[_Entry]:
    """Group the lines by the header above them."""
    entries: list[_Entry] = []
    header: re.Match[str] | None = None
    body: list[str] = []
    for line in _lines(text):
        found = _header(line)
        if found:
            if header:
                entries.append(_Entry(header, "\n".join(body)))
            header, body = found, [found.string[found.end() :]]
        elif header:
            body.append(line)
        elif line.strip():
            conversation.skip("line before the first message")
    if header:
        entries.append(_Entry(header, "\n".join(body)))
    return entries


def _add(conversation: Conversation, entry: _Entry, *, day_first: bool) -> None:
    named = _NAME.match(entry.body)
    if not named:
        conversation.skip("system line")
        return
    name = named["name"].strip(_MARKS + " ~\u202f\u00a0")
    body = entry.body[named.end() :].strip()
    first, _, rest = body.partition("\n")
    line = first.strip(_MARKS + " ")
    if _DELETED.fullmatch(line):
        conversation.skip("deleted message")
        return
    if _MEDIA.fullmatch(line):
        conversation.skip("media without a caption" if not rest.strip() else "media with a caption")
        body = rest
        if not body.strip():
            return
    elif first.startswith(tuple(_MARKS)):
        # iOS signs its own lines with a member's or the group's name, and marks them.
        conversation.skip("system line")
        return
    moment = _moment(entry.header, day_first=day_first)
    conversation.skip("unreadable timestamp", int(moment is None))
    conversation.add(role="user", content=_EDITED.sub("", body).strip(_MARKS), name=name, timestamp=moment)


def _is_day_first(headers: list[re.Match[str]]) -> bool:
    """Tell from all dates of a file whether the day stands before the month.

    A number above twelve can only be a day. Where there is none, the order decides in which the dates run
    backwards less often, as an export is in order of time; where both fit, the day comes first, unless the
    file has a clock of twelve hours and slashes.
    """
    pairs = [(int(header["first"]), int(header["second"])) for header in headers]
    days_first = sum(first > _MONTHS for first, _ in pairs)
    months_first = sum(second > _MONTHS for _, second in pairs)
    if days_first != months_first:
        return days_first > months_first
    dates = [(_year(header["third"]), first, second) for header, (first, second) in zip(headers, pairs, strict=True)]
    day_first = _backward_steps([(year, second, first) for year, first, second in dates])
    month_first = _backward_steps(dates)
    if day_first != month_first:
        return day_first < month_first
    return not any(header["after"] and header["mark"] == "/" for header in headers)


def _backward_steps(dates: list[tuple[int, int, int]]) -> int:
    return sum(later < earlier for earlier, later in pairwise(dates))


def _year(digits: str) -> int:
    return int(digits) if len(digits) == _YEAR_DIGITS else _CENTURY + int(digits)


def _moment(header: re.Match[str], *, day_first: bool) -> datetime | None:
    """Return a header's time without a zone, or None if there is no such day or hour."""
    first, second, third = header["first"], header["second"], header["third"]
    if len(first) == _YEAR_DIGITS:
        year, month, day = int(first), int(second), int(third)
    else:
        day, month = (int(first), int(second)) if day_first else (int(second), int(first))
        year = _year(third)
    half = header["after"]
    if header["before"]:
        half = "p" if header["before"].strip() in _AFTERNOON else "a"
    hour = to_24_hours(int(header["hour"]), half)
    try:
        return datetime(year, month, day, hour, int(header["minute"]), int(header["seconds"] or 0))  # noqa: DTZ001 - the zone is put to it by the caller
    except ValueError:
        return None


FORMAT: Format[str] = Format("WhatsApp export", _sniff, _read)
