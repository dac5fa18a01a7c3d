"""Mark the words of a turn that a memory was made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dualmem.retrieval.text import find_quote


class Piece(NamedTuple):
    """A stretch of a text."""

    text: str
    marked: bool


def marked(text: str, quotes: Iterable[str]) -> list[Piece]:
    """Return `text` in pieces, those marked that `quotes` stand for; overlapping quotes are one mark.

    A quote that is not in the text (a deliberation's fact has none, a store may hold an older turn) marks nothing.
    """
    spans = []
    for quote in quotes:
        words = find_quote(quote, text) if quote.strip() else None
        place = text.find(words) if words else -1
        if words and place >= 0:
            spans.append((place, place + len(words)))
    pieces: list[Piece] = []
    at = 0
    for start, end in _joined(spans):
        if start > at:
            pieces.append(Piece(text[at:start], marked=False))
        pieces.append(Piece(text[start:end], marked=True))
        at = end
    if at < len(text):
        pieces.append(Piece(text[at:], marked=False))
    return pieces


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
