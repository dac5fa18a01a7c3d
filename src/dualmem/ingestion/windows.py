"""Cut a conversation into overlapping windows (MemoryLACE, stage I, step 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dualmem.records import Turn
from dualmem.retrieval.text import count_tokens
from dualmem.state import Window

LEAST_TOKENS = 32
"""A turn of fewer tokens is not divided any further: what is in it fits into any reply."""


def cut_windows(turns: Sequence[Turn], *, most_turns: int, most_tokens: int, overlap: int) -> list[Window]:
    """Return windows over the pending turns of one conversation.

    A window holds at most `most_turns` pending turns and, unless a single one is longer, `most_tokens` of them.
    It starts where the one before ended, so that an ingestion that was cut short and is taken up again cuts the
    same windows. The `overlap` turns before it are its context, read already or not.

    Args:
        turns: The conversation's turns in order, those with state `pending` to be read.
        most_turns: Bound on a window, in turns.
        most_tokens: Bound on a window, in tokens.
        overlap: Turns of context.
    """
    shown = [turn for turn in turns if turn.state != "skipped"]
    places = {turn.id: place for place, turn in enumerate(shown)}
    windows: list[Window] = []
    for group in _groups([turn for turn in shown if turn.state == "pending"], most_turns, most_tokens):
        start = places[group[0].id]
        earlier = [turn for turn in shown[max(0, start - overlap) : start] if turn.id != group[0].id]
        windows.append(Window(len(windows), tuple(group), tuple(clip(turn, most_tokens // 8) for turn in earlier)))
    return windows


def _groups(pending: Sequence[Turn], most_turns: int, most_tokens: int) -> Iterator[list[Turn]]:
    group: list[Turn] = []
    used = 0
    for piece in (piece for turn in pending for piece in split_turn(turn, most_tokens)):
        tokens = count_tokens(piece.text)
        if group and (len(group) >= most_turns or used + tokens > most_tokens):
            yield group
            group, used = [], 0
        group.append(piece)
        used += tokens
    if group:
        yield group


def split_turn(turn: Turn, most_tokens: int) -> list[Turn]:
    """Return `turn`, or, where it is longer than `most_tokens`, pieces of it under the same id.

    Pieces end at a line or sentence where one ends in their last half. The stored turn stays whole.
    """
    # A token has a character at least, so that most turns need no counting here.
    if len(turn.text) <= most_tokens or count_tokens(turn.text) <= most_tokens:
        return [turn]
    pieces = []
    rest = turn.text
    while rest:
        share = len(rest) * most_tokens / max(1, count_tokens(rest))
        size = max(1, int(share))
        if size < len(rest):
            size = _boundary(rest, size)
        pieces.append(turn.model_copy(update={"text": rest[:size].strip()}))
        rest = rest[size:].strip()
    return [piece for piece in pieces if piece.text]


def clip(turn: Turn, most_tokens: int) -> Turn:
    """Return `turn`, shortened to its first `most_tokens` where it is only context."""
    pieces = split_turn(turn, max(1, most_tokens))
    return turn if len(pieces) == 1 else pieces[0].model_copy(update={"text": f"{pieces[0].text} …"})


def _boundary(text: str, size: int) -> int:
    for mark in ("\n", ". ", "。", " "):
        place = text.rfind(mark, size // 2, size)
        if place > 0:
            return place + len(mark)
    return size


def halves(window: Window) -> tuple[Window, Window] | None:
    """Return the two halves of a window whose reply was cut off; None when it cannot be divided."""
    turns = window.turns
    if len(turns) > 1:
        middle = len(turns) // 2
    else:
        tokens = count_tokens(turns[0].text)
        pieces = split_turn(turns[0], tokens // 2) if tokens >= LEAST_TOKENS else []
        if len(pieces) < 2:  # noqa: PLR2004 - what is one piece cannot be cut
            return None
        turns, middle = tuple(pieces), len(pieces) // 2
    left = Window(window.number, turns[:middle], window.earlier)
    context = (*window.earlier, *turns[:middle])[-max(1, len(window.earlier)) :]
    return left, Window(window.number, turns[middle:], context)
