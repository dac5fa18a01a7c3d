"""Remembering a conversation, looked at from outside."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from dualmem import DualMem
from dualmem.cleaning import INJECTED_CLOSE, INJECTED_OPEN
from dualmem.errors import EmbeddingMismatch, EmptyConversation, InvalidUser
from dualmem.lifecycle import violations
from dualmem.records import Memory
from dualmem.testing import ScriptedChatModel, WordEmbeddings

Open = Callable[..., DualMem]
Make = Callable[..., Any]


async def everything(memory: DualMem, user_id: str = "ana") -> list[Memory]:
    memories = await memory.memories(user_id=user_id, states=())
    assert violations(memories) == []
    return memories


async def states(memory: DualMem, user_id: str = "ana") -> list[str]:
    return [turn.state for turn in await memory.resources.store.turns(user_id)]


def shown(model: ScriptedChatModel) -> str:
    """Return all that the model was shown of conversations and memories."""
    return "\n".join(messages[-1].text for _, messages in model.prompts)


async def test_a_conversation_becomes_memories_with_a_history(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader())
    messages = chat_of(
        "Ana: Ana lives in Berlin.", "Bot: And now?", "Ana: Ana lives in Porto.", "Ana: Ana owns a boat."
    )
    receipt = await memory.remember(messages, user_id="ana", conversation_id="chat")
    assert [(one.text, one.state) for one in await everything(memory)] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "active"),
        ("Ana owns a boat.", "active"),
    ]
    assert await states(memory) == ["read"] * 4
    assert (receipt.turns_stored, receipt.memories_made, receipt.superseded) == (4, 3, 1)
    assert (receipt.turns_pending, receipt.failures, receipt.rejected) == (0, (), {})
    assert len(receipt.memory_ids) == 3
    assert set(receipt.usage.by_step) == {"extract", "consolidate"}


async def test_the_same_conversation_again_changes_nothing_and_asks_nobody(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    model = reader()
    memory = open_memory(model)
    messages = chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.")
    await memory.remember(messages, user_id="ana")
    before, asked = await everything(memory), len(model.prompts)
    receipt = await memory.remember(messages, user_id="ana")
    assert await everything(memory) == before
    assert len(model.prompts) == asked
    assert (receipt.turns_stored, receipt.turns_known, receipt.memories_made) == (0, 2, 0)


async def test_a_longer_conversation_is_read_from_where_it_ended(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    model = reader()
    memory = open_memory(model)
    lines = ["Ana: Ana lives in Berlin.", "Bot: ok", "Ana: Ana lives in Porto."]
    await memory.remember(chat_of(*lines[:2]), user_id="ana")
    receipt = await memory.remember(chat_of(*lines), user_id="ana")
    assert (receipt.turns_stored, receipt.turns_known, receipt.superseded) == (1, 2, 1)
    assert [turn.text for turn in await memory.resources.store.turns("ana")] == [
        line.partition(": ")[2] for line in lines
    ]
    last = [messages[-1].text for step, messages in model.prompts if step == "extract"][-1]
    assert "[1] Ana: Ana lives in Berlin." in last.partition("<conversation>")[0]


async def test_the_callers_messages_are_not_touched(open_memory: Open, reader: Make) -> None:
    messages: list[Any] = [
        HumanMessage(" I live in Porto.\x00 "),
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        ("user", "again"),
    ]
    before = copy.deepcopy(messages)
    await open_memory(reader()).remember(messages, user_id="ana")
    assert messages == before


async def test_what_was_not_said_by_people_never_reaches_the_model(open_memory: Open, reader: Make) -> None:
    model = reader()
    memory = open_memory(model)
    messages = [
        SystemMessage("SECRET-SYSTEM rules."),
        HumanMessage("?!…"),
        HumanMessage("   "),
        SystemMessage("SECRET-MEMORY of Ana.", additional_kwargs={"dualmem": {"injected": True}}),
        HumanMessage(f"I live in Porto.{INJECTED_OPEN}SECRET-FENCED memory.{INJECTED_CLOSE}"),
        HumanMessage(f"{INJECTED_OPEN}SECRET-WHOLE memory.{INJECTED_CLOSE}"),
        AIMessage("Nice."),
    ]
    receipt = await memory.remember(messages, user_id="ana")
    assert "SECRET" not in shown(model)
    assert "?!…" not in shown(model)
    assert "I live in Porto." in shown(model)
    assert {"system text": 1, "put there by memory": 2, "no words": 1}.items() <= receipt.turns_skipped.items()
    assert receipt.turns_pending == 0


class Noting(WordEmbeddings):
    """Keeps what it embeds, and refuses what is longer than the window of any embedding model."""

    LONGEST = 100_000

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        if len(text) > self.LONGEST:
            raise ValueError("this model's maximum context length is 8192 tokens")
        self.seen.append(text)
        return super().embed_query(text)


async def test_what_was_not_said_by_people_is_in_no_turns_vector(open_memory: Open, reader: Make) -> None:
    """A turn is embedded with the one before it; a long system prompt there would drown it."""
    words = Noting()
    memory = open_memory(reader(), embeddings=words)
    await memory.remember([SystemMessage("SECRET rules."), HumanMessage("Ana owns a boat.")], user_id="ana")
    assert any("Ana owns a boat." in text for text in words.seen)
    assert not any("SECRET" in text for text in words.seen)


async def test_a_message_longer_than_the_embedding_window_is_remembered_all_the_same(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    long = "Ana walked along the river and counted the bridges of Porto. " * 4_000
    memory = open_memory(reader(extract={"memories": []}), embeddings=Noting())
    receipt = await memory.remember(chat_of(f"Ana: {long}", "Ana: Ana owns a boat."), user_id="ana")
    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == [long.strip(), "Ana owns a boat."]
    assert receipt.turns_stored == 2
    assert await memory.search("What does Ana own?", user_id="ana")


async def test_a_conversation_of_nothing_readable_costs_no_call(open_memory: Open) -> None:
    model = ScriptedChatModel(script={})
    receipt = await open_memory(model).remember([SystemMessage("rules"), HumanMessage("…")], user_id="ana")
    assert (receipt.turns_stored, receipt.memories_made, model.prompts) == (2, 0, [])


async def test_messages_of_every_kind_are_read_or_counted(open_memory: Open, reader: Make) -> None:
    model = reader()
    call: Any = {"name": "weather", "args": {"city": "Porto"}, "id": "call-1"}
    messages = [
        HumanMessage([{"type": "text", "text": "Ana sent a photo."}, {"type": "image_url", "image_url": {"url": "x"}}]),
        AIMessage("", tool_calls=[call]),
        ToolMessage("sunny", tool_call_id="call-1"),
        HumanMessage("Ana \ud83d likes <|endoftext|> tea."),
    ]
    receipt = await open_memory(model).remember(messages, user_id="ana")
    assert receipt.turns_pending == 0
    assert receipt.turns_stored == 4
    assert "<|endoftext|>" not in shown(model)
    assert "weather" in shown(model)


@pytest.mark.parametrize("user_id", ["ana@example.com", "a.b.c", "用户", " 7 ", "x" * 300])
async def test_any_id_that_is_not_blank_is_a_user(open_memory: Open, reader: Make, chat_of: Make, user_id: str) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana owns a boat."), user_id=user_id)
    assert len(await memory.memories(user_id=user_id)) == 1


async def test_bad_input_is_refused_before_anything_is_stored(open_memory: Open, shared_store: Path) -> None:
    memory = open_memory()
    for messages, user_id, error in (
        ([], "ana", EmptyConversation),
        ([HumanMessage("")], "ana", EmptyConversation),
        ([HumanMessage("hi")], " ", InvalidUser),
    ):
        with pytest.raises(error):
            await memory.remember(messages, user_id=user_id)
    assert await memory.memories(user_id="ana", states=()) == []
    assert shared_store.exists()


async def test_users_do_not_see_each_other(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader())
    for user in ("ana", "bea"):
        await memory.remember(chat_of("Ana: Ana lives in Berlin.", f"Ana: Ana owns {user}."), user_id=user)
    assert [one.text for one in await everything(memory, "bea")] == ["Ana lives in Berlin.", "Ana owns bea."]
    assert all(one.user_id == "ana" and not one.links for one in await everything(memory, "ana"))
    assert [item.text for item in await memory.search("Who owns bea?", user_id="ana")].count("Ana owns bea.") == 0
    assert await memory.memories(user_id="an") == []


async def test_turns_stay_in_order_however_they_are_sent(open_memory: Open, reader: Make, chat_of: Make) -> None:
    """Once the whole conversation, once only what is new, and with a turn gone in between."""
    memory = open_memory(reader())
    messages = chat_of("Ana: one", "Ana: two", "Ana: three", "Ana: four", "Ana: five")
    for given in (messages[:2], messages[:3], messages[3:4]):
        await memory.remember(given, user_id="ana")
    first = (await memory.resources.store.turns("ana"))[0]
    await memory.forget(user_id="ana", turn_id=first.id)
    await memory.remember(messages[4:], user_id="ana")
    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == ["two", "three", "four", "five"]
    assert len({turn.position for turn in turns}) == len(turns)


# Failures


async def test_a_failed_extraction_leaves_its_turns_pending_and_the_next_one_resumes(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    messages = chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.", "Ana: Ana owns a boat.")
    down = reader(extract=ConnectionError("refused"))
    memory = open_memory(down)
    receipt = await memory.remember(messages, user_id="ana")
    assert (receipt.turns_stored, receipt.turns_pending, receipt.memories_made) == (3, 3, 0)
    assert "refused" in receipt.failures[0]
    assert await states(memory) == ["pending"] * 3
    assert len(await memory.search("Where does Ana live?", user_id="ana")) > 0, "raw turns are found all the same"

    receipt = await open_memory(reader()).remember(messages, user_id="ana")
    assert (receipt.turns_known, receipt.turns_pending, receipt.memories_made, receipt.failures) == (3, 0, 3, ())
    assert [one.state for one in await everything(memory)] == ["superseded", "active", "active"]


async def test_one_failed_window_does_not_hold_up_the_others(open_memory: Open, reader: Make, chat_of: Make) -> None:
    from_words = reader().script["extract"]

    def flaky(prompt: str) -> Any:
        return "{" if "BROKEN" in prompt.partition("<conversation>")[2] else from_words(prompt)

    messages = chat_of("Ana: Ana lives in Berlin.", "Ana: BROKEN", "Ana: Ana owns a boat.")
    memory = open_memory(reader(extract=flaky, repair="{"), window_turns=1)
    receipt = await memory.remember(messages, user_id="ana")
    assert await states(memory) == ["read", "pending", "read"]
    assert [one.text for one in await everything(memory)] == ["Ana lives in Berlin.", "Ana owns a boat."]
    assert (receipt.turns_pending, len(receipt.failures)) == (1, 1)


@pytest.mark.parametrize("batch_windows", [1, 8])
async def test_a_long_turn_of_which_a_part_failed_stays_pending(
    open_memory: Open, reader: Make, chat_of: Make, batch_windows: int
) -> None:
    """Its parts are windows of their own; a later one fails."""
    from_words = reader().script["extract"]

    def flaky(prompt: str) -> Any:
        if "BROKEN" in prompt.partition("<conversation>")[2]:
            raise ConnectionError("refused")
        return from_words(prompt)

    text = " ".join(["Ana walked along the river and counted the bridges of Porto."] * 30) + " BROKEN end."
    memory = open_memory(reader(extract=flaky), window_tokens=150, batch_windows=batch_windows)
    receipt = await memory.remember(chat_of(f"Ana: {text}"), user_id="ana")
    assert receipt.failures
    assert (await states(memory), receipt.turns_pending) == (["pending"], 1)


async def test_a_window_that_is_cut_off_is_divided(open_memory: Open, reader: Make, chat_of: Make) -> None:
    from_words = reader().script["extract"]

    def small(prompt: str) -> Any:
        reply = from_words(prompt)
        return reply if len(reply["memories"]) < 3 else '{"memories": [{"turns": [1], "te'

    lines = [f"Ana: Ana owns boat {number}." for number in range(8)]
    memory = open_memory(reader(extract=small, repair='{"memories"'))
    receipt = await memory.remember(chat_of(*lines), user_id="ana")
    assert (receipt.memories_made, receipt.turns_pending) == (8, 0)


async def test_a_model_that_is_down_in_consolidation_leaves_the_turns_pending(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    messages = chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.")
    memory = open_memory(reader(consolidate=ConnectionError("refused")))
    receipt = await memory.remember(messages, user_id="ana")
    assert (receipt.turns_pending, receipt.memories_made) == (2, 0)
    assert "refused" in receipt.failures[0]
    assert (await everything(memory), await states(memory)) == ([], ["pending"] * 2)
    receipt = await open_memory(reader()).remember(messages, user_id="ana")
    assert (receipt.turns_pending, receipt.memories_made, receipt.superseded) == (0, 2, 1)


async def test_unreadable_decisions_leave_memories_independent(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(consolidate="hm", repair="hm"))
    receipt = await memory.remember(chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto."), user_id="ana")
    assert [(one.state, one.links) for one in await everything(memory)] == [("active", ())] * 2
    assert (receipt.rejected, receipt.turns_pending) == ({"unreadable decisions": 1}, 0)


async def test_ids_that_were_not_offered_are_dropped_and_counted(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    bad_memory = {"turns": [99], "quote": "x", "text": "x"}
    bad_decision = {"new": 1, "target": "Q", "same": True, "both": True, "sign": "", "reason": ""}
    bad_relation = {"later": "Q", "earlier": "A", "reason": "", "relation": "same_as"}
    from_words = reader().script["extract"]
    memory = open_memory(
        reader(
            extract=lambda prompt: {"memories": [*from_words(prompt)["memories"], bad_memory]},
            consolidate={"decisions": [bad_decision]},
            evolve={"relations": [bad_relation]},
        )
    )
    receipt = await memory.remember(chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto."), user_id="ana")
    assert sum(receipt.rejected.values()) == 3
    assert [one.state for one in await everything(memory)] == ["active", "active"]


async def test_another_embedding_model_is_refused_and_named(open_memory: Open, reader: Make, chat_of: Make) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana owns a boat."), user_id="ana")

    class Others(WordEmbeddings):
        model_name = "other-words"

    for embeddings, sizes in ((Others(64), ("'words' (64", "'other-words' (64")), (WordEmbeddings(32), ("64", "32"))):
        memory = open_memory(embeddings=embeddings)
        for attempt in (
            memory.remember(chat_of("Ana: more."), user_id="ana"),
            memory.recall("What does Ana own?", user_id="ana"),
        ):
            with pytest.raises(EmbeddingMismatch) as caught:
                await attempt
            assert all(part in str(caught.value) for part in (*sizes, "DUALMEM_EMBEDDING_MODEL"))


# Several at once


async def test_two_at_once_for_one_user_store_everything_once(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(), window_turns=2)
    messages = chat_of(*(f"Ana: Ana owns boat {number}." for number in range(6)))
    receipts = await asyncio.gather(*(memory.remember(messages, user_id="ana") for _ in range(3)))
    assert sum(receipt.turns_stored for receipt in receipts) == 6
    assert sorted(one.text for one in await everything(memory)) == [f"Ana owns boat {number}." for number in range(6)]


async def test_two_conversations_at_once_make_one_chain(
    open_memory: Open, reader: Make, chat_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the same memory in force, and both decide that it changed."""
    both = asyncio.Barrier(2)
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Berlin."), user_id="ana", conversation_id="first")
    find = memory.resources.store.rank_memories

    async def found_together(rankings: Any) -> Any:
        rows = await find(rankings)
        # One at a time is what should be; then nobody else comes.
        with suppress(TimeoutError, asyncio.BrokenBarrierError):
            async with asyncio.timeout(1):
                await both.wait()
        return rows

    monkeypatch.setattr(memory.resources.store, "rank_memories", found_together)
    await asyncio.gather(
        memory.remember(chat_of("Ana: Ana lives in Porto.", start=1), user_id="ana", conversation_id="second"),
        memory.remember(chat_of("Ana: Ana lives in Faro.", start=2), user_id="ana", conversation_id="third"),
    )
    memories = await everything(memory)
    assert [(one.text, one.state) for one in memories] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "superseded"),
        ("Ana lives in Faro.", "active"),
    ]


async def test_many_users_at_once(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader())
    users = [f"user-{number}" for number in range(8)]
    await asyncio.gather(*(memory.remember(chat_of(f"Ana: Ana owns boat {user}."), user_id=user) for user in users))
    for user in users:
        assert [one.text for one in await everything(memory, user)] == [f"Ana owns boat {user}."]


# Order and strategies


async def test_many_windows_and_batches_give_what_one_window_gives(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    cities = ["Berlin", "Porto", "Faro", "Rome", "Oslo"]
    lines = [
        line for city in cities for line in (f"Ana: Ana lives in {city}.", "Bot: ok", f"Ana: Ana owns {city} maps.")
    ]
    seen = []
    for user, options in (("one", {}), ("many", {"window_turns": 2, "batch_windows": 2, "window_overlap": 1})):
        memory = open_memory(reader(), **options)
        await memory.remember(chat_of(*lines), user_id=user)
        seen.append([(one.text, one.state) for one in await everything(memory, user)])
    assert seen[0] == seen[1]
    assert [text for text, state in seen[0] if state == "active" and "lives" in text] == ["Ana lives in Oslo."]


async def test_retirements_are_capped_batch_by_batch(open_memory: Open, reader: Make, chat_of: Make) -> None:
    lines = [f"Ana: Ana lives in {city}." for city in ("Berlin", "Porto", "Faro", "Rome")]
    memory = open_memory(reader(), retirements=1)
    receipt = await memory.remember(chat_of(*lines), user_id="ana")
    assert receipt.superseded == 1
    assert receipt.rejected == {"supersede: more than one batch may retire": 2}
    one_by_one = open_memory(reader(), retirements=1, window_turns=1, batch_windows=1)
    assert (await one_by_one.remember(chat_of(*lines), user_id="bea")).superseded == 3


async def test_an_older_conversation_that_comes_late_does_not_retire_what_is_newer(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto.", start=10), user_id="ana", conversation_id="new")
    await memory.remember(chat_of("Ana: Ana lives in Berlin."), user_id="ana", conversation_id="old")
    assert [(one.text, one.state) for one in await everything(memory)] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "active"),
    ]


async def test_the_review_of_a_batch_sees_what_was_missed(open_memory: Open, reader: Make, chat_of: Make) -> None:
    relation = {"later": "B", "earlier": "A", "reason": "cancelled", "relation": "replaces"}
    memory = open_memory(reader(consolidate={"decisions": []}, evolve={"relations": [relation]}))
    receipt = await memory.remember(
        chat_of("Ana: Ana will fly to Rome.", "Ana: Ana will not fly to Rome."), user_id="ana"
    )
    assert [one.state for one in await everything(memory)] == ["superseded", "active"]
    assert receipt.superseded == 1


async def test_verbatim_makes_a_memory_of_each_turn_without_a_model(open_memory: Open, chat_of: Make) -> None:
    model = ScriptedChatModel(script={})
    memory = open_memory(model, strategy="verbatim")
    receipt = await memory.remember(chat_of("Ana: one thing", "Bot: another"), user_id="ana")
    assert (receipt.memories_made, model.prompts) == (2, [])
    assert [one.text for one in await everything(memory)] == ["one thing", "another"]


@pytest.mark.parametrize(("operation", "active"), [("ADD", 2), ("UPDATE", 1), ("DELETE", 1), ("NOOP", 1)])
async def test_mem0star_reads_round_by_round(
    open_memory: Open, reader: Make, chat_of: Make, operation: str, active: int
) -> None:
    reply = {"new": 1, "target": "none" if operation == "ADD" else "A", "reason": "", "operation": operation}
    model = reader(update={"operations": [reply]})
    memory = open_memory(model, preset="mem0star", similarity=0.5)
    lines = ["Ana: Ana lives in Berlin.", "Bot: ok", "Ana: Ana lives in Porto.", "Bot: nice"]
    receipt = await memory.remember(chat_of(*lines), user_id="ana")
    assert (receipt.turns_pending, receipt.failures) == (0, ())
    assert model.calls("extract") == 2
    memories = await everything(memory)
    assert sum(one.active for one in memories) == active
    assert receipt.memories_made == len(memories)
    second = [messages[-1].text for step, messages in model.prompts if step == "extract"][1]
    assert "Ana lives in Berlin." in second.partition("<conversation>")[0]


async def test_the_graph_takes_options_as_its_context(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(), window_turns=9)
    model = memory.resources.chat_model
    assert isinstance(model, ScriptedChatModel)
    given = {"user_id": "ana", "messages": chat_of("Ana: Ana owns a boat.", "Ana: Ana owns a car.")}
    await memory.ingestion_graph.ainvoke(given, context={"window_turns": 1})
    assert model.calls("extract") == 2


async def test_the_output_is_the_receipt_alone(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader())
    given = {"user_id": "ana", "messages": chat_of("Ana: Ana owns a boat.")}
    assert set(await memory.ingestion_graph.ainvoke(given)) == {"receipt"}
