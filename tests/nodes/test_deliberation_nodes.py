"""Each node of deliberation, called as a function."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from dualmem import DualMem, Scope
from dualmem.context import Context
from dualmem.deliberation.chunks import cut_chunks, halves, plan_waves
from dualmem.deliberation.ledger import in_order
from dualmem.deliberation.questions import needs_everything
from dualmem.errors import InvalidUser, ModelError, ModelUnavailable, StoreError
from dualmem.nodes.deliberation.answer import answer
from dualmem.nodes.deliberation.extract import extract
from dualmem.nodes.deliberation.filter import filter_facts
from dualmem.nodes.deliberation.gate import gate
from dualmem.nodes.deliberation.plan import plan
from dualmem.nodes.deliberation.reconcile import reconcile
from dualmem.nodes.deliberation.remember import remember
from dualmem.nodes.deliberation.threshold import RESCUED, threshold
from dualmem.records import Answer, Fact, PackedContext, Recollection, Turn, Verdict
from dualmem.retrieval.text import count_tokens
from dualmem.state import Chunk, ChunkReading, ChunkTask, DeliberationState
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
RuntimeOf = Callable[..., Runtime[Context]]
Make = Callable[..., Any]


def fact(text: str = "Ana lives in Porto.", score: float = 9, **fields: Any) -> Fact:
    return Fact(text=text, score=score, **fields)


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


@pytest.fixture
async def history(open_memory: Open, runtime_of: RuntimeOf, chat_of: Make) -> Open:
    """Make memories over a stored conversation of six turns; chunks hold two and waves one."""
    memory = open_memory(strategy="verbatim")
    lines = ["Ana: apples", "Bot: pears", "Ana: Porto river", "Bot: bridges", "Ana: rain", "Bot: sun"]
    await memory.remember(chat_of(*lines), user_id="ana", conversation_id="fruit")

    def make(model: Any = None, **options: Any) -> DualMem:
        return open_memory(model, **{"chunk_turns": 2, "chunk_overlap": 1, "wave_chunks": 1, **options})

    return make


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


# threshold, filter, reconcile


async def kept(memory: DualMem, runtime_of: RuntimeOf, *facts: Fact, waves: Any = ()) -> list[str]:
    readings = [ChunkReading(n, 1, facts=(one,)) for n, one in enumerate(facts)]
    state: DeliberationState = {"readings": readings, "question": "Where does Ana live?", "waves": list(waves)}
    return [one.text for one in (await threshold(state, runtime_of(memory)))["relevant"]]


async def test_facts_must_score_above_the_threshold(open_memory: Open, runtime_of: RuntimeOf) -> None:
    facts = (fact("six", 6), fact("seven", 7), fact("nine", 9), fact("five", 5))
    assert await kept(open_memory(), runtime_of, *facts) == ["nine", "seven"]


async def test_where_none_passes_progressive_reading_keeps_weak_facts_about_the_question(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    turns = [a_turn("My cat is grey." if n in {3, 4} else "I have lived here for long.", n) for n in range(6)]
    waves = [[Chunk(n, (turn,)) for n, turn in enumerate(turns)]]
    facts = [fact(str(score), score, turn_ids=(f"chat-{score}",)) for score in (1, 2, 3, 4, 5)]
    assert await kept(open_memory(), runtime_of, *facts, waves=waves) == ["5", "2", "1"][:RESCUED]
    assert await kept(open_memory(deliberation="exhaustive"), runtime_of, *facts, waves=waves) == []


async def test_facts_are_bounded(open_memory: Open, runtime_of: RuntimeOf) -> None:
    facts = [fact(str(number), 9) for number in range(9)]
    assert len(await kept(open_memory(max_facts=4), runtime_of, *facts)) == 4


async def selected(memory: DualMem, runtime_of: RuntimeOf, count: int) -> list[str]:
    state: DeliberationState = {"relevant": [fact(str(number)) for number in range(1, count + 1)], "question": "?"}
    return [one.text for one in (await filter_facts(state, runtime_of(memory)))["facts"]]


async def test_a_model_selects_only_where_there_are_many(open_memory: Open, runtime_of: RuntimeOf) -> None:
    model = ScriptedChatModel(script={"deliberate.filter": [{"keep": [7, 2, 9, 0, 2]}]})
    memory = open_memory(model)
    assert len(await selected(memory, runtime_of, 6)) == 6
    assert model.prompts == []
    assert await selected(memory, runtime_of, 7) == ["7", "2"]


@pytest.mark.parametrize("reply", [{"keep": []}, {"keep": [99]}, ConnectionError("refused")])
async def test_a_selection_that_fails_or_keeps_nothing_leaves_all(
    open_memory: Open, runtime_of: RuntimeOf, reply: Any
) -> None:
    memory = open_memory(ScriptedChatModel(script={"deliberate.filter": [reply]}))
    assert len(await selected(memory, runtime_of, 7)) == 7


def test_the_ledger_orders_by_time_and_joins_duplicates() -> None:
    day = datetime(2024, 3, 1, tzinfo=UTC)
    facts = [
        fact("Ana moved to Porto.", 7, turn_ids=("t3",), when=day + timedelta(days=2)),
        fact("Nobody knows when.", 8),
        fact("Ana bought a boat.", 9, turn_ids=("t1",), when=day),
        fact("ana moved to porto", 9, turn_ids=("t2",), when=day + timedelta(days=1)),
    ]
    ledger = in_order(facts)
    assert [one.text for one in ledger] == ["Ana bought a boat.", "ana moved to porto", "Nobody knows when."]
    assert ledger[1].turn_ids == ("t2", "t3")
    assert in_order([]) == []


def test_the_ledger_orders_instants_and_not_their_spelling() -> None:
    """10:00 in Tokyo is before 02:00 in UTC, though it reads later."""
    tokyo = datetime.fromisoformat("2024-03-01T10:00:00+09:00")
    later = datetime(2024, 3, 1, 2, 0, tzinfo=UTC)
    assert [one.text for one in in_order([fact("b", when=later), fact("a", when=tokyo)])] == ["a", "b"]


async def test_reconcile_gives_the_ledger(open_memory: Open, runtime_of: RuntimeOf) -> None:
    update = await reconcile({"facts": [fact("a"), fact("a")], "question": "?"}, runtime_of(open_memory()))
    assert [one.text for one in update["facts"]] == ["a"]


# answer


def chunked(a_turn: Make, *readings: ChunkReading) -> DeliberationState:
    chunks = [Chunk(n, (a_turn(f"a{n}", 2 * n), a_turn(f"b{n}", 2 * n + 1))) for n in range(2)]
    return {"user_id": "ana", "question": "?", "waves": [chunks], "wave": 0, "readings": list(readings)}


READ = (ChunkReading(0, 2, facts=(fact(turn_ids=("chat-0",)),)), ChunkReading(1, 2))
FAST = Answer(text="In Berlin.")
NOTHING = "I read the whole history (4 turns) and found nothing about that."
ABSTAINED = Answer(text="I do not know.", abstained=True)


async def answered(memory: DualMem, runtime_of: RuntimeOf, state: DeliberationState) -> Any:
    await memory.resources.store.open(create=True)
    update = await answer(state, runtime_of(memory))
    assert (update["answer"], update["route"]) == (update["recollection"].answer, update["recollection"].route)
    return update["recollection"]


def answering(open_memory: Open, *replies: Any, repair: Any = ()) -> DualMem:
    return open_memory(ScriptedChatModel(script={"answer": list(replies), "repair": list(repair)}))


async def test_the_answer_rests_on_the_facts(open_memory: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    memory = answering(open_memory, {"cites": ["F1", "F9"], "found": True, "answer": "In Porto."})
    source = str(uuid.uuid4())
    state = chunked(a_turn, *READ) | {"facts": [fact(turn_ids=(source,)), fact("Other.")], "drafted": FAST}
    found = await answered(memory, runtime_of, state)
    assert (found.answer, found.route, found.fast_answer) == ("In Porto.", "deliberate", "In Berlin.")
    assert [(item.text, item.cited) for item in found.evidence] == [("Ana lives in Porto.", True), ("Other.", False)]
    assert str(found.coverage) == "read 4 of 4 turns"


@pytest.mark.parametrize(("drafted", "text"), [(FAST, "In Berlin."), (ABSTAINED, NOTHING)])
async def test_without_facts_a_fast_answer_stands_unless_it_abstained(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make, drafted: Answer, text: str
) -> None:
    state = chunked(a_turn, *READ) | {"facts": [], "drafted": drafted, "packed": PackedContext(())}
    found = await answered(answering(open_memory), runtime_of, state)
    assert (found.answer, found.route) == (text, "deliberate")


async def test_where_the_answer_fails_the_fast_one_goes_out_as_degraded(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    state = chunked(a_turn, *READ) | {"facts": [fact()], "drafted": FAST}
    found = await answered(answering(open_memory, ConnectionError("refused")), runtime_of, state)
    assert (found.answer, found.route, "refused" in found.degraded_reason) == ("In Berlin.", "degraded", True)


FAILED = (ChunkReading(0, 2, 2, failure="refused"), ChunkReading(1, 2, 2, failure="refused"))


async def test_where_no_chunk_could_be_read_the_fast_answer_goes_out_as_degraded(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    state = chunked(a_turn, *FAILED) | {"facts": [], "drafted": ABSTAINED}
    found = await answered(answering(open_memory), runtime_of, state)
    assert (found.answer, found.route) == ("I do not know.", "degraded")
    assert str(found.coverage) == "read 0 of 4 turns, 4 failed"
    assert found.coverage.failures == ("refused",)


async def test_a_deliberation_of_its_own_that_failed_is_an_error(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    """There is no fast answer to fall back on, and to have found nothing is something else."""
    with pytest.raises(ModelError, match="refused"):
        await answered(answering(open_memory), runtime_of, chunked(a_turn, *FAILED) | {"facts": []})
    memory = answering(open_memory, ConnectionError("refused"))
    with pytest.raises(ModelError, match="refused"):
        await answered(memory, runtime_of, chunked(a_turn, *READ) | {"facts": [fact()]})


async def test_parts_of_one_turn_that_fail_in_several_chunks_are_one_failed_turn(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    pieces = [Chunk(n, (a_turn(f"piece {n}", 0),)) for n in range(3)]
    state: DeliberationState = {
        "user_id": "ana",
        "question": "?",
        "waves": [pieces],
        "wave": 0,
        "facts": [],
        "drafted": FAST,
        "readings": [ChunkReading(n, 1, 1, failure="refused") for n in range(3)],
    }
    coverage = (await answered(answering(open_memory), runtime_of, state)).coverage
    assert (coverage.turns_read, coverage.turns_failed, coverage.turns_total) == (0, 1, 1)


# gate, remember


def concluded(text: str = "In Porto.", *, waves: int = 2, **fields: Any) -> DeliberationState:
    state: DeliberationState = {
        "question": "?",
        "facts": [fact()],
        "concluded": Answer(text=text, **fields),
        "waves": [[] for _ in range(waves)],
        "wave": 0,
        "recollection": Recollection(
            question="?",
            user_id="ana",
            answer=text,
            outcome="answered",
            route="deliberate",
            verdict=Verdict(passed=False, policy="always"),
        ),
    }
    return state


async def test_the_gate_stops_when_it_is_satisfied(
    open_memory: Open, runtime_of: RuntimeOf, grades: Callable[..., Any]
) -> None:
    for graded, satisfied in ((grades(), True), (grades(complete=False), False)):
        memory = open_memory(ScriptedChatModel(script={"gate": [graded]}))
        update = await gate(concluded(), runtime_of(memory))
        assert (update["wave"], update["satisfied"]) == (1, satisfied)


async def test_after_the_last_wave_and_for_an_abstention_no_model_is_asked(
    open_memory: Open, runtime_of: RuntimeOf
) -> None:
    memory = open_memory()
    last = await gate(concluded(abstained=True, waves=1), runtime_of(memory))
    assert (last["wave"], last["satisfied"]) == (1, True)
    more = await gate(concluded(abstained=True), runtime_of(memory))
    assert (more["wave"], more["satisfied"]) == (1, False)
    trusting = open_memory(check_support=False)
    assert (await gate(concluded(waves=1), runtime_of(trusting)))["satisfied"]


async def test_a_grade_that_cannot_be_had_reads_on(open_memory: Open, runtime_of: RuntimeOf) -> None:
    memory = open_memory(ScriptedChatModel(script={"gate": [ConnectionError("refused")]}))
    update = await gate(concluded(), runtime_of(memory))
    assert (update["wave"], update["satisfied"]) == (1, False)


async def stored_turns(memory: DualMem) -> list[Turn]:
    assert await memory.resources.store.open(create=False)
    return await memory.resources.store.turns("ana")


async def test_what_was_found_is_remembered_once(history: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    script = {"answer": {"cites": ["F1"], "found": True, "answer": "x"}, "consolidate": {"decisions": []}}
    memory = history(ScriptedChatModel(script=script))
    turns = {turn.text: turn for turn in await stored_turns(memory)}
    source = turns["Porto river"]
    found = fact("The Porto river is called Douro.", turn_ids=(source.id,), when=source.said_at)
    state = chunked(a_turn, *READ) | {"facts": [found, fact("not cited", turn_ids=(source.id,))], "drafted": FAST}
    state |= await answer(state, runtime_of(memory))
    before = len(await memory.memories(user_id="ana"))
    for _ in range(2):
        await remember(state, runtime_of(memory))
    new = [one for one in await memory.memories(user_id="ana") if one.origin == "deliberation"]
    assert [one.text for one in new] == ["The Porto river is called Douro."]
    assert len(await memory.memories(user_id="ana")) == before + 1
    assert (new[0].turn_ids, new[0].known_at, new[0].speaker) == ((source.id,), source.said_at, "Ana")


@pytest.mark.parametrize("error", [StoreError("the disk is full"), ModelUnavailable("embedding failed")])
async def test_where_remembering_fails_the_answer_stands(
    history: Open, runtime_of: RuntimeOf, a_turn: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    script = {"answer": {"cites": ["F1"], "found": True, "answer": "x"}, "consolidate": {"decisions": []}}
    memory = history(ScriptedChatModel(script=script))
    turn = (await stored_turns(memory))[0]
    state = chunked(a_turn, *READ) | {"facts": [fact(turn_ids=(turn.id,))], "drafted": FAST}
    state |= await answer(state, runtime_of(memory))

    async def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(memory.resources.store, "commit", failing)
    state |= await remember(state, runtime_of(memory))
    assert (state["recollection"].answer, state["recollection"].route) == ("x", "deliberate")


@pytest.mark.parametrize("options", [{"write_back": False}, {}])
async def test_nothing_is_remembered_where_that_is_off_or_nothing_was_found(
    history: Open, runtime_of: RuntimeOf, a_turn: Make, options: dict[str, Any]
) -> None:
    found = bool(options)
    reply = {"cites": ["F1"], "found": found, "answer": "x"}
    memory = history(ScriptedChatModel(script={"answer": reply}), **options)
    turn = (await stored_turns(memory))[0]
    state = chunked(a_turn, *READ) | {"facts": [fact(turn_ids=(turn.id,))], "drafted": FAST}
    state |= await answer(state, runtime_of(memory))
    before = await memory.memories(user_id="ana", states=())
    await remember(state, runtime_of(memory))
    assert await memory.memories(user_id="ana", states=()) == before
