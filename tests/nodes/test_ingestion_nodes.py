"""Each node of ingestion, called as a function."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from dualmem import DualMem
from dualmem.context import Context
from dualmem.errors import EmptyConversation, InvalidUser, ModelUnavailable
from dualmem.ingestion.rejections import rejection_of
from dualmem.lifecycle import WorkingSet
from dualmem.nodes.ingestion.commit import commit
from dualmem.nodes.ingestion.consolidate import consolidate
from dualmem.nodes.ingestion.dedupe import dedupe
from dualmem.nodes.ingestion.evolve import evolve
from dualmem.nodes.ingestion.extract import extract
from dualmem.nodes.ingestion.index import index
from dualmem.nodes.ingestion.receipt import receipt
from dualmem.nodes.ingestion.record import record
from dualmem.records import Draft, IngestReceipt, Memory, Source, Turn
from dualmem.retrieval.text import sparse_query, tokens
from dualmem.state import IngestionState, Window, WindowReading, WindowTask
from dualmem.stores.backend import Ranking
from dualmem.stores.commit import Commit
from dualmem.stores.payload import of_user
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
RuntimeOf = Callable[..., Runtime[Context]]
Make = Callable[..., Any]
OWNER: IngestionState = {"user_id": "ana", "conversation_id": "chat"}


def extracted(*items: tuple[int, str]) -> dict[str, Any]:
    return {"memories": [{"turns": [number], "quote": text, "text": text, "subject": "Ana"} for number, text in items]}


# record


async def test_record_stores_the_turns_and_cuts_windows(
    open_memory: Open, runtime_of: RuntimeOf, chat_of: Make
) -> None:
    memory = open_memory(window_turns=2, window_overlap=1)
    state: IngestionState = {**OWNER, "messages": chat_of("Ana: one", "Bot: two", "Ana: three")}
    update = await record(state, runtime_of(memory))
    assert [[turn.text for turn in window.turns] for window in update["windows"]] == [["one", "two"], ["three"]]
    turns = await memory.resources.store.turns("ana")
    assert [(turn.text, turn.position, turn.speaker, turn.state) for turn in turns] == [
        ("one", 0, "Ana", "pending"),
        ("two", 1, "Bot", "pending"),
        ("three", 2, "Ana", "pending"),
    ]
    assert (update["tally"][0].turns_stored, update["tally"][0].turns_known) == (3, 0)


async def test_record_knows_what_is_stored(open_memory: Open, runtime_of: RuntimeOf, chat_of: Make) -> None:
    memory = open_memory()
    messages = chat_of("Ana: one", "Bot: two")
    await record({"user_id": "ana", "messages": messages}, runtime_of(memory))
    longer = [*messages, *chat_of("Ana: three", start=2)]
    update = await record({"user_id": "ana", "messages": longer}, runtime_of(memory))
    assert (update["tally"][0].turns_stored, update["tally"][0].turns_known) == (1, 2)
    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == ["one", "two", "three"]
    assert [turn.position for turn in turns] == sorted({turn.position for turn in turns})


async def test_what_no_model_may_see_is_kept_and_counted(open_memory: Open, runtime_of: RuntimeOf) -> None:
    memory = open_memory()
    messages = [
        SystemMessage("You are helpful."),
        HumanMessage("…"),
        HumanMessage("  "),
        AIMessage("", tool_calls=[]),
        SystemMessage("Ana likes tea.", additional_kwargs={"dualmem": {"injected": True}}),
        HumanMessage("I like coffee."),
    ]
    update = await record({"user_id": "ana", "messages": messages}, runtime_of(memory))
    turns = await memory.resources.store.turns("ana")
    assert [(turn.text, turn.state) for turn in turns] == [
        ("You are helpful.", "skipped"),
        ("…", "skipped"),
        ("Ana likes tea.", "skipped"),
        ("I like coffee.", "pending"),
    ]
    assert [turn.text for window in update["windows"] for turn in (*window.earlier, *window.turns)] == [
        "I like coffee."
    ]
    skipped = update["tally"][0].turns_skipped
    assert {reason: skipped[reason] for reason in ("put there by memory", "system text", "no words")} == {
        "put there by memory": 1,
        "system text": 1,
        "no words": 1,
    }
    assert sum(skipped.values()) == 5


@pytest.mark.parametrize("state", [{}, {"messages": []}, {"messages": [HumanMessage("")]}])
async def test_nothing_to_remember_is_an_error_and_stores_nothing(
    open_memory: Open, runtime_of: RuntimeOf, state: IngestionState
) -> None:
    memory = open_memory()
    with pytest.raises(EmptyConversation):
        await record({"user_id": "ana", **state}, runtime_of(memory))
    assert await memory.resources.store.turns("ana") == [] if await memory.resources.store.open(create=False) else True


async def test_a_user_is_needed(open_memory: Open, runtime_of: RuntimeOf) -> None:
    with pytest.raises(InvalidUser):
        await record({"user_id": " ", "messages": [HumanMessage("hi")]}, runtime_of(open_memory()))


# extract


def task(*turns: Turn, earlier: tuple[Turn, ...] = ()) -> WindowTask:
    return WindowTask(user_id="ana", window=Window(4, turns, earlier))


async def read(memory: DualMem, runtime_of: RuntimeOf, window: WindowTask) -> WindowReading:
    (reading,) = (await extract(window, runtime_of(memory)))["readings"]
    return reading


async def test_extract_gives_grounded_drafts_and_counts_the_rest(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    reply = extracted((1, "old news"), (2, "I like tea"), (2, "I like gin"), (7, "I like tea"))
    reply["memories"].append("no memory")
    memory = open_memory(ScriptedChatModel(script={"extract": [reply]}))
    reading = await read(memory, runtime_of, task(a_turn("I like tea.", 1), earlier=(a_turn("old news", 0),)))
    assert [draft.text for draft in reading.drafts] == ["I like tea"]
    assert (reading.number, reading.read_turn_ids, reading.failures) == (4, ("chat-1",), ())
    assert reading.repeated == 1
    refused = [(one.reason, one.text, one.quote, one.turn_ids) for one in reading.rejected]
    assert refused == [
        ("malformed", '"no memory"', "", ()),
        ("its quote is not in its source turns", "I like gin", "I like gin", ("chat-1",)),
        ("cites a turn that was not shown", "I like tea", "I like tea", ()),
    ]
    assert {one.shown_turn_ids for one in reading.rejected} == {("chat-0", "chat-1")}
    assert {(one.user_id, one.conversation_id) for one in reading.rejected} == {("ana", "chat")}


async def test_a_window_that_is_cut_off_is_divided_and_read_again(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    replies = ["{", extracted((1, "one")), extracted((3, "three"))]
    model = ScriptedChatModel(script={"extract": replies, "repair": ["{"]})
    turns = [a_turn(text, number) for number, text in enumerate(["one", "two", "three", "four"])]
    reading = await read(open_memory(model), runtime_of, task(*turns))
    assert [draft.text for draft in reading.drafts] == ["one", "three"]
    assert reading.read_turn_ids == tuple(turn.id for turn in turns)
    assert (model.leftovers(), reading.failures) == ({}, ())


async def test_what_cannot_be_divided_further_fails_and_stays_unread(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    def stubborn(prompt: str) -> Any:
        return "{" if "Stop" in prompt.partition("<conversation>")[2] else {"memories": []}

    model = ScriptedChatModel(script={"extract": stubborn, "repair": "{"})
    turns = [a_turn(text, number) for number, text in enumerate(["one", "Stop", "three"])]
    reading = await read(open_memory(model), runtime_of, task(*turns))
    assert reading.read_turn_ids == ("chat-0", "chat-2")
    assert len(reading.failures) == 1


async def test_a_call_that_fails_is_part_of_the_reading(open_memory: Open, runtime_of: RuntimeOf, a_turn: Make) -> None:
    memory = open_memory(ScriptedChatModel(script={"extract": [ConnectionError("refused")]}))
    reading = await read(memory, runtime_of, task(a_turn()))
    assert (reading.drafts, reading.read_turn_ids) == ((), ())
    assert "refused" in reading.failures[0]


async def test_verbatim_makes_a_draft_of_each_turn_without_a_model(
    open_memory: Open, runtime_of: RuntimeOf, a_turn: Make
) -> None:
    memory = open_memory(strategy="verbatim")
    reading = await read(memory, runtime_of, task(a_turn("I moved yesterday.", 1), a_turn("好", 2)))
    assert [draft.text for draft in reading.drafts] == ["I moved yesterday.", "好"]
    assert reading.drafts[0].valid is not None


# dedupe


async def test_dedupe_takes_the_readings_of_its_batch_in_order(
    open_memory: Open, runtime_of: RuntimeOf, a_draft: Callable[..., Draft], a_turn: Make
) -> None:
    odd, old = [rejection_of({"text": "x"}, reason, [a_turn()]) for reason in ("odd", "old")]
    readings = [
        WindowReading(3, (a_draft("later news", 3),), ("chat-3",), (odd,), ("window 3 failed",)),
        WindowReading(2, (a_draft("Ana moved.", 2), a_draft("Ana moved.", 2)), ("chat-2",), repeated=1),
        WindowReading(1, (a_draft("of the batch before", 1),), ("chat-1",), (old,), ("old failure",)),
    ]
    state: IngestionState = {**OWNER, "next_window": 2, "batch_windows": 2, "readings": readings}
    update = await dedupe(state, runtime_of(open_memory()))
    assert [draft.text for draft in update["drafts"]] == ["Ana moved.", "later news"]
    assert (update["batch_turn_ids"], update["next_window"]) == (["chat-2", "chat-3"], 4)
    assert (update["rejected"], update["tally"][0].failures) == (["odd"], ("window 3 failed",))
    assert update["rejections"] == [odd]
    assert update["tally"][0].repeated == 2


# consolidate, evolve


def from_turn(draft: Draft, turn: Turn) -> Draft:
    return draft.model_copy(update={"sources": (Source(turn_id=turn.id, quote=turn.text),)})


async def test_consolidate_gives_up_the_batch_when_the_model_is_down(
    open_memory: Open, runtime_of: RuntimeOf, a_draft: Callable[..., Draft], chat_of: Make
) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": [ConnectionError("refused")]}))
    await record({**OWNER, "messages": chat_of("Ana: one", "Ana: two")}, runtime_of(memory))
    first, second = await memory.resources.store.turns("ana")
    drafts = [from_turn(a_draft("Ana lives in Porto."), first), from_turn(a_draft("Ana lives in Faro."), second)]
    state: IngestionState = {**OWNER, "drafts": drafts, "batch_turn_ids": [first.id]}
    update = await consolidate(state, runtime_of(memory))
    assert (update["working"], update["batch_turn_ids"]) == (WorkingSet(), [])
    assert set(update["given_up"]) == {first.id, second.id}
    assert "refused" in update["tally"][0].failures[0]


async def test_what_came_from_turns_that_were_forgotten_meanwhile_is_left_out(
    open_memory: Open, runtime_of: RuntimeOf, a_draft: Callable[..., Draft], chat_of: Make
) -> None:
    memory = open_memory()
    await record({**OWNER, "messages": chat_of("Ana: one", "Ana: two")}, runtime_of(memory))
    gone, left = await memory.resources.store.turns("ana")
    of_both = a_draft("Ana owns a boat.").model_copy(
        update={"sources": (Source(turn_id=gone.id, quote="one"), Source(turn_id=left.id, quote="two"))}
    )
    await memory.forget(user_id="ana", turn_id=gone.id)
    drafts = [from_turn(a_draft("Ana lives in Porto."), gone), of_both]
    state: IngestionState = {**OWNER, "drafts": drafts, "batch_turn_ids": [gone.id, left.id]}
    update = await consolidate(state, runtime_of(memory))
    assert [one.text for one in update["working"].memories.values()] == ["Ana owns a boat."]
    assert [one.turn_ids for one in update["working"].memories.values()] == [(left.id,)]
    assert update["rejected"] == ["its turns were forgotten meanwhile"]


def evolving(a_memory: Callable[..., Memory], **tally: int) -> IngestionState:
    working = WorkingSet()
    working.load([a_memory("A", 1, text="Ana will fly to Rome.")])
    working.add(a_memory("B", 2, text="Ana cancelled Rome."))
    working.add(a_memory("C", 3, text="Ana likes tea."))
    return {
        **OWNER,
        "working": working,
        "group": ["B", "A", "C"],
        "tally": [IngestReceipt.model_validate({**OWNER, **tally})],
    }


def relations(*given: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "relations": [
            {"later": later, "earlier": earlier, "reason": "because", "relation": relation}
            for later, earlier, relation in given
        ]
    }


async def test_evolve_adds_relations_and_counts_what_was_not_offered(
    open_memory: Open, runtime_of: RuntimeOf, a_memory: Callable[..., Memory]
) -> None:
    reply = relations(("B", "A", "Replaces"), ("Z", "A", "same_as"), ("C", "A", "likes"))
    memory = open_memory(ScriptedChatModel(script={"evolve": [reply]}))
    update = await evolve(evolving(a_memory), runtime_of(memory))
    working = update["working"]
    assert [memory.id for memory in working.chain("A")] == ["A", "B"]
    assert {memory.text for memory in working.memories.values()} == {
        "Ana will fly to Rome.",
        "Ana cancelled Rome.",
        "Ana likes tea.",
    }
    assert sorted(update["rejected"]) == ["malformed relation", "relation of a memory that was not offered"]
    assert update["tally"][0].superseded == 1


async def test_evolve_puts_the_later_memory_first_whatever_the_model_says(
    open_memory: Open, runtime_of: RuntimeOf, a_memory: Callable[..., Memory]
) -> None:
    memory = open_memory(ScriptedChatModel(script={"evolve": [relations(("A", "B", "replaces"))]}))
    update = await evolve(evolving(a_memory), runtime_of(memory))
    assert update["working"].memories["A"].state == "superseded"


async def test_a_review_that_fails_leaves_what_was_decided(
    open_memory: Open, runtime_of: RuntimeOf, a_memory: Callable[..., Memory]
) -> None:
    memory = open_memory(ScriptedChatModel(script={"evolve": [ConnectionError("refused")]}))
    update = await evolve(evolving(a_memory), runtime_of(memory))
    assert set(update) == {"rejected"}
    assert "refused" in update["rejected"][0]


async def test_the_review_is_left_out_where_it_is_off_or_has_nothing_to_compare(
    open_memory: Open, runtime_of: RuntimeOf, a_memory: Callable[..., Memory]
) -> None:
    assert await evolve(evolving(a_memory), runtime_of(open_memory(evolution=False))) == {}
    assert await evolve(evolving(a_memory) | {"group": ["B"]}, runtime_of(open_memory())) == {}
    stale = evolving(a_memory)
    stale["working"].new.clear()
    assert await evolve(stale, runtime_of(open_memory())) == {}


async def test_retirements_are_capped_over_a_batch_and_not_over_the_ingestion(
    open_memory: Open, runtime_of: RuntimeOf, a_memory: Callable[..., Memory]
) -> None:
    """Earlier batches have retired as many as one batch may; this one has retired none."""
    reply = relations(("B", "A", "replaces"))
    memory = open_memory(ScriptedChatModel(script={"evolve": [reply]}), retirements=1)
    state = evolving(a_memory)
    nothing = IngestReceipt(user_id="ana", conversation_id="chat")
    state["tally"] = [nothing, nothing.model_copy(update={"superseded": 1}), nothing, nothing]
    update = await evolve(state, runtime_of(memory))
    assert update["tally"][0].superseded == 1


# commit, receipt


async def test_points_that_were_made_before_are_those_that_are_made_in_the_end(
    open_memory: Open, a_memory: Callable[..., Memory]
) -> None:
    store = open_memory().resources.store
    texts = ["Ana lives in Porto.", "Ana has a dog.", "Ana sings."]
    first, second, third = [a_memory(str(uuid.uuid4()), day, text=text) for day, text in enumerate(texts)]
    async with store.writer("ana"):
        await store.prepare("ana", [first, second])
        # What was decided of one of them meanwhile is what is kept, and one was not made before.
        changed = second.model_copy(update={"attribute": "pet"})
        await store.commit(Commit("ana", new=(first, changed, third)))
    assert await store.memories(of_user("ana")) == [first, changed, third]
    for word, memory in {"Porto": first, "dog": changed, "sings": third}.items():
        ranking = Ranking("words", 1, of_user("ana"), "keyword", sparse_query(tokens(word)))
        assert [key for row in await store.score_memories([ranking]) for key, _ in row] == [memory.id]


async def test_a_commit_leaves_nothing_of_a_user_prepared(open_memory: Open, a_memory: Callable[..., Memory]) -> None:
    """Else what is forgotten would stay in the process."""
    store = open_memory().resources.store
    first, second = a_memory(str(uuid.uuid4())), a_memory(str(uuid.uuid4()), user_id="bea")
    async with store.writer("ana"):
        await store.prepare("ana", [first])
        await store.prepare("bea", [second])
        await store.commit(Commit("ana", forgotten_ids=(first.id,)))
    assert store._prepared.take("ana", [first]) == {}
    assert list(store._prepared.take("bea", [second])) == [second.id]


async def test_commit_writes_memories_and_marks_their_turns(
    open_memory: Open, runtime_of: RuntimeOf, chat_of: Make, a_draft: Callable[..., Draft]
) -> None:
    memory = open_memory()
    state: IngestionState = {"user_id": "ana", "messages": chat_of("Ana: Ana lives in Porto.", "Ana: more")}
    state |= await record(state, runtime_of(memory))
    first = state["windows"][0].turns[0]
    state |= {"drafts": [from_turn(a_draft("Ana lives in Porto."), first)], "batch_turn_ids": [first.id]}
    recorded = state["tally"]
    state |= await consolidate(state, runtime_of(memory))
    state["tally"] = [*recorded, *state["tally"]]
    assert await commit(state, runtime_of(memory)) == {}
    assert [one.text for one in await memory.memories(user_id="ana")] == ["Ana lives in Porto."]
    assert [turn.state for turn in await memory.resources.store.turns("ana")] == ["read", "pending"]
    done = (await receipt(state, runtime_of(memory)))["receipt"]
    assert (done.turns_stored, done.turns_pending, done.memories_made) == (2, 1, 1)


@pytest.mark.parametrize(("given", "kept"), [("coach", "coach"), (None, ""), (7, "7"), ("co\x00ach", "coach")])
async def test_any_agent_is_a_text(
    open_memory: Open, runtime_of: RuntimeOf, chat_of: Make, given: Any, kept: str
) -> None:
    memory = open_memory()
    await record({"user_id": "ana", "agent_id": given, "messages": chat_of("Ana: one")}, runtime_of(memory))
    assert [turn.agent_id for turn in await memory.resources.store.turns("ana")] == [kept]


async def test_an_embedding_model_that_is_down_leaves_the_turns_stored(
    open_memory: Open, runtime_of: RuntimeOf, chat_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    embedder = memory.resources.embedder

    async def down(texts: Any) -> Any:
        raise ModelUnavailable("embedding failed")

    recorded = await record({"user_id": "ana", "messages": chat_of("Ana: one")}, runtime_of(memory))
    with monkeypatch.context() as patch:
        patch.setattr(embedder, "documents", down)
        with pytest.raises(ModelUnavailable):
            await index(recorded, runtime_of(memory))
    assert [turn.text for turn in await memory.resources.store.turns("ana")] == ["one"]
    await index(recorded, runtime_of(memory))
    assert len(await memory.search("one", user_id="ana")) == 1
