"""The places of turns in a conversation, however it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.ingestion.placing import place
from dualmem.records import Turn

Make = Callable[..., Turn]


def after(stored: Sequence[Turn], sent: Sequence[Turn]) -> list[Turn]:
    """Return the conversation as it is stored after `sent` came."""
    placed = place(stored, sent)
    moved = [
        turn.model_copy(update={"position": placed.moved[turn.id]}) if turn.id in placed.moved else turn
        for turn in stored
    ]
    turns = sorted([*moved, *placed.fresh], key=lambda turn: turn.position)
    assert len({turn.position for turn in turns}) == len(turns)
    return turns


def numbers(turns: Sequence[Turn]) -> list[int]:
    return [int(turn.id.rpartition("-")[2]) for turn in turns]


def untimed(make: Make, *wanted: int) -> list[Turn]:
    return [make(f"turn {number}", number, said_at=None) for number in wanted]


@pytest.mark.parametrize(
    ("calls", "order"),
    [
        ([[0, 1], [0, 1, 2]], [0, 1, 2]),
        ([[0, 1], [2, 3]], [0, 1, 2, 3]),
        # An application that sends its system prompt and the newest message.
        ([[0, 1, 2], [0, 3], [0, 4]], [0, 1, 2, 3, 4]),
        # A conversation of which the older part comes later.
        ([[2, 3], [0, 1, 2, 3]], [0, 1, 2, 3]),
        ([[0, 3], [0, 1, 2, 3, 4]], [0, 1, 2, 3, 4]),
        # A trimmed chat with a new summary before what is known.
        ([[0, 1, 2], [9, 2, 3]], [0, 1, 9, 2, 3]),
    ],
)
def test_turns_without_times_go_where_what_follows_them_is(
    a_turn: Make, calls: list[list[int]], order: list[int]
) -> None:
    stored: list[Turn] = []
    for call in calls:
        stored = after(stored, untimed(a_turn, *call))
    assert numbers(stored) == order


@pytest.mark.parametrize("calls", [[[2], [1], [0]], [[1, 2], [0]], [[0, 2], [1]], [[2], [0, 1]]])
def test_turns_with_times_go_to_their_place_in_time(a_turn: Make, calls: list[list[int]]) -> None:
    stored: list[Turn] = []
    for call in calls:
        stored = after(stored, [a_turn(f"turn {number}", number) for number in call])
    assert numbers(stored) == [0, 1, 2]


def test_the_place_of_a_turn_that_was_forgotten_is_not_given_again(a_turn: Make) -> None:
    stored = [turn for turn in after([], untimed(a_turn, 0, 1, 2)) if turn.id != "chat-0"]
    assert [turn.position for turn in after(stored, untimed(a_turn, 3))] == [1, 2, 3]


@given(kept=st.sets(st.integers(0, 9)))
def test_after_a_crash_every_turn_gets_the_place_it_would_have_had(a_turn: Make, kept: set[int]) -> None:
    """Of a write that was cut short, any of the turns may be stored."""
    whole = untimed(a_turn, *range(10))
    stored = [turn for turn in after([], whole) if turn.position in kept]
    assert after(stored, whole) == after([], whole)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_parts_of_a_conversation_with_times_end_in_order_whatever_the_order_they_come_in(
    a_turn: Make, parts: list[tuple[int, int]]
) -> None:
    stored: list[Turn] = []
    for first, last in parts:
        stored = after(stored, [a_turn(f"turn {number}", number) for number in range(first, last + 1)])
    assert numbers(stored) == sorted(numbers(stored))
