"""Records that the prompts are rendered from, and their text for golden files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dualmem.chat import Prompt
from dualmem.prompts import (
    agreement,
    answer,
    chunk_extraction,
    consolidation,
    evolution,
    extraction,
    fact_filter,
    gate,
    judge,
    lean_extraction,
    mem0star_extraction,
    mem0star_update,
    memory_filter,
    pair_comparison,
    rerank,
    rubric_judge,
)
from dualmem.prompts.evidence import evidence_part, facts_part
from dualmem.records import EvidenceUnit, Fact, Interval, Member, Memory, Turn

ASKED_AT = datetime(2024, 5, 8, 13, 30, tzinfo=UTC)


def may(day: int) -> Interval:
    start = datetime(2024, 5, day, tzinfo=UTC)
    return Interval(start=start, end=start + timedelta(days=1), precision="day")


@pytest.fixture(scope="session")
def turns(a_turn: Callable[..., Turn]) -> list[Turn]:
    """Four turns: two at one time, one without a time, one with several lines."""
    return [
        a_turn("Wir sind nach München gezogen 🏠.", 0),
        a_turn(
            "Schön! Which street?", 1, speaker="Bot", role="assistant", said_at=datetime(2024, 3, 1, 10, tzinfo=UTC)
        ),
        a_turn("北京的朋友\n来看我们。", 2, said_at=None),
        a_turn('He said: "see you"', 3, speaker="Müller, Jörg"),
    ]


@pytest.fixture(scope="session")
def memories(a_memory: Callable[..., Memory]) -> list[Memory]:
    """Four memories: two states of one thing, one that conflicts, one dated."""
    return [
        a_memory("a", 0, text="Ana lives in Berlin.", state="superseded"),
        a_memory("b", 3, text="Ana lebt in München."),
        a_memory("c", 4, text="Ana lives in Köln."),
        a_memory("d", 5, text="安娜五月去北京。", kind="plan", valid=may(20)),
    ]


@pytest.fixture(scope="session")
def units(memories: list[Memory], turns: list[Turn]) -> list[EvidenceUnit]:
    """A chain with a conflict and its turns, a memory alone, and a turn alone."""
    chain = (
        Member(memories[0], "superseded"),
        Member(memories[1], "conflicting"),
        Member(memories[2], "conflicting"),
    )
    return [
        EvidenceUnit(chain, 1.0, (turns[0],)),
        EvidenceUnit((Member(memories[3], "current"),), 0.5),
        EvidenceUnit((), 0.2, (turns[3],)),
    ]


LABELS = {"a": "M1", "b": "M2", "c": "M3", "d": "M4", "chat-0": "T1", "chat-3": "T2"}


@pytest.fixture(scope="session")
def facts() -> list[Fact]:
    """Two facts read in the raw history."""
    return [
        Fact(text="Ana zog nach München.", score=9, turn_ids=("chat-0",), when=datetime(2024, 3, 1, tzinfo=UTC)),
        Fact(text="Ana paid 12 €.", score=7, turn_ids=("chat-3",)),
    ]


@pytest.fixture(scope="session")
def rendered(
    turns: list[Turn], memories: list[Memory], units: list[EvidenceUnit], facts: list[Fact]
) -> dict[str, Prompt[Any]]:
    """Every prompt, rendered in each way that changes its text."""
    question = "Wo in München wohnt Ana jetzt?"
    evidence = evidence_part(units, LABELS)
    labels = list(LABELS.values())
    old, new = memories[:2], memories[2:]
    return {
        "extraction": extraction.render([], turns, most=40),
        "extraction_with_context": extraction.render(turns[:2], turns[2:], most=3),
        "consolidation": consolidation.render([(new[0], old), (new[1], old[:1])], {"a": "A", "b": "B"}),
        "consolidation_without_dates": consolidation.render([(new[1], old[:1])], {"a": "A"}, dates=False),
        "evolution": evolution.render(memories, dict(zip("abcd", "ABCD", strict=True))),
        "answer": answer.render(evidence, question, labels=labels),
        "answer_short": answer.render(
            evidence_part(units, LABELS, dates=False), question, labels=labels, asked_at=ASKED_AT, style="short"
        ),
        "answer_with_wishes": answer.render(
            evidence, question, labels=labels, standing=["Ana wants to be called Anni."]
        ),
        "answer_from_facts": answer.render(
            facts_part(facts, ["12 € + 3 € = 15 €"]), question, labels=["F1", "F2"], step="deliberate.answer"
        ),
        "answer_without_evidence": answer.render(evidence_part([], {}), question, labels=[]),
        "gate": gate.render(evidence, question, "In München.", asked_at=ASKED_AT),
        "memory_filter": memory_filter.render(evidence, question, labels=labels),
        "rerank": rerank.render(evidence, question, labels=labels),
        "agreement": agreement.render(["In München.", "München", "Köln"], question, policy="majority"),
        "chunk_extraction": chunk_extraction.render([], turns, question, least=5),
        "chunk_extraction_with_context": chunk_extraction.render(
            turns[:1], turns[1:], question, least=5.5, asked_at=ASKED_AT, missing="the street"
        ),
        "chunk_extraction_for_a_ledger": chunk_extraction.render([], turns, question, least=5, ledger=True),
        "lean_extraction": lean_extraction.render(turns[:2], turns[2:], most=40),
        "mem0star_extraction": mem0star_extraction.render(memories[1:3], turns[:2], turns[2:], most=40),
        "mem0star_update": mem0star_update.render([(new[0], old), (new[1], old[:1])], {"a": "A", "b": "B"}),
        "pair_comparison": pair_comparison.render(old[0], new[0]),
        "judge": judge.render(question, "in der Müllerstraße, München", "In München."),
        "rubric_judge": rubric_judge.render(question, "nennt München", "In München."),
        "fact_filter": fact_filter.render(facts, question, asked_at=ASKED_AT),
    }


@pytest.fixture(scope="session")
def written() -> Callable[[Prompt[Any]], str]:
    """Write a prompt as it stands in a golden file."""

    def write(prompt: Prompt[Any]) -> str:
        parts = [f"=== {message.type}\n{message.text}" for message in prompt.messages]
        schema = json.dumps(prompt.schema, ensure_ascii=False, indent=2)
        return "\n\n".join(
            [f"=== step {prompt.step}, reply {prompt.output.__name__}", *parts, f"=== schema\n{schema}\n"]
        )

    return write
