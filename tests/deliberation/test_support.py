"""Whether the turns carry a fact or an answer, told by words alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem.deliberation.support import (
    History,
    absent_words,
    doubt,
    is_carried,
    is_supported,
    telling_words,
)
from dualmem.records import Answer, EvidenceUnit, Fact, Member, PackedContext, Turn
from dualmem.state import Chunk

LINES = [
    "Mara: I moved to Porto in March.",
    "Bot: How is the cat?",
    "Mara: Her name is Pixel and she is well.",
    "Bot: And did you see the plumber about the leak?",
    "Mara: Yes, on Tuesday. Mr. Lopes repaired it.",
]


@pytest.fixture
def history(a_turn: Callable[..., Turn]) -> History:
    turns = []
    for number, line in enumerate(LINES):
        speaker, _, text = line.partition(": ")
        turns.append(a_turn(text, number, speaker=speaker))
    return History.of([Chunk(0, tuple(turns[:3])), Chunk(1, tuple(turns[3:]), tuple(turns[1:3]))])


def fact(text: str, number: int, score: float = 9) -> Fact:
    return Fact(text=text, score=score, turn_ids=(f"chat-{number}",))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What is the name of Mara's dentist?", {"dentist"}),
        ("When did Mara move to Porto in March 2024?", {"move", "porto"}),
        ("Who is Mara?", set()),
        ("Wie heißt der Zahnarzt von Mara?", {"zahnarzt"}),
    ],
)
def test_a_question_is_about_its_telling_words(question: str, words: set[str]) -> None:
    found = telling_words(question, {"Mara", "Bot"})
    assert words <= found
    assert len(found) <= len(words) + 1  # a stem of another language may stand beside


def test_a_fact_is_supported_by_its_turn_or_the_one_before(history: History) -> None:
    assert is_supported(fact("Mr. Lopes repaired the leak.", 4), "Who repaired the leak?", history)
    assert is_supported(fact("The cat is called Pixel.", 2), "What is the name of the cat?", history)
    assert not is_supported(fact("The cat is called Pixel.", 2), "What is the name of Mara's dentist?", history)
    assert is_supported(fact("Anything.", 2), "Who is Mara?", history), "there is no word to look for"


def doubted(text: str, facts: list[Fact], question: str, history: History) -> str:
    return doubt(Answer(text=text), facts, question, history, threshold=6)


def test_an_answer_in_the_words_of_its_turns_is_not_doubted(history: History) -> None:
    assert doubted("Mr. Lopes.", [fact("Lopes repaired it.", 4)], "Who repaired the leak?", history) == ""
    for when in ("In March 2024.", "In March.", "Since last March."):
        assert doubted(when, [fact("Mara moved.", 0)], "When did Mara move to Porto?", history) == ""


@pytest.mark.parametrize(
    ("text", "facts", "question", "reason"),
    [
        ("Pixel.", [], "Who is Mara's dentist?", "cites nothing"),
        ("Lopes.", [fact("Lopes repaired it.", 4, score=6)], "Who repaired the leak?", "weak facts"),
        ("Pixel.", [fact("The dentist is called Pixel.", 2)], "Who is Mara's dentist?", "no word"),
        ("Dr. Silva Costa.", [fact("Dr. Silva Costa repaired it.", 4)], "Who repaired the leak?", "not those of"),
    ],
)
def test_an_answer_is_doubted_for_a_reason(
    text: str, facts: list[Fact], question: str, reason: str, history: History
) -> None:
    assert reason in doubted(text, facts, question, history)


def test_words_that_stand_nowhere_are_told_in_the_language_of_the_history(history: History) -> None:
    assert absent_words("What is the name of Mara's dentist?", history) == ["dentist"]
    assert absent_words("What is the name of the cat?", history) == []
    assert absent_words("Wie heißt der Zahnarzt von Mara?", history) == []
    assert absent_words("她的牙医叫什么名字?", history) == []
    assert absent_words("Who?", History({}, {})) == []


@pytest.mark.parametrize(
    ("question", "answer", "cites", "carried"),
    [
        ("Where does Ana live?", "In Porto.", ("porto",), True),
        ("Where does Ana live?", "In Porto.", (), False),
        ("Where does Ana live?", "In Faro, near the beach.", ("porto",), False),
        ("Who is Ana's dentist?", "In Porto.", ("porto",), False),
    ],
)
def test_a_fast_answer_is_carried_by_what_it_cites(
    a_memory: Callable[..., Any], question: str, answer: str, cites: tuple[str, ...], carried: bool
) -> None:
    unit = EvidenceUnit((Member(a_memory("porto", text="Ana lives in Porto."), "current"),), 1.0)
    packed = PackedContext((unit,), labels={"porto": "M1"})
    assert is_carried(Answer(text=answer, memory_ids=cites), packed, question) is carried


def test_the_parts_of_a_long_turn_are_one_source(a_turn: Callable[..., Any]) -> None:
    parts = [a_turn(text, 0) for text in ("the first half", "and the river Douro")]
    history = History.of(Chunk(number, (part,)) for number, part in enumerate(parts))
    assert [turn.text for turn in history.sources(["chat-0"])] == ["the first half and the river Douro"]
    assert history.sources(["unknown"]) == []
