"""Checking and mending a store, taking it elsewhere, and making it anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.chat import Chat
from dualmem.errors import EmbeddingMismatch, InputError, StoreError
from dualmem.lifecycle import violations
from dualmem.rebuilding import copy_store
from dualmem.records import Link, Memory
from dualmem.stores.commit import Commit
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.payload import MEMORIES, TURNS
from dualmem.stores.store import Store
from dualmem.testing import WordEmbeddings

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Bot: ok", "Ana: Ana lives in Porto.", "Ana: Ana owns a boat.")
NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
async def memory(open_memory: Open, reader: Make, chat_of: Make) -> DualMem:
    """A memory that holds one conversation."""
    made = open_memory(reader())
    await made.remember(chat_of(*LINES), user_id="ana", conversation_id="chat")
    return made


async def held(memory: DualMem, user_id: str = "ana") -> list[tuple[str, str, list[tuple[str, str]]]]:
    memories = await memory.memories(user_id=user_id, states=())
    assert violations(memories) == []
    texts = {one.id: one.text for one in memories}
    return [(one.text, one.state, [(link.relation, texts[link.target]) for link in one.links]) for one in memories]


async def named(memory: DualMem, text: str, user_id: str = "ana") -> Memory:
    return next(one for one in await memory.memories(user_id=user_id, states=()) if text in one.text)


# doctor


async def test_a_store_that_is_whole_is_left_alone(memory: DualMem) -> None:
    (found,) = await memory.doctor(repair=True)
    assert (found.user_id, found.turns, found.memories, found.faults, found.healthy) == ("ana", 4, 3, (), True)


async def test_doctor_finds_and_mends_what_is_broken(memory: DualMem) -> None:
    before = await held(memory)
    store, backend = memory.resources.store, memory.resources.store._backend
    berlin, porto, boat = [await named(memory, text) for text in ("Berlin", "Porto", "boat")]
    stray = Link(relation="contradicts", target=berlin.id, at=NOW)
    await backend.set_payload(MEMORIES, [porto.id], {"links": []})
    await backend.set_payload(MEMORIES, [boat.id], {"links": [stray.model_dump(mode="json")], "state": "superseded"})
    first, second, *_ = await store.turns("ana")
    await backend.set_payload(TURNS, [second.id], {"position": first.position, "indexed": "no"})
    (found,) = await memory.doctor(user_id="ana")
    assert not found.healthy
    complaints = ("no link back", "superseded by nothing", "disagree", "position", "no search finds")
    assert all(any(complaint in fault for fault in found.faults) for complaint in complaints)
    (mended,) = await memory.doctor(user_id="ana", repair=True)
    assert (mended.faults, mended.mended, mended.healthy) == (found.faults, True, True)
    assert (await memory.doctor())[0].faults == ()
    assert [text for text, *_ in await held(memory)] == [text for text, *_ in before]
    assert (await held(memory))[1] == before[1]
    assert [turn.text for turn in await store.turns("ana")] == [
        "Ana lives in Berlin.",
        "ok",
        "Ana lives in Porto.",
        "Ana owns a boat.",
    ]


async def test_doctor_tells_of_memories_without_turns_and_leaves_them(memory: DualMem) -> None:
    boat = await named(memory, "boat")
    await memory.resources.store._backend.delete(TURNS, list(boat.turn_ids))
    (found,) = await memory.doctor(repair=True)
    assert not found.healthy
    assert boat.id in found.faults[0]
    assert await named(memory, "boat") == boat


async def test_doctor_tells_what_is_pending(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(extract=ConnectionError("refused")))
    await memory.remember(chat_of(*LINES), user_id="ana")
    (found,) = await memory.doctor()
    assert (found.pending, found.healthy) == (4, True)


async def test_doctor_makes_no_store(tmp_path: Path) -> None:
    async with DualMem(store=str(tmp_path / "store"), embeddings=WordEmbeddings()) as memory:
        assert await memory.doctor(repair=True) == []
    assert list(tmp_path.iterdir()) == []


# resume, reextract


async def test_what_is_pending_is_taken_up_without_the_messages(open_memory: Open, reader: Make, chat_of: Make) -> None:
    down = open_memory(reader(extract=ConnectionError("refused")))
    for conversation in ("one", "two"):
        await down.remember(chat_of(*LINES), user_id="ana", conversation_id=conversation)
    memory = open_memory(reader())
    receipts = await memory.resume(user_id="ana")
    assert [(one.conversation_id, one.turns_pending, one.memories_made) for one in receipts] == [
        ("one", 0, 3),
        ("two", 0, 3),
    ]
    assert await memory.resume(user_id="ana") == []
    assert await memory.resume(user_id="nobody") == []


async def test_raw_turns_are_read_again(memory: DualMem, open_memory: Open, reader: Make, chat_of: Make) -> None:
    await memory.remember(chat_of("Ana: Ana lives in Faro.", start=9), user_id="ana", conversation_id="other")
    before = await held(memory)
    better = open_memory(reader())
    receipts = await better.reextract(user_id="ana")
    assert [one.memories_made for one in receipts] == [3, 1]
    assert await held(better) == before

    def shouting(prompt: str) -> Any:
        reply = reader().script["extract"](prompt)
        return {"memories": [{**one, "text": one["text"].replace("boat", "BOAT")} for one in reply["memories"]]}

    (receipt,) = await open_memory(reader(extract=shouting)).reextract(user_id="ana", conversation_id="chat")
    assert receipt.memories_made == 3
    after = await held(memory)
    assert [text for text, state, _ in after if state == "active"] == ["Ana owns a BOAT.", "Ana lives in Faro."]


async def test_reextraction_with_a_model_that_is_down_leaves_the_turns_pending(
    memory: DualMem, open_memory: Open, reader: Make
) -> None:
    before = await held(memory)
    (receipt,) = await open_memory(reader(extract=ConnectionError("refused"))).reextract(user_id="ana")
    assert (receipt.turns_pending, "refused" in receipt.failures[0]) == (4, True)
    await open_memory(reader()).resume(user_id="ana")
    assert await held(memory) == before


async def test_what_is_known_stays_until_something_new_comes(
    memory: DualMem, open_memory: Open, reader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await held(memory)
    seen: list[list[str]] = []
    asked = Chat.ask

    async def ask(chat: Chat, *given: Any, **options: Any) -> Any:
        seen.append([text for text, _, _ in await held(memory)])
        return await asked(chat, *given, **options)

    monkeypatch.setattr(Chat, "ask", ask)
    await open_memory(reader(), window_turns=1, batch_windows=1).reextract(user_id="ana")
    assert len(seen) > 3
    assert {tuple(texts) for texts in seen} == {tuple(text for text, _, _ in before)}
    assert await held(memory) == before
    assert await memory.resources.store.outdated("ana") == ()


@pytest.mark.parametrize(("lasting", "new"), [(1, 0), (2, 1), (4, 2)])
async def test_a_reextraction_that_ends_in_between_leaves_what_is_old_or_what_is_new(
    memory: DualMem, open_memory: Open, reader: Make, monkeypatch: pytest.MonkeyPatch, lasting: int, new: int
) -> None:
    before, commits = await held(memory), 0

    def shouting(prompt: str) -> Any:
        reply = reader().script["extract"](prompt)
        return {"memories": [{**one, "text": one["text"].replace("Ana", "ANA")} for one in reply["memories"]]}

    async def commit(store: Store, changes: Commit) -> None:
        nonlocal commits
        commits += 1
        if commits > lasting:
            message = "killed"
            raise StoreError(message)
        await written(store, changes)

    written = Store.commit
    monkeypatch.setattr(Store, "commit", commit)
    better = open_memory(reader(extract=shouting), window_turns=1, batch_windows=1)
    with pytest.raises(StoreError, match="killed"):
        await better.reextract(user_id="ana")
    monkeypatch.undo()
    between = await held(memory)
    assert sorted(text.lower() for text, _, _ in between) == sorted(text.lower() for text, _, _ in before)
    assert sum("ANA" in text for text, _, _ in between) == new
    await better.resume(user_id="ana")
    after = await held(memory)
    assert all("ANA" in text for text, _, _ in after)
    assert [(text.lower(), state) for text, state, _ in after] == [(text.lower(), state) for text, state, _ in before]
    (found,) = await memory.doctor()
    assert found.healthy


async def test_what_turns_of_another_conversation_said_takes_its_place_again(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Berlin."), user_id="ana", conversation_id="one")
    await memory.remember(chat_of("Ana: Ana lives in Porto.", start=3), user_id="ana", conversation_id="two")
    before = await memory.memories(user_id="ana", states=())
    (receipt,) = await memory.reextract(user_id="ana", conversation_id="two")
    assert (receipt.memories_made, receipt.superseded) == (1, 1)
    after = await memory.memories(user_id="ana", states=())
    assert [(one.text, one.state) for one in after] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "active"),
    ]
    assert [[link.target for link in one.links] for one in after] == [
        [link.target for link in one.links] for one in before
    ]


async def test_what_was_written_for_two_is_written_again(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(), merge="compact")
    for number, conversation in enumerate(("one", "two")):
        lines = chat_of("Ana: Ana owns a boat.", start=number)
        await memory.remember(lines, user_id="ana", conversation_id=conversation)
    before = await held(memory)
    assert sorted(state for _, state, _ in before) == ["active", "merged", "merged"]
    await memory.reextract(user_id="ana", conversation_id="two")
    assert await held(memory) == before


async def test_turns_that_are_read_again_are_not_taken_for_known(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    model = reader(consolidate={"operations": []})
    memory = open_memory(model, preset="mem0star")
    await memory.remember(chat_of("Ana: Ana lives in Berlin."), user_id="ana", conversation_id="chat")
    await memory.reextract(user_id="ana")
    first, again = [messages[-1].text for step, messages in model.prompts if step == "extract"]
    assert "Ana lives in Berlin" in first
    assert again == first


# export, import


async def lines_of(memory: DualMem, user_id: str = "ana") -> list[str]:
    return [line async for line in memory.export(user_id=user_id)]


async def test_an_export_brings_everything_back(
    memory: DualMem, open_memory: Open, reader: Make, tmp_path: Path, chat_of: Make
) -> None:
    before, turns = await held(memory), await memory.resources.store.turns("ana")
    memories = await memory.memories(user_id="ana", states=())
    lines = await lines_of(memory)
    assert [json.loads(line)["type"] for line in lines] == ["dualmem-export", *["turn"] * 4, *["memory"] * 3]
    other = open_memory(reader(), store=str(tmp_path / "other"))
    receipt = await other.load(lines)
    assert (receipt.turns_stored, receipt.memories_stored, receipt.links_mended) == (4, 3, 0)
    assert await held(other) == before
    assert await other.memories(user_id="ana", states=()) == memories
    assert await other.resources.store.turns("ana") == turns
    assert [item.text for item in await other.search("Where does Ana live?", user_id="ana")] == [
        item.text for item in await memory.search("Where does Ana live?", user_id="ana")
    ]
    told = await other.remember(chat_of(*LINES), user_id="ana", conversation_id="chat")
    assert (told.turns_known, told.turns_stored) == (4, 0)
    again = await other.load(lines)
    assert (again.turns_stored, again.turns_known, again.memories_stored, again.memories_known) == (0, 4, 0, 3)
    assert await held(other) == before


async def test_an_export_can_be_given_to_another_user(memory: DualMem) -> None:
    before = await held(memory)
    receipt = await memory.load(await lines_of(memory), user_id="bea")
    assert (receipt.user_id, receipt.turns_stored, receipt.memories_stored) == ("bea", 4, 3)
    assert await held(memory, "bea") == await held(memory) == before
    (boat,) = [one for one in await memory.memories(user_id="bea") if "boat" in one.text]
    assert [turn.text for turn in await memory.sources(boat)] == ["Ana owns a boat."]
    await memory.forget(user_id="bea", everything=True)
    assert await held(memory) == before


async def test_an_import_joins_what_has_gone_on_since(
    memory: DualMem, open_memory: Open, reader: Make, chat_of: Make
) -> None:
    """The store was put back to an older state: what is there stays, and what came after it is linked to it."""
    whole = await lines_of(memory)
    await memory.forget(user_id="ana", memory_id=(await named(memory, "Porto")).id)
    receipt = await memory.load(whole)
    assert (receipt.memories_stored, receipt.memories_known) == (1, 2)
    assert [(text, state) for text, state, _ in await held(memory)] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "active"),
        ("Ana owns a boat.", "active"),
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda _: [], "nothing in the export"),
        (lambda lines: lines[1:], "line 1"),
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: [*lines[:2], "{", *lines[3:]], "line 3 is no JSON"),
        (lambda lines: [*lines[:2], "[1]", *lines[3:]], "line 3"),
        (lambda lines: [*lines[:2], '{"type": "turn", "id": 7}', *lines[3:]], "line 3"),
        (lambda lines: [*lines[:2], '{"type": "song"}', *lines[3:]], "song"),
        (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "line 1"),
    ],
)
async def test_what_is_no_whole_export_is_refused_and_nothing_is_written(
    memory: DualMem, change: Callable[[list[str]], list[str]], complaint: str
) -> None:
    lines = change(await lines_of(memory))
    await memory.forget(user_id="ana", everything=True)
    with pytest.raises(InputError, match=complaint):
        await memory.load(lines)
    assert await memory.resources.store.count("ana") == (0, 0)


async def test_what_was_forgotten_is_in_no_export_and_no_cache(memory: DualMem) -> None:
    await memory.forget(user_id="ana", memory_id=(await named(memory, "boat")).id)
    await memory.forget(user_id="ana", turn_id=(await named(memory, "Porto")).turn_ids[0])
    left = "\n".join(await lines_of(memory))
    assert "Porto" not in left
    assert not [key for key in memory.resources.embedder._cache if "Porto" in str(key)]
    backend = memory.resources.store._backend
    for collection in (TURNS, MEMORIES, "control"):
        from dualmem.stores.backend import Filter

        assert "Porto" not in str(await backend.scroll(collection, Filter()))


# Another embedding model


class Other(WordEmbeddings):
    """A model of another name and size."""

    model_name = "other-words"

    def __init__(self, *, fail_after: int = 10_000) -> None:
        super().__init__(32)
        self.left = fail_after

    def embed_documents(self, texts: Any) -> list[list[float]]:
        self.left -= len(texts)
        if self.left < 0:
            raise ConnectionError("refused")
        return super().embed_documents(texts)


def store_at(path: Path, embeddings: WordEmbeddings | None) -> Store:
    from dualmem.embedding import Embedder

    if embeddings is None:
        return Store(EdgeBackend(path), None)
    known = Embedder(embeddings, name=embeddings.model_name, dimension=embeddings.dimension)
    return Store(EdgeBackend(path), known)


async def test_a_store_is_made_anew_with_another_model(memory: DualMem, shared_store: Path, tmp_path: Path) -> None:
    before = await held(memory)
    target = tmp_path / "new"
    new = store_at(target, Other())
    receipt = await copy_store(store_at(shared_store, None), new)
    assert (receipt.users, receipt.turns, receipt.memories, receipt.known) == (1, 4, 3, 0)
    await new.close()
    async with DualMem(store=str(target), embeddings=Other()) as copy:
        assert await held(copy) == before
        assert (await copy.search("Where does Ana live?", user_id="ana"))[0].text.startswith("Ana lives")
        assert (await copy.doctor())[0].faults == ()
    async with DualMem(store=str(target), embeddings=WordEmbeddings()) as wrong:
        with pytest.raises(EmbeddingMismatch, match="dualmem reembed"):
            await wrong.search("Where?", user_id="ana")


async def test_copying_goes_on_where_it_was(memory: DualMem, shared_store: Path, tmp_path: Path, chat_of: Make) -> None:
    await memory.remember(chat_of(*LINES), user_id="bea", conversation_id="chat")
    source, target = store_at(shared_store, None), tmp_path / "new"
    for allowed in (2, 4, 5):
        new = store_at(target, Other(fail_after=allowed))
        with pytest.raises(Exception, match="refused"):
            await copy_store(source, new)
        await new.close()
    new = store_at(target, Other())
    receipt = await copy_store(source, new)
    assert receipt.known > 0
    assert receipt.known + receipt.turns + receipt.memories == 14
    await new.close()
    async with DualMem(store=str(target), embeddings=Other()) as copy:
        assert await held(copy) == await held(memory)
        assert await held(copy, "bea") == await held(memory, "bea")
        assert [one.faults for one in await copy.doctor()] == [(), ()]


async def test_no_store_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        await copy_store(store_at(tmp_path / "none", None), store_at(tmp_path / "new", Other()))
    assert list(tmp_path.iterdir()) == []
