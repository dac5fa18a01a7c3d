"""Carrying out what a model decided, as far as the rules allow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dualmem.ingestion.decisions import Outcome, Proposal, carry_out, same_subject
from dualmem.lifecycle import WorkingSet, violations
from dualmem.records import Memory

Make = Callable[..., Memory]
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def carried(
    memories: list[Memory], *proposals: tuple[str, str, Any], retirements: int = 20
) -> tuple[WorkingSet, Outcome]:
    working = WorkingSet()
    for memory in memories:
        working.add(memory)
    made = [Proposal(later, earlier, strategy, "because") for later, earlier, strategy in proposals]
    outcome = carry_out(made, working, at=NOW, retirements=retirements)
    assert violations(working.memories.values()) == []
    return working, outcome


def test_each_kind_of_proposal_is_carried_out_and_counted(a_memory: Make) -> None:
    memories = [a_memory(name, day) for day, name in enumerate("abcdef")]
    working, outcome = carried(memories, ("b", "a", "supersede"), ("d", "c", "contradict"), ("f", "e", "merge"))
    assert dict(outcome.done) == {"supersede": 1, "contradict": 1, "merge": 1}
    assert outcome.refused == []
    assert working.memories["a"].state == "superseded"
    assert working.memories["c"].linked("contradicts") == ("d",)
    assert working.memories["e"].linked("merged_with") == ("f",)


@pytest.mark.parametrize("strategy", ["supersede", "contradict"])
def test_memories_about_different_subjects_neither_replace_nor_contradict(a_memory: Make, strategy: str) -> None:
    memories = [
        a_memory("a", 1, text="Ana lives in Porto."),
        a_memory("b", 2, subject="Bob", text="Bob lives in Faro."),
    ]
    working, outcome = carried(memories, ("b", "a", strategy))
    assert outcome.refused == [f"{strategy}: another subject"]
    assert all(memory.active and not memory.links for memory in working.memories.values())


def test_a_batch_retires_no_more_than_its_cap(a_memory: Make) -> None:
    memories = [a_memory(name, day) for day, name in enumerate("abcdef")]
    working, outcome = carried(
        memories, ("b", "a", "supersede"), ("d", "c", "supersede"), ("f", "e", "supersede"), retirements=2
    )
    assert outcome.done["supersede"] == 2
    assert outcome.refused == ["supersede: more than one batch may retire"]
    assert sum(not memory.active for memory in working.memories.values()) == 2


def test_what_the_lifecycle_excludes_is_refused_and_counted(a_memory: Make) -> None:
    memories = [a_memory(name, day) for day, name in enumerate("abc")]
    _, outcome = carried(memories, ("b", "a", "supersede"), ("b", "a", "supersede"), ("b", "a", "merge"))
    assert dict(outcome.done) == {"supersede": 1}
    assert [reason.partition(":")[0] for reason in outcome.refused] == ["supersede", "merge"]


def test_a_refused_proposal_does_not_use_up_the_cap(a_memory: Make) -> None:
    memories = [a_memory(name, day) for day, name in enumerate("abcd")]
    _, outcome = carried(
        memories, ("a", "a", "supersede"), ("b", "a", "supersede"), ("d", "c", "supersede"), retirements=2
    )
    assert outcome.done["supersede"] == 2


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"subject": "Ana"}, {"subject": "ana"}, True),
        ({"subject": "Ana"}, {"subject": "Ana's job"}, True),
        ({"subject": "I", "speaker": "Ana"}, {"subject": "Ana", "speaker": "Bob"}, True),
        ({"subject": "", "speaker": "Ana"}, {"subject": "the user", "speaker": "Ana"}, True),
        (
            {"subject": "the wedding", "text": "Ana's wedding is in May."},
            {"subject": "Ana", "text": "It is in June."},
            True,
        ),
        ({"subject": "Ana", "text": "She left."}, {"subject": "Bob", "text": "He stays."}, False),
        ({"subject": "小明", "text": "x"}, {"subject": "小红", "text": "y"}, False),
    ],
)
def test_same_subject(a_memory: Make, left: dict[str, Any], right: dict[str, Any], same: bool) -> None:
    one, other = a_memory("a", **left), a_memory("b", **right)
    assert same_subject(one, other) is same
    assert same_subject(other, one) is same
