"""Which of many patterns can match a text at all, told by the words it has: most patterns need no search then.

Each pattern is reduced to how its matches may begin (the FIRST sets of parsing), as far as `_LENGTH` signs. Of a text
the beginnings of its words are looked up among those. It is a filter and nothing more: what passes is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

try:
    from re import _constants, _parser  # type: ignore[attr-defined] # private, so that it is in no stub
except ImportError:  # another version of Python keeps it elsewhere: then nothing is filtered
    _constants = _parser = None

T = TypeVar("T")

_LENGTH: Final = 4
"""Signs of a beginning that are compared."""

_MOST: Final = 4_000
"""Beginnings of one pattern; with more it is searched for in every text."""

_ALWAYS: Final = ""
"""Stands for a pattern that may match any text."""

_WORD: Final = re.compile(r"\w+")
_SIGN: Final = re.compile(r"[^\w\s]")

_DIGIT: Final = "0"
"""Stands for a digit of any script, whatever follows."""

_END: Final = " "
"""Stands behind a whole word."""

_NO_LETTERS: Final = ("CATEGORY_SPACE", "CATEGORY_NOT_WORD")


class _Unknown(Exception):
    """A pattern may begin with anything."""


class PatternIndex(Generic[T]):
    """Patterns, each with what it is for, in an order that is kept.

    Args:
        patterns: They are for texts whose letters have the case that these have.
    """

    def __init__(self, patterns: Iterable[tuple[re.Pattern[str], T]]) -> None:
        self._patterns = list(patterns)
        self._all = tuple(use for _, use in self._patterns)
        self._by_beginning: dict[str, list[int]] | None = None

    def prepare(self) -> None:
        """Read the patterns: a millisecond for each, which pays from some hundred texts on; until then all fit."""
        if self._by_beginning is not None or _parser is None:
            return
        by_beginning: dict[str, list[int]] = {_ALWAYS: []}
        for place, (pattern, _) in enumerate(self._patterns):
            for beginning in _beginnings_of(pattern):
                by_beginning.setdefault(beginning, []).append(place)
        self._by_beginning = by_beginning

    def fitting(self, text: str) -> Sequence[T]:
        """Return what those patterns are for that can match `text`, in their order."""
        by_beginning = self._by_beginning
        if by_beginning is None:
            return self._all
        places = set(by_beginning[_ALWAYS])
        for beginning in by_beginning.keys() & _beginnings_in(text):
            places.update(by_beginning[beginning])
        return [self._all[place] for place in sorted(places)]


def _beginnings_in(text: str) -> set[str]:
    """Return the beginnings of a text's words, its other signs, a mark for a digit, and each letter beyond ASCII."""
    found: set[str] = set(_SIGN.findall(text))
    for word in set(_WORD.findall(text)):
        found.update((word[:1], word[:2], word[:3], word[:_LENGTH], f"{word}{_END}"))
        if word[0].isdecimal():
            found.add(_DIGIT)
    if not text.isascii():
        found.update(sign for sign in text if not sign.isascii())
    return found


def _beginnings_of(pattern: re.Pattern[str]) -> set[str]:
    """Return the beginnings of which there is one in every text that a pattern matches, or the mark of no such."""
    always = {_ALWAYS}
    if pattern.flags & re.IGNORECASE:
        return always
    try:
        first = _first(_parser.parse(pattern.pattern, pattern.flags))
    except _Unknown:
        return always
    beginnings: set[str] = set()
    for start, anchored, _ in first:
        if anchored and _WORD.match(start):
            beginnings.add(start)
        elif start and (not start[0].isascii() or _SIGN.match(start)):
            beginnings.add(start[0])
        else:
            return always
    return beginnings


_Start = tuple[str, bool, bool]
"""What a match begins with, whether that begins a word, and whether what follows is still to be read."""

_NOTHING: Final[_Start] = ("", False, True)


def _first(parts: Iterable[Any]) -> set[_Start]:
    """Return how what some parts of a pattern match may begin, one after the other."""
    found: set[_Start] = {_NOTHING}
    for part in parts:
        if not any(reading for _, _, reading in found):
            break
        found = _followed(found, part)
        if len(found) > _MOST:
            raise _Unknown
    return found


def _followed(before: set[_Start], part: Any) -> set[_Start]:
    """Return beginnings with what one more part adds to those that are still read."""
    if _starts_word(part):
        return {(start, anchored or not start, reading) for start, anchored, reading in before}
    done = {one for one in before if not one[2]}
    following = _starts_of(part)
    for start, anchored, reading in before - done:
        for more, its_own, goes_on in following:
            if start and more and not _WORD.match(more):
                whole, longer = start + _END, False
            elif start and more.startswith(_DIGIT):
                whole, longer = start, False  # behind letters a digit is one of many
            else:
                whole = (start + more)[:_LENGTH]
                longer = goes_on and len(whole) < _LENGTH and whole != _DIGIT
            done.add((whole, anchored or (its_own and not start), reading and longer))
    return done


def _starts_word(part: Any) -> bool:
    """Whether a part matches no sign and holds only where no word goes on: a border, or no letter before it."""
    kind, value = part
    if kind is _constants.AT:
        return bool(value is _constants.AT_BOUNDARY)
    if kind is not _constants.ASSERT_NOT or value[0] != -1:
        return False
    return list(value[1]) == [(_constants.IN, [(_constants.CATEGORY, _constants.CATEGORY_WORD)])]


def _starts_of(part: Any) -> set[_Start]:
    """Return how what a part matches may begin."""
    kind, value = part
    match str(kind):
        case "LITERAL":
            return {_sign(value)}
        case "IN":
            return _starts_in(value)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return {_NOTHING}
        case "SUBPATTERN":
            if value[1]:  # flags of its own
                raise _Unknown
            starts = _first(value[-1])
        case "ATOMIC_GROUP":
            starts = _first(value)
        case "BRANCH":
            starts = set().union(*map(_first, value[1]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            # What is repeated may be followed by itself, so that nothing after it is known.
            starts = {(start, anchored, reading and most == 1) for start, anchored, reading in _first(inner)}
            if not least:
                starts.add(_NOTHING)
        case _:
            raise _Unknown
    return starts


def _starts_in(choices: Sequence[Any]) -> set[_Start]:
    """Return how what a set of signs matches may begin."""
    found: set[_Start] = set()
    for kind, value in choices:
        if kind is _constants.LITERAL:
            found.add(_sign(value))
        elif kind is _constants.RANGE and value[1] - value[0] < len("0123456789"):
            found.update(map(_sign, range(value[0], value[1] + 1)))
        elif (kind, value) == (_constants.CATEGORY, _constants.CATEGORY_DIGIT):
            found.add((_DIGIT, False, False))
        elif kind is _constants.CATEGORY and str(value) in _NO_LETTERS:
            found.add((_END, False, False))
        else:
            found.add(("", False, False))
    return found


def _sign(code: int) -> _Start:
    sign = chr(code)
    return (_DIGIT, False, False) if sign.isdecimal() else (sign, False, True)
