"""The dry run: what a question would cost at most, and that it really costs no more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import InputError
from dualmem.retrieval.text import count_tokens
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = [f"Ana: On day {n} Ana walked along the river and saw {n} herons." for n in range(24)]
FACTS = {"facts": [{"turns": [1], "fact": "Ana saw herons at the river.", "score": 9}] * 4}
BAD = {"reason": "", "relevant": True, "faithful": True, "complete": False, "missing": "the number"}


@pytest.fixture
async def remembered(open_memory: Open, chat_of: Make) -> Open:
    await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
    return lambda model=None, **options: open_memory(
        model, **{"strategy": "verbatim", "chunk_turns": 4, "wave_chunks": 2, **options}
    )


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({}, "Where did Ana walk?"),
        ({"memory_filter": "model"}, "Where did Ana walk?"),
        ({"gate": "majority"}, "Where did Ana walk?"),
        ({"gate": "consensus", "candidates": 5}, "Where did Ana walk?"),
        ({"gate": "always"}, "Where did Ana walk?"),
        ({"deliberation": "exhaustive"}, "Where did Ana walk?"),
        ({}, "How many herons did Ana see in total?"),
    ],
)
async def test_a_question_costs_no_more_than_was_told(remembered: Any, options: dict[str, Any], question: str) -> None:
    # No two samples are the same word for word, so that they have to be compared.
    walks = itertools.count()
    model = ScriptedChatModel(
        script={
            "filter": {"keep": []},
            "answer": lambda _: {"cites": ["F1"], "found": True, "answer": f"Along the canal, {next(walks) % 8}."},
            "agree": {"reason": "", "agree": [], "best": 0},
            "gate": BAD,
            "deliberate.extract": FACTS,
            "deliberate.filter": {"keep": [1, 2, 3]},
        }
    )
    memory = remembered(model, **options)
    told = await memory.estimate(question, user_id="ana")
    assert model.prompts == [], "a dry run asks nobody"
    found = await memory.recall(question, user_id="ana")
    assert found.route == "deliberate"
    sent = sum(count_tokens(message.text) for _, messages in model.prompts for message in messages)
    assert told.least_calls < len(model.prompts) <= told.most_calls
    assert told.least_tokens < sent <= told.most_tokens_in
    assert (told.turns, told.chunks) == (24, 6)
    assert told.waves == (1 if told.everything or options.get("deliberation") == "exhaustive" else 3)


async def test_samples_may_be_the_same_and_then_cost_no_comparison(remembered: Any) -> None:
    told = await remembered(gate="majority").estimate("Where did Ana walk?", user_id="ana")
    assert told.least_calls == 3
    assert sum(step.calls for step in told.fast) == 4


async def test_a_gate_that_is_off_reads_nothing(remembered: Any) -> None:
    told = await remembered(gate="never").estimate("Where did Ana walk?", user_id="ana")
    assert (told.most_calls, told.least_calls, told.turns, told.deliberation) == (1, 1, 0, ())


async def test_a_budget_that_would_stop_it_is_named_and_money_is_told(remembered: Any) -> None:
    memory = remembered(budget_calls=4, price_input=1.0, price_output=2.0)
    told = await memory.estimate("Where did Ana walk?", user_id="ana")
    assert told.limited_by == "the budget of 4 calls"
    assert told.most_cost == pytest.approx((told.most_tokens_in + 2 * told.most_tokens_out) / 1e6)


async def test_with_nothing_stored_it_costs_nothing(open_memory: Open) -> None:
    told = await open_memory().estimate("Where?", user_id="nobody")
    assert (told.most_calls, told.least_calls, told.turns) == (0, 0, 0)
    with pytest.raises(InputError):
        await open_memory().estimate(" ", user_id="ana")
