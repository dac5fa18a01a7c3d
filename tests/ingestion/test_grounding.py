"""Checking what a model extracted against what was said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dualmem.ingestion.grounding import EMPTY, NO_QUOTE, OVERLAP, UNKNOWN_TURN, ground, join_repeats
from dualmem.prompts.extraction import ExtractedMemory
from dualmem.records import Draft, Source, Turn

Make = Callable[..., Turn]


@pytest.fixture(scope="module")
def shown(a_turn: Make) -> list[Turn]:
    """A turn of the window before, then the window's own three."""
    return [
        a_turn("I live in Berlin.", 0),
        a_turn("Yesterday I moved to Porto, to the Rua das Flores.", 1),
        a_turn("You should visit the Livraria Lello!", 2, speaker="Bot", role="assistant"),
        a_turn("我喜欢北京的冬天。", 3, speaker="小明"),
    ]


def extracted(**fields: Any) -> ExtractedMemory:
    values = {"turns": [2], "quote": "I moved to Porto", "text": "Ana moved to Porto.", "subject": "Ana", **fields}
    return ExtractedMemory.model_validate(values)


def grounded(shown: list[Turn], **fields: Any) -> Draft:
    draft = ground(extracted(**fields), shown, 1)
    assert isinstance(draft, Draft), draft
    return draft


def test_a_draft_has_the_place_time_and_speaker_of_its_turn(shown: list[Turn]) -> None:
    draft = grounded(shown, kind="event", attribute=" home ", entities=["Porto", " ", "Porto"], topic="moving")
    assert (draft.text, draft.kind, draft.speaker) == ("Ana moved to Porto.", "event", "Ana")
    assert (draft.position, draft.said_at) == (1, shown[1].said_at)
    assert (draft.attribute, draft.entities, draft.topic) == ("home", ("Porto",), "moving")
    assert draft.sources == (Source(turn_id="chat-1", quote="I moved to Porto"),)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": "  \n "}, EMPTY),
        ({"turns": []}, UNKNOWN_TURN),
        ({"turns": [0]}, UNKNOWN_TURN),
        ({"turns": [5]}, UNKNOWN_TURN),
        ({"turns": [-1]}, UNKNOWN_TURN),
        ({"turns": [2, 9]}, UNKNOWN_TURN),
        ({"turns": [1], "quote": "I live in Berlin"}, OVERLAP),
        ({"quote": "I bought a house in Lisbon"}, NO_QUOTE),
        ({"quote": "I live in Berlin"}, NO_QUOTE),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(shown: list[Turn], fields: dict[str, Any], reason: str) -> None:
    assert ground(extracted(**fields), shown, 1) == reason


def test_an_invented_statement_without_a_quote_is_refused(shown: list[Turn]) -> None:
    assert isinstance(ground(extracted(quote="", text="Ana owns three horses and a yacht."), shown, 1), str)


def test_the_right_words_with_the_wrong_number_find_their_turn(shown: list[Turn]) -> None:
    draft = grounded(shown, turns=[3])
    assert (draft.sources[0].turn_id, draft.speaker) == ("chat-1", "Ana")


def test_a_memory_may_rest_on_a_turn_before_together_with_a_new_one(shown: list[Turn]) -> None:
    draft = grounded(shown, turns=[1, 2], text="Ana moved from Berlin to Porto.")
    assert {source.turn_id for source in draft.sources} == {"chat-0", "chat-1"}
    assert [source.quote for source in draft.sources if source.quote] == ["I moved to Porto"]


def test_the_quote_is_kept_as_it_was_said(shown: list[Turn]) -> None:
    assert grounded(shown, quote="i MOVED   to porto,").sources[0].quote == "I moved to Porto"


def test_what_the_assistant_suggests_is_said_by_the_assistant(shown: list[Turn]) -> None:
    draft = grounded(
        shown, turns=[3], quote="You should visit the Livraria Lello", text="Ana visited the Livraria Lello."
    )
    assert draft.speaker == "Bot"


@pytest.mark.parametrize("subject", ["", "I", "me", "the user", " User "])
def test_an_unnamed_subject_is_the_speaker(shown: list[Turn], subject: str) -> None:
    assert grounded(shown, subject=subject).subject == "Ana"
    assert grounded(shown, subject="Ana's sister").subject == "Ana's sister"


def test_only_a_users_wish_is_standing(shown: list[Turn]) -> None:
    assert grounded(shown, standing=True).standing
    assert not grounded(shown, turns=[3], quote="You should visit", text="Visit!", standing=True).standing


@pytest.mark.parametrize("when", ["yesterday", "Yesterday", ""])
def test_words_of_time_count_from_when_they_were_said(shown: list[Turn], when: str) -> None:
    draft = grounded(shown, when=when, quote="Yesterday I moved to Porto")
    assert draft.valid is not None
    assert draft.valid.start == datetime(2024, 3, 1, tzinfo=UTC)
    assert draft.valid.precision == "day"


@pytest.mark.parametrize("when", ["soon", "100,000 years ago", "99/99/9999", "port 9077"])
def test_words_that_are_no_time_are_no_constraint(shown: list[Turn], when: str) -> None:
    assert grounded(shown, when=when).valid is None


def test_other_scripts_are_quoted_too(shown: list[Turn]) -> None:
    draft = grounded(shown, turns=[4], quote="我喜欢北京的冬天", text="小明喜欢北京的冬天。", subject="小明")
    assert (draft.text, draft.speaker) == ("小明喜欢北京的冬天。", "小明")


# Repeats


def test_what_overlapping_windows_say_twice_is_one(a_draft: Callable[..., Draft]) -> None:
    first = a_draft("Ana moved to Porto in March.", 3)
    again = a_draft("In March, Ana moved to Porto.", 3, sources=(*first.sources, Source(turn_id="chat-4", quote="x")))
    kept, joined = join_repeats([first, again])
    assert ([draft.text for draft in kept], joined) == (["Ana moved to Porto in March."], 1)
    assert [source.turn_id for source in kept[0].sources] == ["chat-3", "chat-4"]


def test_the_same_words_from_other_turns_stay_apart(a_draft: Callable[..., Draft]) -> None:
    kept, joined = join_repeats([a_draft("Ana likes tea.", 1), a_draft("Ana likes tea.", 7)])
    assert (len(kept), joined) == (2, 0)


def test_other_words_from_the_same_turn_stay_apart(a_draft: Callable[..., Draft]) -> None:
    kept, joined = join_repeats([a_draft("Ana likes tea.", 1), a_draft("Bob owns a red bicycle.", 1)])
    assert (len(kept), joined) == (2, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana likes green tea.", "Ana likes black tea."),
        ("Ana used to like fish.", "Ana does not like fish."),
        ("Ana owns 2 dogs.", "Ana owns 3 cats and 2 dogs."),
    ],
)
def test_two_things_said_in_one_turn_stay_apart(a_draft: Callable[..., Draft], one: str, other: str) -> None:
    kept, _ = join_repeats([a_draft(one, 1), a_draft(other, 1)])
    assert [draft.text for draft in kept] == [one, other]


def test_drafts_come_out_in_time_order(a_draft: Callable[..., Draft]) -> None:
    kept, _ = join_repeats([a_draft("third thing", 9), a_draft("first news", 1), a_draft("second story", 5)])
    assert [draft.position for draft in kept] == [1, 5, 9]


def test_nothing_to_join() -> None:
    assert join_repeats([]) == ([], 0)
