"""The nodes of deliberation that conclude: from the threshold to what is remembered; called as functions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.runtime import Runtime

from dualmem import DualMem
from dualmem.context import Context
from dualmem.deliberation.ledger import in_order
from dualmem.errors import ModelError, ModelUnavailable, StoreError
from dualmem.nodes.deliberation.answer import answer
from dualmem.nodes.deliberation.filter import filter_facts
from dualmem.nodes.deliberation.gate import gate
from dualmem.nodes.deliberation.reconcile import reconcile
from dualmem.nodes.deliberation.remember import remember
from dualmem.nodes.deliberation.threshold import RESCUED, threshold
from dualmem.records import Answer, Fact, PackedContext, Recollection, Turn, Verdict
from dualmem.state import Chunk, ChunkReading, DeliberationState
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
RuntimeOf = Callable[..., Runtime[Context]]
Make = Callable[..., Any]


def fact(text: str = "Ana lives in Porto.", score: float = 9, **fields: Any) -> Fact:
    return Fact(text=text, score=score, **fields)


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
