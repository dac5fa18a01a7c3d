"""Deliberation, looked at from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem, build_deliberation_graph
from dualmem.records import Answer, Recollection
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = ("Ana: apples", "Bot: pears", "Ana: the Porto river is the Douro", "Bot: bridges", "Ana: rain", "Bot: sun")
ANSWER = {"cites": ["F1"], "found": True, "answer": "The Douro."}


@pytest.fixture
def deliberate(open_memory: Open, chat_of: Make) -> Callable[..., Any]:
    """Deliberate over six turns in chunks of two and waves of one, with a script."""

    async def run(script: dict[str, Any], question: str, **options: Any) -> tuple[Recollection, ScriptedChatModel]:
        await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
        model = ScriptedChatModel(script={"consolidate": {"decisions": []}, **script})
        memory = open_memory(model, **{"chunk_turns": 2, "chunk_overlap": 1, "wave_chunks": 1, **options})
        graph = build_deliberation_graph(memory.resources)
        result = await graph.ainvoke({"user_id": "ana", "question": question})
        assert set(result) == {"answer", "route", "verdict", "evidence_ids", "recollection"}
        return result["recollection"], model

    return run


def _chunk(prompt: str) -> str:
    return prompt.partition("<conversation>")[2].partition("</conversation>")[0]


def finding(where: str, fact: str = "The river is the Douro.", score: int = 9) -> Callable[[str], Any]:
    """Find a fact in the chunk that holds `where`, nothing elsewhere."""

    def reply(prompt: str) -> Any:
        return {"facts": [{"turns": [1], "fact": fact, "score": score}] if where in _chunk(prompt) else []}

    return reply


async def test_exhaustive_reading_reads_everything_in_one_wave(deliberate: Any) -> None:
    script = {"deliberate.extract": finding("river"), "answer": [ANSWER]}
    found, model = await deliberate(script, "Which river?", deliberation="exhaustive")
    assert (found.answer, found.route, str(found.coverage)) == ("The Douro.", "deliberate", "read 6 of 6 turns")
    assert (found.coverage.chunks_read, found.coverage.facts_found) == (3, 1)
    assert (model.calls("deliberate.extract"), model.calls("gate")) == (3, 0)


async def test_progressive_reading_stops_when_the_gate_is_satisfied(deliberate: Any, grades: Make) -> None:
    script = {"deliberate.extract": finding("river"), "answer": [ANSWER], "gate": [grades()]}
    found, model = await deliberate(script, "Which river is in Porto?")
    assert (found.answer, str(found.coverage)) == ("The Douro.", "read 2 of 6 turns")
    assert model.calls("deliberate.extract") == 1


async def test_progressive_reading_goes_on_until_everything_was_read(deliberate: Any) -> None:
    script = {"deliberate.extract": finding("nothing"), "answer": []}
    found, model = await deliberate(script, "Which river is in Porto?")
    assert (str(found.coverage), found.outcome) == ("read 6 of 6 turns", "nothing_relevant")
    assert model.calls("deliberate.extract") == 3


async def test_a_question_about_everything_reads_everything(deliberate: Any) -> None:
    script = {"deliberate.extract": finding("river"), "answer": [ANSWER]}
    found, _ = await deliberate(script, "How many rivers are there?")
    assert str(found.coverage) == "read 6 of 6 turns"


async def test_facts_of_later_waves_join_those_of_earlier_ones(deliberate: Any, grades: Make) -> None:
    def reply(prompt: str) -> Any:
        word = next(word for word in ("apples", "river", "rain") if word in _chunk(prompt))
        return {"facts": [{"turns": [1], "fact": f"There was talk of {word} one day.", "score": 9}]}

    script = {
        "deliberate.extract": reply,
        "answer": [ANSWER, ANSWER, {**ANSWER, "answer": "All three."}],
        "gate": [grades(complete=False), grades(complete=False), grades()],
    }
    found, model = await deliberate(script, "Which river is in Porto?")
    assert (found.answer, len(found.evidence), model.leftovers()) == ("All three.", 3, {})
    assert [item.sources[0].text for item in found.evidence] == ["apples", "the Porto river is the Douro", "rain"]


async def test_a_chunk_that_fails_is_in_the_coverage_and_holds_up_nobody(deliberate: Any) -> None:
    working = finding("river")

    def flaky(prompt: str) -> Any:
        if "apples" in prompt.partition("<conversation>")[2]:
            raise ConnectionError("refused")
        return working(prompt)

    found, _ = await deliberate(
        {"deliberate.extract": flaky, "answer": [ANSWER]}, "Which river?", deliberation="exhaustive"
    )
    assert (found.answer, found.route) == ("The Douro.", "deliberate")
    coverage = found.coverage
    assert str(coverage) == "read 4 of 6 turns, 2 failed"
    assert (coverage.chunks_read, coverage.chunks_failed, coverage.chunks_total) == (2, 1, 3)
    assert "refused" in coverage.failures[0]


async def test_a_model_selects_among_many_facts(deliberate: Any) -> None:
    facts = [{"turns": [1], "fact": f"Thing number {number} is {number * 7}.", "score": 8} for number in range(1, 8)]
    script = {
        "deliberate.extract": lambda prompt: {"facts": facts if "river" in _chunk(prompt) else []},
        "deliberate.filter": [{"keep": [2]}],
        "answer": [ANSWER],
    }
    found, _ = await deliberate(script, "Which river?", deliberation="exhaustive")
    assert (found.coverage.facts_found, found.coverage.facts_used) == (7, 1)


async def test_weak_facts_are_better_than_none_in_progressive_reading_only(deliberate: Any, grades: Make) -> None:
    script = {"deliberate.extract": finding("river", score=5), "answer": [ANSWER], "gate": [grades()]}
    found, model = await deliberate(script, "Which river?", wave_chunks=3)
    assert (found.outcome, found.final.passed, model.leftovers()) == ("answered", True, {})
    assert "weak facts" in found.final.reason
    script = {"deliberate.extract": finding("river", score=5), "answer": []}
    found, _ = await deliberate(script, "Which river?", deliberation="exhaustive")
    assert found.outcome == "nothing_relevant"


async def test_with_nothing_stored_it_says_so(open_memory: Open) -> None:
    model = ScriptedChatModel(script={})
    graph = build_deliberation_graph(open_memory(model).resources)
    found = (await graph.ainvoke({"user_id": "ana", "question": "Which river?"}))["recollection"]
    assert (found.outcome, found.coverage.turns_total, model.prompts) == ("nothing_stored", 0, [])


async def test_what_is_skipped_is_not_read(open_memory: Open) -> None:
    from langchain_core.messages import HumanMessage, SystemMessage  # noqa: PLC0415

    messages = [SystemMessage("SECRET river rules."), HumanMessage("Porto river Douro")]
    await open_memory(strategy="verbatim").remember(messages, user_id="ana")
    model = ScriptedChatModel(
        script={"deliberate.extract": finding("river"), "answer": ANSWER, "consolidate": {"decisions": []}}
    )
    graph = build_deliberation_graph(open_memory(model).resources)
    found = (await graph.ainvoke({"user_id": "ana", "question": "Which river?"}))["recollection"]
    assert str(found.coverage) == "read 1 of 1 turns"
    assert not any("SECRET" in messages[-1].text for _, messages in model.prompts)


async def test_a_turn_longer_than_a_chunk_counts_once_when_it_fails(open_memory: Open, chat_of: Make) -> None:
    text = " ".join(["Ana walked along the river and counted the bridges of Porto."] * 40)
    await open_memory(strategy="verbatim").remember(chat_of(f"Ana: {text}"), user_id="ana")
    model = ScriptedChatModel(script={"deliberate.extract": ConnectionError("refused")})
    graph = build_deliberation_graph(open_memory(model, chunk_tokens=100, deliberation="exhaustive").resources)
    given = {"user_id": "ana", "question": "Which river?", "drafted": Answer(text="The Tagus.")}
    found = (await graph.ainvoke(given))["recollection"]
    assert (found.answer, found.route) == ("The Tagus.", "degraded")
    coverage = found.coverage
    assert coverage.chunks_total > 1
    assert (coverage.turns_read, coverage.turns_failed, coverage.turns_total) == (0, 1, 1)
