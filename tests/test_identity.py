"""Ids are made from what they stand for."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.identity import memory_id, stable_id, turn_ids
from dualmem.records import Message


def said(content: str = "yes", **fields: Any) -> Message:
    return Message(**{"role": "user", "content": content, **fields})


def test_ids_never_change() -> None:
    assert stable_id("turn", "ana") == "d596713a-833f-5aae-b773-be1988b19838"


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4), st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_other_parts_give_another_id(left: list[str], right: list[str]) -> None:
    assert uuid.UUID(stable_id(*left)).version == 5
    assert (stable_id(*left) == stable_id(*right)) == (left == right)


def test_where_a_part_ends_counts() -> None:
    assert stable_id("ab", "c") != stable_id("a", "bc")
    assert stable_id("a\x1f1:b") != stable_id("a", "b")


def test_the_same_messages_are_the_same_turns() -> None:
    messages = [said("hi"), said("yes"), said("yes", role="assistant")]
    assert turn_ids("ana", "chat", messages) == turn_ids("ana", "chat", list(messages))
    assert turn_ids("ana", "chat", messages)[:2] == turn_ids("ana", "chat", messages[:2])


@pytest.mark.parametrize(
    "other",
    [
        said("no"),
        said(role="assistant"),
        said(name="Bea"),
        said(timestamp=datetime(2024, 3, 1, tzinfo=UTC)),
        said(session="2"),
        said(id="m1"),
    ],
)
def test_another_message_is_another_turn(other: Message) -> None:
    assert turn_ids("ana", "chat", [said()]) != turn_ids("ana", "chat", [other])


def test_a_turn_belongs_to_its_user_and_conversation() -> None:
    ids = [*turn_ids("ana", "chat", [said()]), *turn_ids("bea", "chat", [said()]), *turn_ids("ana", "other", [said()])]
    assert len(set(ids)) == 3


def test_the_same_words_again_are_another_turn() -> None:
    first, second = turn_ids("ana", "chat", [said(), said()])
    assert first != second


def test_a_message_is_known_by_the_id_its_source_gave_it() -> None:
    (before,) = turn_ids("ana", "chat", [said("helo", id="m1")])
    assert turn_ids("ana", "chat", [said("first", id="m0"), said("hello", id="m1")])[1] == before


def test_a_source_id_cannot_be_taken_for_what_was_said() -> None:
    content = "yes"
    (plain,) = turn_ids("ana", "chat", [said(content)])
    assert turn_ids("ana", "chat", [said("x", id=f"said:user::::{content}")]) != [plain]


def test_a_memory_is_known_by_its_words_and_sources() -> None:
    known = memory_id("ana", "Ana lives in Porto.", ["a", "b"])
    assert memory_id("ana", "ana  lives in PORTO.", ["b", "a", "b"]) == known
    others = [
        memory_id("bea", "Ana lives in Porto.", ["a", "b"]),
        memory_id("ana", "Ana lives in Faro.", ["a", "b"]),
        memory_id("ana", "Ana lives in Porto.", ["a"]),
    ]
    assert len({known, *others}) == 4
