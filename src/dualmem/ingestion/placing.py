"""Give turns their places in a conversation, however it is sent: whole, only what is new, or with older parts late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dualmem.records import Turn


@dataclass(frozen=True, slots=True)
class Placed:
    """Where turns go."""

    fresh: tuple[Turn, ...]
    """Turns that are not stored yet, with their positions."""
    moved: dict[str, int]
    """New positions of stored turns that must make room, by id."""


def place(stored: Sequence[Turn], sent: Sequence[Turn]) -> Placed:
    """Return the positions of `sent` turns among the `stored` ones of the same conversation.

    New turns that a known one follows go before it. The last ones go to the end: an application may send its system
    prompt and the newest message and nothing of what is between them. Only where all turns have times, and the new
    ones are older than the last, they go to their place in time.

    Args:
        stored: In order of their positions.
        sent: In the order in which they were said; positions are not looked at.
    """
    order = list(stored)
    known = {turn.id for turn in stored}
    run: list[Turn] = []
    for turn in sent:
        if turn.id not in known:
            run.append(turn)
            continue
        before = next(place for place, other in enumerate(order) if other.id == turn.id)
        order[before:before] = run
        run = []
    end = _place_in_time(order, run)
    order[end:end] = run
    fresh: list[Turn] = []
    moved: dict[str, int] = {}
    last = -1
    for turn in order:
        position = turn.position if turn.id in known and turn.position > last else last + 1
        if turn.id not in known:
            fresh.append(turn.model_copy(update={"position": position}))
        elif position != turn.position:
            moved[turn.id] = position
        last = position
    return Placed(tuple(fresh), moved)


def _place_in_time(order: Sequence[Turn], run: Sequence[Turn]) -> int:
    """Return where a run goes that nothing known follows."""
    first = run[0].said_at if run else None
    times = [turn.said_at for turn in (*order, *run)]
    if first is None or None in times:
        return len(order)
    return max(
        (place for place, time in enumerate(times[: len(order)], 1) if time is not None and time <= first), default=0
    )
