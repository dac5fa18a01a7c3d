"""The memory of one application: what its methods give, beside what the graphs' tests show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem, load_settings
from dualmem.errors import ConfigurationError, InputError, InvalidUser, ModelNotConfigured, NotFound
from dualmem.lifecycle import violations
from dualmem.loaders import load_file
from dualmem.records import Memory
from dualmem.testing import ScriptedChatModel, WordEmbeddings

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Bot: ok", "Ana: Ana lives in Porto.", "Ana: Ana owns a boat.")


@pytest.fixture
async def memory(open_memory: Open, reader: Make, chat_of: Make) -> DualMem:
    """A memory that holds one conversation."""
    made = open_memory(reader())
    await made.remember(chat_of(*LINES), user_id="ana", conversation_id="chat")
    return made


async def held(memory: DualMem, user_id: str = "ana") -> list[tuple[str, str]]:
    memories = await memory.memories(user_id=user_id, states=())
    assert violations(memories) == []
    return [(one.text, one.state) for one in memories]


async def named(memory: DualMem, text: str) -> Memory:
    return next(one for one in await memory.memories(user_id="ana", states=()) if text in one.text)


# Settings


def test_settings_can_be_given_whole_or_one_by_one() -> None:
    assert DualMem(gate="never", store="here").settings.gate == "never"
    settings = load_settings(gate="always", top_k=7)
    assert (DualMem(settings, gate="never").settings.gate, DualMem(settings, gate="never").settings.top_k) == (
        "never",
        7,
    )
    with pytest.raises(ConfigurationError, match="'gaet'"):
        DualMem(gaet="never")


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    async with DualMem(store=str(tmp_path / "store")) as memory:
        assert await memory.memories(user_id="ana") == []
    assert list(tmp_path.iterdir()) == []


async def test_without_a_model_remembering_says_how_to_set_one(tmp_path: Path) -> None:
    async with DualMem(store=str(tmp_path / "store")) as memory:
        with pytest.raises(ModelNotConfigured, match="three ways"):
            await memory.remember([("user", "hi")], user_id="ana")
    assert list(tmp_path.iterdir()) == []


async def test_what_is_closed_opens_again(memory: DualMem) -> None:
    await memory.close()
    await memory.close()
    assert len(await memory.memories(user_id="ana")) == 2


def test_a_memory_serves_several_event_loops(open_memory: Open, reader: Make, chat_of: Make, tmp_path: Path) -> None:
    memory = DualMem(chat_model=reader(), embeddings=WordEmbeddings(), store=":memory:")

    async def remember(line: str, start: int) -> None:
        await memory.remember(chat_of(line, start=start), user_id="ana", conversation_id=str(start))

    asyncio.run(remember("Ana: Ana lives in Berlin.", 0))
    asyncio.run(remember("Ana: Ana lives in Porto.", 1))

    async def look() -> list[tuple[str, str]]:
        found = await held(memory)
        await memory.close()
        return found

    assert asyncio.run(look()) == [("Ana lives in Berlin.", "superseded"), ("Ana lives in Porto.", "active")]


# Reading


async def test_memories_are_found_by_state(memory: DualMem) -> None:
    assert [one.text for one in await memory.memories(user_id="ana")] == ["Ana lives in Porto.", "Ana owns a boat."]
    assert [one.text for one in await memory.memories(user_id="ana", states=("superseded",))] == [
        "Ana lives in Berlin."
    ]
    assert len(await memory.memories(user_id="ana", states=())) == 3


async def test_a_memory_is_found_by_its_id_or_the_start_of_it(memory: DualMem) -> None:
    boat = await named(memory, "boat")
    for identifier in (boat.id, boat.id[:9]):
        assert await memory.memory(identifier, user_id="ana") == boat
    for identifier, user in ((boat.id, "bea"), ("", "ana"), ("nothing", "ana"), ("z" * 36, "ana")):
        with pytest.raises(NotFound):
            await memory.memory(identifier, user_id=user)


async def test_the_history_and_the_sources_of_a_memory(memory: DualMem) -> None:
    berlin, porto, boat = [await named(memory, text) for text in ("Berlin", "Porto", "boat")]
    for one in (berlin, porto):
        assert [state.id for state in await memory.history(one.id, user_id="ana")] == [berlin.id, porto.id]
    assert await memory.history(boat.id, user_id="ana") == [boat]
    assert [turn.text for turn in await memory.sources(boat)] == ["Ana owns a boat."]


async def test_search_finds_evidence_without_a_chat_model(memory: DualMem) -> None:
    model = memory.resources.chat_model
    assert isinstance(model, ScriptedChatModel)
    before = len(model.prompts)
    items = await memory.search("Where does Ana live?", user_id="ana")
    assert [(item.text, item.status) for item in items[:2]] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "current"),
    ]
    alone = await memory.search("Where does Ana live?", user_id="ana", expand_lifecycle=False)
    assert "Ana lives in Berlin." not in [item.text for item in alone if item.memory_id]
    assert len(model.prompts) == before


async def test_context_is_text_for_a_prompt(memory: DualMem) -> None:
    text = await memory.context("Where does Ana live?", user_id="ana")
    assert text.startswith("<memories>\n[M1] Ana lives in Berlin. (earlier, no longer so;")
    assert text.endswith("\n</memories>")
    assert await memory.context("Where does Ana live?", user_id="bea") == ""


async def test_context_leaves_dates_out_where_they_are_off(memory: DualMem) -> None:
    text = await memory.context("Where does Ana live?", user_id="ana", temporal=False)
    assert "2024" not in text


async def test_evidence_fits_its_budget(memory: DualMem) -> None:
    items = await memory.search("Where does Ana live?", user_id="ana", context_tokens=64)
    assert 0 < len(items) < len(await memory.search("Where does Ana live?", user_id="ana"))


# Forgetting


async def test_forgetting_a_memory_restores_what_it_replaced(memory: DualMem) -> None:
    receipt = await memory.forget(user_id="ana", memory_id=(await named(memory, "Porto")).id)
    assert (receipt.memories, receipt.restored, receipt.turns) == (1, 1, 0)
    assert await held(memory) == [("Ana lives in Berlin.", "active"), ("Ana owns a boat.", "active")]


async def test_forgetting_a_turn_takes_what_came_from_it_alone(memory: DualMem) -> None:
    porto = await named(memory, "Porto")
    receipt = await memory.forget(user_id="ana", turn_id=porto.turn_ids[0])
    assert (receipt.turns, receipt.memories, receipt.restored) == (1, 1, 1)
    assert await held(memory) == [("Ana lives in Berlin.", "active"), ("Ana owns a boat.", "active")]
    assert "Porto" not in await memory.context("Does Ana live in Porto?", user_id="ana")
    assert not [item for item in await memory.search("Porto", user_id="ana") if "Porto" in item.text]


async def test_a_memory_of_several_turns_loses_only_a_source(open_memory: Open, reader: Make, chat_of: Make) -> None:
    both = {"turns": [1, 2], "quote": "Ana lives", "text": "Ana lives in Porto.", "subject": "Ana"}
    memory = open_memory(reader(extract={"memories": [both]}))
    await memory.remember(chat_of("Ana: Ana lives", "Ana: in Porto."), user_id="ana")
    first, second = await memory.resources.store.turns("ana")
    receipt = await memory.forget(user_id="ana", turn_id=second.id)
    assert (receipt.turns, receipt.memories, receipt.sources) == (1, 0, 1)
    (left,) = await memory.memories(user_id="ana")
    assert left.turn_ids == (first.id,)


async def test_forgetting_by_time_and_by_conversation(memory: DualMem, chat_of: Make) -> None:
    await memory.remember(chat_of("Ana: Ana owns a car.", start=9), user_id="ana", conversation_id="other")
    receipt = await memory.forget(
        user_id="ana", since=datetime(2024, 3, 3, tzinfo=UTC), until=datetime(2024, 3, 5, tzinfo=UTC)
    )
    assert (receipt.turns, receipt.memories, receipt.restored) == (2, 2, 1)
    assert await held(memory) == [("Ana lives in Berlin.", "active"), ("Ana owns a car.", "active")]
    receipt = await memory.forget(user_id="ana", conversation_id="chat")
    assert (receipt.turns, receipt.memories) == (2, 1)
    assert await held(memory) == [("Ana owns a car.", "active")]


async def test_forgetting_everything_of_one_user_leaves_the_others(memory: DualMem, chat_of: Make) -> None:
    await memory.remember(chat_of(*LINES), user_id="bea")
    before = await held(memory, "bea")
    receipt = await memory.forget(user_id="ana", everything=True)
    assert (receipt.turns, receipt.memories) == (4, 3)
    assert (await held(memory, "ana"), await held(memory, "bea")) == ([], before)
    assert await memory.resources.store.users() == {"bea": 4}
    assert (await memory.recall("Where does Ana live?", user_id="ana")).outcome == "nothing_stored"


async def test_what_was_forgotten_can_be_told_again(memory: DualMem, chat_of: Make) -> None:
    before = await held(memory)
    await memory.forget(user_id="ana", everything=True)
    await memory.remember(chat_of(*LINES), user_id="ana", conversation_id="chat")
    assert await held(memory) == before


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        ({}, InputError),
        ({"everything": True, "conversation_id": "chat"}, InputError),
        ({"memory_id": "nothing"}, NotFound),
        ({"turn_id": "nothing"}, NotFound),
        ({"user_id": " ", "everything": True}, InvalidUser),
    ],
)
async def test_forgetting_needs_one_thing_that_exists(
    memory: DualMem, selection: dict[str, Any], error: type[Exception]
) -> None:
    before = await held(memory)
    with pytest.raises(error):
        await memory.forget(**{"user_id": "ana", **selection})
    assert await held(memory) == before


async def test_a_memory_of_another_user_cannot_be_forgotten(memory: DualMem) -> None:
    boat = await named(memory, "boat")
    for selection in ({"memory_id": boat.id}, {"turn_id": boat.turn_ids[0]}):
        with pytest.raises(NotFound):
            await memory.forget(user_id="bea", **selection)  # type: ignore[arg-type] # selections of many types
    assert len(await held(memory)) == 3


async def test_forgetting_in_an_empty_store_makes_none(tmp_path: Path) -> None:
    async with DualMem(store=str(tmp_path / "store"), embeddings=WordEmbeddings()) as memory:
        receipt = await memory.forget(user_id="ana", everything=True)
    assert (receipt.turns, receipt.memories) == (0, 0)
    assert list(tmp_path.iterdir()) == []


# From a file


async def test_a_transcript_from_a_file_is_remembered(open_memory: Open, reader: Make, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user", "content": "Ana owns a boat."}]', encoding="utf-8")
    (transcript,) = load_file(path)
    memory = open_memory(reader())
    receipt = await memory.remember(transcript, user_id="ana")
    assert (receipt.conversation_id, receipt.memories_made) == ("chat", 1)


async def test_models_can_be_given_by_their_names() -> None:
    memory = DualMem(chat_model="openai:small", embeddings="local", store=":memory:")
    assert (memory.settings.chat_model, memory.settings.embedding_model) == ("openai:small", "local")
    assert (memory.resources.chat_model, memory.resources.embeddings) == (None, None)
    with pytest.raises(ModelNotConfigured, match="OPENAI_API_KEY"):
        await memory.resources.chat(memory.settings).load()
