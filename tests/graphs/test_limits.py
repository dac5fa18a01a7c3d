"""Limits of a question: it costs no more than it may, and what was found by then is answered from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem, build_deliberation_graph
from dualmem.retrieval.text import count_tokens
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = [f"Ana: On day {number} Ana saw {number} herons at the river" for number in range(12)]
FAST = {"cites": [], "found": True, "answer": "Herons."}
DEEP = {"cites": ["F1"], "found": True, "answer": "Herons at the river."}
FACT = {"facts": [{"turns": [1], "fact": "Ana saw herons at the river.", "score": 9}]}
QUESTION = "What did Ana see at the river?"


@pytest.fixture
async def remembered(open_memory: Open, chat_of: Make) -> Callable[..., DualMem]:
    """Make memories over twelve turns, which are six chunks in three waves."""
    await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
    options = {"strategy": "verbatim", "chunk_turns": 2, "wave_chunks": 2, "write_back": False}
    return lambda model, **more: open_memory(model, **{**options, **more})


def doubting(grades: Make, **more: Any) -> ScriptedChatModel:
    """A model whose gate is never satisfied, so that everything is read that may be."""
    script = {"gate": grades(complete=False), "answer": DEEP, "deliberate.extract": FACT, **more}
    return ScriptedChatModel(script=script)


@pytest.mark.parametrize("mode", ["progressive", "exhaustive"])
@pytest.mark.parametrize("budget", range(2, 16))
async def test_a_question_makes_no_more_calls_than_it_may(
    remembered: Any, grades: Make, mode: str, budget: int
) -> None:
    model = doubting(grades)
    found = await remembered(model, budget_calls=budget, deliberation=mode).recall(QUESTION, user_id="ana")
    assert len(model.prompts) <= budget
    assert found.usage.calls == len(model.prompts)
    assert found.outcome == "answered"
    if found.coverage.complete:
        assert found.coverage.stopped == ""
    else:
        assert found.coverage.stopped == f"the budget of {budget} calls"
        assert (found.route == "degraded") is (found.coverage.turns_read == 0)


@pytest.mark.parametrize("mode", ["progressive", "exhaustive"])
@pytest.mark.parametrize("budget", range(3, 30))
async def test_repairs_count_as_what_they_are(remembered: Any, grades: Make, mode: str, budget: int) -> None:
    """Every other reply cannot be read, of the reading as of what follows it."""
    turn = iter(range(1000))

    def spoilt(reply: Any) -> Callable[[str], Any]:
        return lambda _: "no JSON at all" if next(turn) % 2 else reply

    deep = {"deliberate.extract": spoilt(FACT), "deliberate.filter": spoilt({"keep": [1]}), "repair": spoilt(FACT)}
    model = doubting(grades, **deep)
    memory = remembered(model, budget_calls=budget, deliberation=mode, fact_filter_above=1)
    found = await memory.recall(QUESTION, user_id="ana")
    assert len(model.prompts) <= budget
    assert found.usage.calls == len(model.prompts)


async def test_without_a_call_left_nothing_is_repaired(remembered: Any, grades: Make) -> None:
    model = doubting(grades, **{"deliberate.extract": "no JSON at all", "repair": "none"})
    found = await remembered(model, budget_calls=6, deliberation="exhaustive").recall(QUESTION, user_id="ana")
    assert (model.calls("deliberate.extract"), model.calls("repair")) == (1, 0)
    assert found.coverage.turns_failed == 2


@pytest.mark.parametrize("budget", [4_000, 5_000, 6_000, 9_000])
async def test_a_question_takes_no_more_tokens_than_it_may(remembered: Any, grades: Make, budget: int) -> None:
    model = doubting(grades)
    found = await remembered(model, budget_tokens=budget).recall(QUESTION, user_id="ana")
    sent = sum(count_tokens(message.text) for _, messages in model.prompts for message in messages)
    assert sent <= budget
    assert found.usage.tokens_in + found.usage.tokens_out <= budget


async def test_when_the_seconds_are_spent_what_was_found_is_answered_from(remembered: Any, grades: Make) -> None:
    never = asyncio.Event()

    class Stalling(ScriptedChatModel):
        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            text = messages[-1].text
            if "Collect the facts" in text and "On day 2 " not in text.partition("<conversation>")[2]:
                await never.wait()
            return self._generate(messages, stop, None, **kwargs)

    model = Stalling(script=doubting(grades).script)
    memory = remembered(model, budget_seconds=3.0, deliberation="exhaustive")
    graph = build_deliberation_graph(memory.resources)
    found = (await graph.ainvoke({"user_id": "ana", "question": QUESTION}))["recollection"]
    assert (found.answer, found.route) == ("Herons at the river.", "deliberate")
    assert str(found.coverage) == "read 2 of 12 turns, 10 failed"
    assert found.coverage.failures == ("the budget of seconds was spent",)
