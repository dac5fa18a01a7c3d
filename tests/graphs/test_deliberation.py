"""Deliberation, looked at from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem, build_deliberation_graph
from dualmem.records import Answer, Recollection, Verdict
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = (
    "Ana: apples",
    "Bot: pears",
    "Ana: the Porto river is the Douro",
    "Bot: bridges",
    "Ana: rain",
    "Bot: what is the name of the sun",
)
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
    assert found.degraded_reason == ""


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (ConnectionError("refused"), "the selection among them failed: .*refused"),
        ("no JSON at all", "the selection among them failed"),
        ({"keep": [99]}, "the selection among them kept none"),
    ],
)
async def test_a_selection_that_failed_is_told(deliberate: Any, reply: Any, told: str) -> None:
    facts = [{"turns": [1], "fact": f"Thing number {number} is {number * 7}.", "score": 8} for number in range(1, 8)]
    script = {
        "deliberate.extract": lambda prompt: {"facts": facts if "river" in _chunk(prompt) else []},
        "deliberate.filter": reply,
        "repair": reply,
        "answer": [ANSWER],
    }
    found, _ = await deliberate(script, "Which river?", deliberation="exhaustive")
    assert (found.answer, found.route, found.outcome) == ("The Douro.", "deliberate", "answered")
    assert (found.coverage.facts_found, found.coverage.facts_used) == (7, 7)
    assert re.match(f"all 7 facts were used, since {told}", found.degraded_reason)


async def test_a_selection_that_a_later_wave_made_is_no_failure(deliberate: Any, grades: Make) -> None:
    facts = [{"turns": [1], "fact": f"Thing number {number} is {number * 7}.", "score": 8} for number in range(1, 8)]
    script = {
        "deliberate.extract": lambda _: {"facts": facts},
        "deliberate.filter": [{"keep": [99]}, {"keep": [1]}],
        "answer": [ANSWER, ANSWER],
        "gate": [grades(complete=False), grades()],
    }
    found, model = await deliberate(script, "Which river?", wave_chunks=1, chunk_turns=2)
    assert model.leftovers() == {}
    assert (found.coverage.facts_used, found.degraded_reason) == (1, "")


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
    from langchain_core.messages import HumanMessage, SystemMessage

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


# Answers that the turns do not carry

DENTIST = "What is the name of Ana's dentist?"
MADE_UP = {"cites": ["F1"], "found": True, "answer": "Doctor Mendes."}


async def test_an_answer_that_no_turn_carries_is_graded_against_the_turns_and_given_up(
    deliberate: Any, grades: Make
) -> None:
    script = {
        "deliberate.extract": finding("rain", "The dentist of Ana is Doctor Mendes.", 10),
        "answer": [MADE_UP],
        "gate": [grades(faithful=False, reason="nothing about a dentist")],
    }
    found, model = await deliberate(script, DENTIST, deliberation="exhaustive")
    assert (found.outcome, found.route) == ("not_answerable", "deliberate")
    assert found.answer == "I read the whole history (6 turns) and found nothing about that."
    assert (found.final.passed, found.final.faithful, found.remembered) == (False, False, ())
    assert found.usage.calls == len(model.prompts)
    shown = model.prompts[-1][1][-1].text
    assert '[T2] Ana said (5 March 2024): "rain"' in shown
    assert '"dentist" stand in none of the 6 turns' in shown


@pytest.mark.parametrize("reply", [["what?", "what?"], [{"reason": "", "relevant": True, "faithful": True}]])
async def test_a_doubted_answer_whose_grade_cannot_be_read_is_given_up(deliberate: Any, reply: list[Any]) -> None:
    script = {
        "deliberate.extract": finding("rain", "The dentist of Ana is Doctor Mendes.", 10),
        "answer": [MADE_UP],
        "gate": reply[:1],
        "repair": reply[:1],
    }
    found, model = await deliberate(script, DENTIST, deliberation="exhaustive")
    assert (found.outcome, found.final.readable) == ("not_answerable", False)
    assert found.usage.calls == len(model.prompts), "a reply that cannot be read is paid for"


async def test_a_doubted_answer_that_cannot_be_graded_goes_out_and_says_so(deliberate: Any) -> None:
    script = {
        "deliberate.extract": finding("rain", "The dentist of Ana is Doctor Mendes.", 10),
        "answer": [MADE_UP],
        "gate": [ConnectionError("refused")],
    }
    found, _ = await deliberate(script, DENTIST, deliberation="exhaustive")
    assert (found.answer, found.final.passed) == ("Doctor Mendes.", False)
    assert "could not be graded" in found.final.reason


async def test_an_abstention_after_everything_was_read_is_final_and_says_so(deliberate: Any) -> None:
    unknown = {"cites": [], "found": False, "answer": "I do not know."}
    found, model = await deliberate(
        {"deliberate.extract": finding("rain", "It rained."), "answer": [unknown]}, DENTIST, deliberation="exhaustive"
    )
    assert (found.outcome, found.answer, model.calls("gate")) == ("not_answerable", "I do not know.", 0)
    assert found.final.reason == "It abstains; read 6 of 6 turns. This is final."


async def test_where_a_paper_is_followed_nothing_is_graded_again(deliberate: Any) -> None:
    script = {"deliberate.extract": finding("rain", "The dentist is Mendes.", 10), "answer": [MADE_UP]}
    found, model = await deliberate(script, DENTIST, preset="full")
    assert (found.answer, model.calls("gate")) == ("Doctor Mendes.", 0)


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        (Verdict(passed=False, policy="quality", complete=False), "The Tagus."),
        (Verdict(passed=False, policy="quality", faithful=False), None),
        (Verdict(passed=False, policy="quality", relevant=False), None),
    ],
)
async def test_a_fast_answer_stands_without_facts_only_where_it_was_not_wrong(
    open_memory: Open, chat_of: Make, verdict: Verdict, answer: str | None
) -> None:
    await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
    model = ScriptedChatModel(script={"deliberate.extract": {"facts": []}})
    graph = build_deliberation_graph(open_memory(model).resources)
    given = {"user_id": "ana", "question": "Which river?", "drafted": Answer(text="The Tagus."), "verdict": verdict}
    found = (await graph.ainvoke(given))["recollection"]
    assert found.answer == (answer or "I read the whole history (6 turns) and found nothing about that.")
    assert (found.outcome == "answered") is (answer is not None)


# Limits


async def test_a_limit_stops_the_reading_and_is_told(deliberate: Any, grades: Make) -> None:
    script = {"deliberate.extract": finding("nothing"), "answer": [], "gate": []}
    found, model = await deliberate(script, "Which river is in Porto?", budget_calls=5)
    assert str(found.coverage) == "read 4 of 6 turns, stopped: the budget of 5 calls"
    assert found.answer == "I read 4 of 6 turns and found nothing about that; the budget of 5 calls is spent."
    assert (found.final.passed, len(model.prompts)) == (False, 2)


async def test_under_a_limit_the_nearest_chunks_of_everything_are_read_first(deliberate: Any) -> None:
    script = {"deliberate.extract": finding("river"), "answer": [ANSWER]}
    found, _ = await deliberate(script, "Which river is in Porto?", deliberation="exhaustive", budget_calls=4)
    assert (found.answer, str(found.coverage)) == ("The Douro.", "read 2 of 6 turns, stopped: the budget of 4 calls")


async def test_a_limit_below_the_first_chunk_leaves_the_fast_answer(open_memory: Open, chat_of: Make) -> None:
    await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
    graph = build_deliberation_graph(open_memory(budget_tokens=10).resources)
    given = {"user_id": "ana", "question": "Which river?", "drafted": Answer(text="The Tagus.")}
    found = (await graph.ainvoke(given))["recollection"]
    assert (found.answer, found.route) == ("The Tagus.", "degraded")
    assert "the budget of 10 tokens" in found.degraded_reason
