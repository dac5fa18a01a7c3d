"""What runs at the same time, what waits for what, and what stops when it is cancelled. No clock is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.outputs import ChatResult
from pydantic import Field, PrivateAttr

from dualmem import DualMem
from dualmem.testing import STEPS, ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]

PATIENCE = 30
"""Seconds after which a call that waits for others gives up, and its test fails."""

LINES = [f"Ana: On day {number} Ana saw {number} herons at the river" for number in range(20)]
FAST = {"cites": [], "found": True, "answer": "Herons."}
DEEP = {"cites": ["F1"], "found": True, "answer": "Herons at the river."}
FACT = {"facts": [{"turns": [1], "fact": "Ana saw herons at the river.", "score": 9}]}


class MeetingModel(ScriptedChatModel):
    """Holds the calls of a step back until as many are under way as `together` says."""

    together: dict[str, int] = Field(default_factory=dict)
    peak: Counter[str] = Field(default_factory=Counter)
    rounds: list[set[str]] = Field(default_factory=list)
    """The steps that ran between two moments without any call under way."""
    cancelled: list[str] = Field(default_factory=list)
    crowd: int = 4
    crowded: Any = Field(default_factory=asyncio.Event)
    """Set when `crowd` calls are under way."""
    _active: Counter[str] = PrivateAttr(default_factory=Counter)
    _met: dict[str, asyncio.Event] = PrivateAttr(default_factory=dict)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        step = next(name for name, mark in STEPS.items() if mark in messages[-1].text)
        if not self._active.total():
            self.rounds.append(set())
        self.rounds[-1].add(step)
        self._active[step] += 1
        self.peak[step] = max(self.peak[step], self._active[step])
        if self._active.total() >= self.crowd:
            self.crowded.set()
        met = self._met.setdefault(step, asyncio.Event())
        if self._active[step] >= self.together.get(step, 1):
            met.set()
        try:
            await asyncio.wait_for(met.wait(), PATIENCE)
            return self._generate(messages, stop, None, **kwargs)
        except asyncio.CancelledError:
            self.cancelled.append(step)
            raise
        finally:
            self._active[step] -= 1


def script(**more: Any) -> dict[str, Any]:
    return {
        "answer": [FAST, DEEP],
        "deliberate.extract": FACT,
        "deliberate.filter": {"keep": [1]},
        "consolidate": {"decisions": []},
        **more,
    }


@pytest.fixture
async def remembered(open_memory: Open, chat_of: Make) -> Callable[..., DualMem]:
    """Make memories over twenty turns, which are ten chunks."""
    await open_memory(strategy="verbatim").remember(chat_of(*LINES), user_id="ana")
    return lambda model, **options: open_memory(
        model, **{"chunk_turns": 2, "max_concurrency": 32, "deliberation": "exhaustive", "write_back": False, **options}
    )


async def test_the_fast_route_is_two_calls_one_after_the_other(remembered: Any, grades: Make) -> None:
    model = MeetingModel(script=script(gate=[grades()]))
    assert (await remembered(model).recall("What did Ana see?", user_id="ana")).route == "fast"
    assert model.rounds == [{"answer"}, {"gate"}]


async def test_ten_chunks_take_as_long_as_one(remembered: Any, grades: Make) -> None:
    """The critical path: fast answer, its grade, one chunk, the selection, the answer."""
    model = MeetingModel(script=script(gate=[grades(complete=False)]), together={"deliberate.extract": 10})
    found = await remembered(model).recall("What did Ana see at the river?", user_id="ana")
    assert (found.route, found.coverage.chunks_read) == ("deliberate", 10)
    assert model.rounds == [{"answer"}, {"gate"}, {"deliberate.extract"}, {"deliberate.filter"}, {"answer"}]


@pytest.mark.parametrize("policy", ["majority", "consensus"])
async def test_candidates_are_sampled_at_the_same_time(remembered: Any, policy: str) -> None:
    agree = {"reason": "", "agree": [1, 2, 3], "best": 1}
    answers = [{**FAST, "answer": f"Herons {number}."} for number in (1, 2, 3)]
    model = MeetingModel(script=script(answer=answers, agree=[agree]), together={"answer": 3})
    assert (await remembered(model, gate=policy).recall("What did Ana see?", user_id="ana")).route == "fast"
    assert model.rounds == [{"answer"}, {"agree"}]
    assert model.peak["answer"] == 3


async def test_all_drafts_of_a_batch_are_decided_at_the_same_time(
    open_memory: Open, reader: Callable[..., ScriptedChatModel], chat_of: Make
) -> None:
    model = MeetingModel(script=reader().script, together={"consolidate": 2})
    said = chat_of(*(f"Ana: Ana saw {number} herons at the river." for number in range(5)))
    receipt = await open_memory(model, decision_drafts=2, evolution=False).remember(said, user_id="ana")
    assert (receipt.memories_made, receipt.failures) == (5, ())
    assert model.rounds == [{"extract"}, {"consolidate"}]
    assert model.peak["consolidate"] == 2


async def test_no_more_calls_are_under_way_than_the_limit(remembered: Any, grades: Make) -> None:
    model = MeetingModel(script=script(gate=[grades(complete=False)]), together={"deliberate.extract": 4})
    await remembered(model, max_concurrency=4).recall("What did Ana see at the river?", user_id="ana")
    assert model.peak["deliberate.extract"] == 4
    assert model.calls("deliberate.extract") == 10


async def test_a_wave_waits_for_all_of_its_chunks_and_for_no_others(remembered: Any, grades: Make) -> None:
    doubted, fine = grades(complete=False), grades()
    model = MeetingModel(
        script=script(answer=[FAST, DEEP, DEEP], gate=[doubted, doubted, fine]), together={"deliberate.extract": 3}
    )
    memory = remembered(model, deliberation="progressive", wave_chunks=3)
    found = await memory.recall("What did Ana see at the river?", user_id="ana")
    wave = [{"deliberate.extract"}, {"answer"}, {"gate"}]
    assert model.rounds == [{"answer"}, {"gate"}, *wave, *wave]
    assert found.coverage.chunks_read == 6


async def test_what_is_cancelled_stops_its_calls_and_leaves_nothing_locked(remembered: Any, grades: Make) -> None:
    model = MeetingModel(script=script(gate=grades(complete=False)), together={"deliberate.extract": 99})
    memory = remembered(model, max_concurrency=4)
    running = asyncio.create_task(memory.recall("What did Ana see at the river?", user_id="ana"))
    await asyncio.wait_for(model.crowded.wait(), PATIENCE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert model.cancelled == ["deliberate.extract"] * 4
    sent = len(model.prompts)
    await asyncio.sleep(0)
    assert (len(model.prompts), model._active.total()) == (sent, 0), "none of the six that waited is begun"

    model.together["deliberate.extract"] = 4
    model.script["answer"] = [FAST, FAST, DEEP]
    found = await memory.recall("What did Ana see at the river?", user_id="ana")
    assert (found.route, found.coverage.chunks_read) == ("deliberate", 10)


async def test_verdict_chunks_waves_and_coverage_are_streamed(remembered: Any, grades: Make) -> None:
    doubted, fine = grades(complete=False, reason="vague"), grades(reason="good")
    model = ScriptedChatModel(script=script(answer=[FAST, DEEP, DEEP], gate=[doubted, doubted, fine]))
    memory = remembered(model, deliberation="progressive", wave_chunks=2)
    given = {"user_id": "ana", "question": "What did Ana see at the river?"}
    events: list[Any] = []
    nodes: list[str] = []
    async for _, mode, update in memory.recall_graph.astream(
        given, context=memory.settings, stream_mode=["updates", "custom"], subgraphs=True
    ):
        if mode == "custom":
            events.append(update)
        else:
            nodes += list(update)
    kinds = [event["event"] for event in events if event["event"] in {"verdict", "chunk", "wave", "coverage"}]
    wave = ["chunk", "chunk", "coverage", "wave"]
    assert kinds == ["verdict", *wave, *wave]
    assert [event["passed"] for event in events if event["event"] == "wave"] == [False, True]
    coverage = [event["coverage"]["turns_read"] for event in events if event["event"] == "coverage"]
    assert coverage == [4, 8]
    assert nodes[:4] == ["retrieve", "filter", "answer", "gate"]
    assert nodes[-2:] == ["remember", "deliberation"]
