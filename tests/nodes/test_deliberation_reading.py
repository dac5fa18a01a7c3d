"""The nodes of deliberation that read: chunks and waves, plan, extract; called as functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from dualmem import DualMem, Scope
from dualmem.context import Context
from dualmem.deliberation.chunks import cut_chunks, halves, plan_waves
from dualmem.deliberation.questions import needs_everything
from dualmem.errors import InvalidUser, ModelUnavailable
from dualmem.nodes.deliberation.extract import extract
from dualmem.nodes.deliberation.plan import plan
from dualmem.records import Turn
from dualmem.retrieval.text import count_tokens
from dualmem.state import Chunk, ChunkReading, ChunkTask
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
RuntimeOf = Callable[..., Runtime[Context]]
Make = Callable[..., Any]


# chunks and waves


def test_chunks_hold_one_conversation_each_with_the_turns_before(a_turn: Make) -> None:
    turns = [a_turn(f"a{n}", n) for n in range(5)] + [a_turn(f"b{n}", n, conversation_id="other") for n in range(2)]
    chunks = cut_chunks(turns, most_turns=3, most_tokens=1_000, overlap=2)
    shown = [([turn.text for turn in chunk.earlier], [turn.text for turn in chunk.turns]) for chunk in chunks]
    assert shown == [([], ["a0", "a1", "a2"]), (["a1", "a2"], ["a3", "a4"]), ([], ["b0", "b1"])]
    assert [chunk.number for chunk in chunks] == [0, 1, 2]


@given(
    lengths=st.lists(st.integers(0, 60), max_size=25),
    most_turns=st.integers(1, 6),
    most_tokens=st.integers(8, 60),
    overlap=st.integers(0, 3),
)
def test_however_turns_are_cut_nothing_is_lost_or_too_long(
    a_turn: Make, lengths: list[int], most_turns: int, most_tokens: int, overlap: int
) -> None:
    turns = [a_turn(" ".join(["word"] * length) or "x", number) for number, length in enumerate(lengths)]
    chunks = cut_chunks(turns, most_turns=most_turns, most_tokens=most_tokens, overlap=overlap)
    read = [word for chunk in chunks for turn in chunk.turns for word in turn.text.split()]
    assert read == [word for turn in turns for word in turn.text.split()]
    for chunk in chunks:
        assert len(chunk.turns) <= most_turns
        assert sum(count_tokens(turn.text) for turn in chunk.turns) <= most_tokens
        assert len(chunk.earlier) <= overlap
        assert all(turn.position < chunk.turns[0].position for turn in chunk.earlier)


def test_skipped_turns_are_not_read(a_turn: Make) -> None:
    chunks = cut_chunks([a_turn("x", 0, state="skipped"), a_turn("y", 1)], most_turns=3, most_tokens=99, overlap=2)
    assert [[turn.text for turn in chunk.turns] for chunk in chunks] == [["y"]]


def test_waves_begin_with_what_was_found_and_lose_nothing(a_turn: Make) -> None:
    turns = [a_turn(f"t{n}", n) for n in range(10)]
    chunks = cut_chunks(turns, most_turns=2, most_tokens=99, overlap=0)
    waves = plan_waves(chunks, [turns[6], turns[7], turns[1]], ["chat-9"], size=2)
    assert [[chunk.number for chunk in wave] for wave in waves][0] == [3, 4]
    assert sorted(chunk.number for wave in waves for chunk in wave) == [0, 1, 2, 3, 4]
    assert plan_waves([], [], [], size=2) == []


def test_what_is_beside_the_evidence_comes_before_what_is_far_from_it(a_turn: Make) -> None:
    turns = [a_turn(f"t{n}", n) for n in range(10)]
    chunks = cut_chunks(turns, most_turns=2, most_tokens=99, overlap=0)
    waves = plan_waves(chunks, [], ["chat-6"], size=1)
    assert [chunk.number for wave in waves for chunk in wave] == [3, 2, 0, 1, 4]


def test_a_chunk_is_halved_until_it_is_one_turn(a_turn: Make) -> None:
    turns = tuple(a_turn(f"t{n}", n) for n in range(3))
    divided = halves(Chunk(1, turns))
    assert divided is not None
    left, right = divided
    assert (left.turns, right.turns, right.earlier) == (turns[:1], turns[1:], turns[:1])
    assert halves(Chunk(1, turns[:1])) is None


@pytest.mark.parametrize(
    ("question", "everything"),
    [
        ("How many dogs does Ana have?", True),
        ("What is the total of all my trips?", True),
        ("Summarise what I told you about Bob", True),
        ("Wie viele Hunde hat Ana?", True),
        ("Combien de fois est-elle partie ?", True),
        ("安娜有多少只狗?", True),
        ("Where does Ana live?", False),
        ("Wo wohnt Ana?", False),
    ],
)
def test_questions_about_everything_are_told(question: str, everything: bool) -> None:
    assert needs_everything(question) is everything


# plan


async def planned(memory: DualMem, runtime_of: RuntimeOf, question: str, **state: Any) -> list[list[list[str]]]:
    update = await plan({"user_id": "ana", "question": question, **state}, runtime_of(memory))  # type: ignore[typeddict-item] # keys by name, from the caller
    assert update["wave"] == 0
    return [[[turn.text for turn in chunk.turns] for chunk in wave] for wave in update["waves"]]


async def test_progressive_reading_begins_with_the_nearest_chunk(history: Open, runtime_of: RuntimeOf) -> None:
    waves = await planned(history(), runtime_of, "Which river is in Porto?")
    assert waves[0] == [["Porto river", "bridges"]]
    assert len(waves) == 3


async def test_few_chunks_are_read_at_once(history: Open, runtime_of: RuntimeOf) -> None:
    assert [len(wave) for wave in await planned(history(wave_chunks=3), runtime_of, "Which river?")] == [3]


@pytest.mark.parametrize(("mode", "question"), [("exhaustive", "Which river?"), ("progressive", "How many rivers?")])
async def test_everything_is_read_in_one_wave_where_that_is_needed(
    history: Open, runtime_of: RuntimeOf, mode: str, question: str
) -> None:
    waves = await planned(history(deliberation=mode), runtime_of, question)
    assert waves == [[["apples", "pears"], ["Porto river", "bridges"], ["rain", "sun"]]]


async def test_a_scope_narrows_what_is_read(history: Open, runtime_of: RuntimeOf) -> None:
    other = Scope(conversation_ids=("other",))
    early = Scope(as_of=datetime(2024, 3, 2, 12, tzinfo=UTC))
    assert await planned(history(), runtime_of, "?", scope=other) == []
    assert await planned(history(), runtime_of, "?", scope=Scope(agent_ids=("coach",))) == []
    assert await planned(history(), runtime_of, "?", scope=early) == [[["apples", "pears"]]]


async def test_a_ranking_that_fails_costs_only_the_order(
    history: Open, runtime_of: RuntimeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = history()

    async def down(text: str) -> Any:
        raise ModelUnavailable(text)

    monkeypatch.setattr(memory.resources.embedder, "query", down)
    assert len(await planned(memory, runtime_of, "Which river?")) == 3


async def test_nothing_stored_is_nothing_to_read(open_memory: Open, runtime_of: RuntimeOf) -> None:
    assert await planned(open_memory(), runtime_of, "Which river?") == []


async def test_a_user_is_needed(open_memory: Open, runtime_of: RuntimeOf) -> None:
    with pytest.raises(InvalidUser):
        await plan({"question": "?"}, runtime_of(open_memory()))


# extract


def facts_reply(*items: tuple[Any, str, Any]) -> dict[str, Any]:
    return {"facts": [{"turns": turns, "fact": text, "score": score} for turns, text, score in items]}


async def read(memory: DualMem, runtime_of: RuntimeOf, *turns: Turn) -> ChunkReading:
    task = ChunkTask(chunk=Chunk(3, turns), question="?", asked_at=None, missing="")
    (reading,) = (await extract(task, runtime_of(memory)))["readings"]
    assert reading.number == 3
    return reading


async def test_facts_cite_turns_of_the_chunk_and_score_enough(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    reply = facts_reply(
        ([1], "Ana  moved on\n2 March 2024.", 9),
        (2, "Ana likes tea.", 5),
        ([2], "too weak", 4),
        ([3], "not shown", 9),
        ([0], "not shown", 9),
        ([1], "too strong", 11),
        (["one"], "malformed", 9),
    )
    memory = open_memory(ScriptedChatModel(script={"deliberate.extract": [reply]}))
    reading = await read(memory, runtime_of, a_turn("a", 0), a_turn("b", 1))
    assert [(one.text, one.score, one.turn_ids) for one in reading.facts] == [
        ("Ana moved on 2 March 2024.", 9, ("chat-0",)),
        ("Ana likes tea.", 5, ("chat-1",)),
    ]
    assert reading.facts[0].when == a_turn("a", 0).said_at
    assert reading.facts[0].valid is not None
    assert (reading.turns, reading.failed_turns, reading.failure) == (2, 0, "")


async def test_a_call_that_fails_is_tried_once_more(open_memory: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    replies = [ConnectionError("blip"), facts_reply(([1], "Ana moved.", 9))]
    reading = await read(
        open_memory(ScriptedChatModel(script={"deliberate.extract": replies})), runtime_of, a_turn("a", 0)
    )
    assert len(reading.facts) == 1


async def test_a_chunk_that_fails_twice_is_a_failure_and_no_error(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    model = ScriptedChatModel(script={"deliberate.extract": [ConnectionError("one"), ConnectionError("two")]})
    reading = await read(open_memory(model), runtime_of, a_turn("a", 0), a_turn("b", 1))
    assert (reading.facts, reading.failed_turns, "two" in reading.failure) == ((), 2, True)


async def test_an_unreadable_chunk_is_divided(open_memory: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    replies: list[Any] = ["{", facts_reply(([1], "Ana moved.", 9)), "{"]
    model = ScriptedChatModel(script={"deliberate.extract": replies, "repair": ["{", "{"]})
    reading = await read(open_memory(model), runtime_of, a_turn("a", 0), a_turn("b", 1))
    assert ([one.turn_ids for one in reading.facts], reading.failed_turns) == ([("chat-0",)], 1)
    assert reading.failure


async def test_records_are_read_where_a_ledger_is_made(open_memory: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    entry = {"turns": [1], "fact": "Ana paid 9 euros.", "score": 8, "kind": "payment", "who": "Ana", "others": ["all"]}
    replies = [
        {"facts": [{**entry, "amount": "9", "unit": "euros"}, {**entry, "amount": "18"}, {**entry, "kind": "?"}]}
    ]
    memory = open_memory(ScriptedChatModel(script={"deliberate.extract": replies * 2}))
    for ledger in (True, False):
        task = ChunkTask(
            chunk=Chunk(0, (a_turn("I paid 9 euros", 0),)), question="?", asked_at=None, missing="", ledger=ledger
        )
        (reading,) = (await extract(task, runtime_of(memory)))["readings"]
        assert [one.record is not None for one in reading.facts] == [ledger, False, False]


async def test_a_call_is_given_up_when_the_seconds_are_spent(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    never = asyncio.Event()

    class Silent(ScriptedChatModel):
        async def _agenerate(self, *_: Any, **__: Any) -> Any:
            await never.wait()

    task = ChunkTask(
        chunk=Chunk(0, (a_turn("a", 0), a_turn("b", 1))), question="?", asked_at=None, missing="", deadline=time.time()
    )
    (reading,) = (await extract(task, runtime_of(open_memory(Silent(script={})))))["readings"]
    assert (reading.failed_turns, reading.failure) == (2, "the budget of seconds was spent")
