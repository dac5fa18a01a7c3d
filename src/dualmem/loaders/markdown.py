"""Transcripts as Markdown or plain text: "**Name:** text", "Name: text", or "### User" over the text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal

from dualmem.loaders.content import ROLES
from dualmem.loaders.conversation import Conversation, Format, Origin
from dualmem.loaders.times import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dualmem.records.turn import Role

_SPEAKERS: Mapping[str, Role] = {
    **ROLES,
    "you": "user",
    "me": "user",
    "chatgpt": "assistant",
    "claude": "assistant",
    "gemini": "assistant",
    "copilot": "assistant",
}
"""Words that name a role where they stand for a speaker."""

_NAMELESS = frozenset({*ROLES, "you", "me"})
_TALKERS = frozenset({"user", "human", "you", "assistant", "ai", "chatgpt", "claude"})
"""Words that alone show a conversation; "System:" and "Model:" stand in any report."""

_HEADING = re.compile(r"#{1,6}\s+(?P<text>.*)")
_BOLD = re.compile(r"(?:[-*>]\s)?(?:\*\*|__)(?P<name>[^*_:\n]{1,60}?)(?::(?:\*\*|__)|(?:\*\*|__)\s?:)\s*(?P<text>.*)")
_PLAIN = re.compile(r"(?P<name>[^\W\d_][\w .,'\u2019()-]{0,39}?)\s?:(?:\s+(?P<text>\S.*)|$)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_RULE = re.compile(r"\s*(?:-{3,}|\*{3,}|_{3,})\s*")

_LONGEST_HEADING = 40
_FEW = 4

_Kind = Literal["speaker", "date", "text"]
_Style = Literal["bold", "heading", "plain"]
_STYLES: tuple[_Style, ...] = ("bold", "heading", "plain")


@dataclass(frozen=True)
class _Line:
    kind: _Kind
    text: str
    """What is said, the date, or the rest of the line after the speaker."""
    speaker: str = ""


@dataclass(frozen=True)
class _Candidates:
    """Every line's reading in each style, before one is chosen for the whole file."""

    lines: list[str]
    quoted: list[bool]
    """Whether a line stands in a fenced code block, where nothing is a speaker."""

    def labels(self, style: _Style) -> list[str | None]:
        """Return the speaker of each line that shows anything, as the file would have them in a style.

        Blank lines, rules, dates and fenced code do not count; for the other two styles, nor do headings.
        """
        shown = (
            line
            for line, quoted in zip(self.lines, self.quoted, strict=True)
            if not quoted and line.strip() and not _RULE.fullmatch(line) and _date(line) is None
        )
        return [
            found[0] if (found := _label(line, style)) else None
            for line in shown
            if style == "heading" or not _HEADING.fullmatch(line)
        ]


def _label(line: str, style: _Style) -> tuple[str, str] | None:
    """Return the speaker and the text of a line in a style, or None."""
    if style == "heading":
        name = _heading(line)
        return (name, "") if 0 < len(name) <= _LONGEST_HEADING else None
    match = (_BOLD if style == "bold" else _PLAIN).fullmatch(line)
    return (match["name"].strip(), match["text"] or "") if match else None


def _heading(line: str) -> str:
    """Return a heading's text without its marks, "" if the line is none."""
    match = _HEADING.fullmatch(line)
    return match["text"].strip(" \t#:*_") if match else ""


def _date(line: str) -> str | None:
    """Return a heading's text if it is a date."""
    text = _heading(line)
    return text if text and parse_timestamp(text, UTC) is not None else None


def _split(text: str) -> _Candidates:
    lines = _without_front_matter([line.rstrip() for line in text.split("\n")])
    quoted = [False] * len(lines)
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    # One that is never closed quotes nothing, or it would swallow the rest of the conversation.
    for start, end in zip(fences[::2], fences[1::2], strict=False):
        quoted[start : end + 1] = [True] * (end + 1 - start)
    return _Candidates(lines, quoted)


def _without_front_matter(lines: list[str]) -> list[str]:
    if lines and lines[0] == "---" and "---" in lines[1:]:
        return lines[lines.index("---", 1) + 1 :]
    return lines


def _choose(candidates: _Candidates) -> tuple[_Style, frozenset[str]] | None:
    """Choose the one style a file is written in and which names are speakers; None if it is no transcript."""
    for style in _STYLES:
        speakers = _speakers(candidates.labels(style), style)
        if speakers:
            return style, speakers
    return None


def _speakers(labels: list[str | None], style: _Style) -> frozenset[str]:
    """Return the names that open lines as speakers do, none if the file reads like anything else.

    Headings are speakers only by words for a role, and two of them, or the first of all, must be such. Bold
    or plain names count if one is such a word, or if the first line opens with a name and names come again in
    all but the shortest file: a list of keys and values, or a text with a bold "Note:", does not. Where
    messages run over several lines, a name that stands there once ("Summary: ...") is part of a message, as
    long as two speakers are left.
    """
    counts = Counter(label for label in labels if label is not None)
    known = {label for label in counts if label.lower() in _SPEAKERS}
    talkers = sum(counts[label] for label in known if label.lower() in _TALKERS)
    if style == "heading":
        first = next((label for label in labels if label is not None), None)
        return frozenset(known if talkers > 1 or (talkers and first in known) else ())
    # "title: x" is a key; a name without a capital letter is one only in scripts that have none.
    names = {label for label in counts if style == "bold" or label in known or not label[0].islower()}
    total = sum(counts[name] for name in names)
    again = {name for name in names if counts[name] > 1}
    opens = bool(labels) and labels[0] in names
    converses = total > 1 and (total <= _FEW or len(names) < total)
    if style == "bold":
        is_transcript = talkers > 0 or (opens and converses) or len(again) > 1
    else:
        is_transcript = opens and (talkers > 0 or converses)
    if not is_transcript:
        return frozenset()
    whole = all(label in names for label in labels)
    lasting = again | known
    return frozenset(lasting if len(lasting) > 1 and not whole else names)


def _read_lines(candidates: _Candidates, style: _Style, speakers: frozenset[str]) -> Iterator[_Line]:
    for line, quoted in zip(candidates.lines, candidates.quoted, strict=True):
        found = None if quoted else _label(line, style)
        date = None if quoted else _date(line)
        if found and found[0] in speakers:
            yield _Line("speaker", found[1], found[0])
        elif date:
            yield _Line("date", date)
        elif quoted or not _RULE.fullmatch(line):
            yield _Line("text", line)


def _sniff(text: str) -> bool:
    return _choose(_split(text)) is not None


def _read(text: str, origin: Origin) -> list[Conversation]:
    """Read the messages; a heading that is a date dates those below it, and opens a session."""
    conversation = Conversation(origin.zone)
    candidates = _split(text)
    chosen = _choose(candidates)
    lines = _read_lines(candidates, *chosen) if chosen else iter(())
    speaker: str | None = None
    date: str | None = None
    body: list[str] = []

    def close() -> None:
        if speaker is not None:
            role = _SPEAKERS.get(speaker.lower())
            name = None if speaker.lower() in _NAMELESS else speaker
            conversation.add(role=role or "user", content="\n".join(body), name=name, timestamp=date, session=date)
        elif any(line.strip() for line in body):
            conversation.skip("text before the first speaker")

    for line in lines:
        if line.kind == "text":
            body.append(line.text)
            continue
        close()
        body = [line.text] if line.kind == "speaker" else []
        speaker = line.speaker if line.kind == "speaker" else None
        date = line.text if line.kind == "date" else date
    close()
    return [conversation]


FORMAT: Format[str] = Format("Markdown or plain text transcript", _sniff, _read)
