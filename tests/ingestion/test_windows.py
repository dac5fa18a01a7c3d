"""Cutting a conversation into windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmem.ingestion.windows import clip, cut_windows, halves, split_turn
from dualmem.records import Turn
from dualmem.retrieval.text import count_tokens
from dualmem.state import Window

Make = Callable[..., Turn]
WORDS = "river stone cloud"
"""Three tokens."""


def numbers(turns: tuple[Turn, ...]) -> list[int]:
    return [turn.position for turn in turns]


def shape(windows: list[Window]) -> list[tuple[list[int], list[int]]]:
    return [(numbers(window.earlier), numbers(window.turns)) for window in windows]


def conversation(a_turn: Make, count: int, **states: Any) -> list[Turn]:
    return [a_turn(WORDS, number, state=states.get(f"t{number}", "pending")) for number in range(count)]


def test_windows_follow_each_other_with_the_turns_before_as_context(a_turn: Make) -> None:
    windows = cut_windows(conversation(a_turn, 7), most_turns=3, most_tokens=100, overlap=2)
    assert shape(windows) == [([], [0, 1, 2]), ([1, 2], [3, 4, 5]), ([4, 5], [6])]
    assert [window.number for window in windows] == [0, 1, 2]


def test_a_window_is_bounded_in_tokens(a_turn: Make) -> None:
    windows = cut_windows(conversation(a_turn, 5), most_turns=40, most_tokens=7, overlap=0)
    assert shape(windows) == [([], [0, 1]), ([], [2, 3]), ([], [4])]


def test_only_pending_turns_are_read_and_others_are_context(a_turn: Make) -> None:
    turns = conversation(a_turn, 6, t0="read", t1="read", t4="read")
    windows = cut_windows(turns, most_turns=2, most_tokens=100, overlap=2)
    assert shape(windows) == [([0, 1], [2, 3]), ([3, 4], [5])]


def test_skipped_turns_are_never_shown(a_turn: Make) -> None:
    turns = conversation(a_turn, 5, t1="skipped", t3="skipped")
    windows = cut_windows(turns, most_turns=2, most_tokens=100, overlap=3)
    assert shape(windows) == [([], [0, 2]), ([0, 2], [4])]


def test_an_ingestion_taken_up_again_cuts_the_same_windows(a_turn: Make) -> None:
    turns = conversation(a_turn, 9)
    first, *rest = cut_windows(turns, most_turns=4, most_tokens=100, overlap=2)
    done = {turn.id for turn in first.turns}
    again = cut_windows(
        [turn.model_copy(update={"state": "read"}) if turn.id in done else turn for turn in turns],
        most_turns=4,
        most_tokens=100,
        overlap=2,
    )
    assert shape(again) == shape(rest)


@pytest.mark.parametrize("turns", [[], ["read"], ["skipped"]])
def test_nothing_pending_is_no_window(a_turn: Make, turns: list[Any]) -> None:
    given_turns = [a_turn(WORDS, number, state=state) for number, state in enumerate(turns)]
    assert cut_windows(given_turns, most_turns=3, most_tokens=100, overlap=2) == []


LONG = " ".join(f"Sentence {number} tells of river and stone." for number in range(40))


def test_a_turn_that_is_too_long_is_split_at_sentences_under_its_id(a_turn: Make) -> None:
    pieces = split_turn(a_turn(LONG), 50)
    assert len(pieces) > 4
    assert {piece.id for piece in pieces} == {"chat-0"}
    assert " ".join(piece.text for piece in pieces) == LONG
    assert all(piece.text.endswith(".") for piece in pieces)
    assert all(count_tokens(piece.text) <= 60 for piece in pieces)


def test_a_turn_that_fits_is_itself(a_turn: Make) -> None:
    turn = a_turn(WORDS)
    assert split_turn(turn, 3) == [turn]
    assert clip(turn, 3) is turn


@settings(max_examples=40)
@given(text=st.text(alphabet="ab \n.。北", min_size=1, max_size=120), most=st.integers(1, 30))
def test_splitting_loses_nothing_and_ends(a_turn: Make, text: str, most: int) -> None:
    pieces = split_turn(a_turn(text), most)
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=8),
    most_turns=st.integers(1, 5),
    most_tokens=st.integers(8, 40),
    overlap=st.integers(0, 4),
)
def test_every_pending_turn_is_in_a_window_once_and_whole(
    a_turn: Make, lengths: list[int], most_turns: int, most_tokens: int, overlap: int
) -> None:
    turns = [a_turn("word " * length, number) for number, length in enumerate(lengths)]
    windows = cut_windows(turns, most_turns=most_turns, most_tokens=most_tokens, overlap=overlap)
    read = "".join(turn.text for window in windows for turn in window.turns)
    assert "".join(read.split()) == "word" * sum(lengths)
    for window in windows:
        assert 0 < len(window.turns) <= most_turns
        assert len(window.earlier) <= overlap
        assert not {turn.id for turn in window.earlier} & {turn.id for turn in window.turns}


def test_a_long_turn_is_clipped_where_it_is_only_context(a_turn: Make) -> None:
    windows = cut_windows([a_turn(LONG, 0), a_turn(WORDS, 1)], most_turns=1, most_tokens=80, overlap=1)
    (context,) = windows[-1].earlier
    assert context.text.endswith("…")
    assert count_tokens(context.text) <= 15
    assert LONG.startswith(context.text.removesuffix(" …"))


def test_a_window_is_halved_with_its_first_half_as_context(a_turn: Make) -> None:
    turns = conversation(a_turn, 6)
    divided = halves(Window(3, tuple(turns[2:]), tuple(turns[:2])))
    assert divided is not None
    assert shape(list(divided)) == [([0, 1], [2, 3]), ([2, 3], [4, 5])]
    assert {window.number for window in divided} == {3}


def test_a_single_turn_is_halved_in_its_text(a_turn: Make) -> None:
    divided = halves(Window(0, (a_turn(LONG),)))
    assert divided is not None
    texts = [piece.text for window in divided for piece in window.turns]
    assert " ".join(texts) == LONG
    assert all(len(window.turns) >= 1 for window in divided)


def test_a_single_word_cannot_be_halved(a_turn: Make) -> None:
    assert halves(Window(0, (a_turn("Yes"),))) is None


@pytest.mark.parametrize("text", [LONG, "北京" * 200, "x" * 500, "a b"])
def test_halving_again_and_again_ends(a_turn: Make, text: str) -> None:
    todo, rounds = [Window(0, (a_turn(text),))], 0
    while todo:
        rounds += 1
        assert rounds < 3_000
        divided = halves(todo.pop())
        todo += divided or ()
