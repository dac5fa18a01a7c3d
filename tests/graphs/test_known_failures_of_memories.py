"""Kinds of faults that other memory systems had while remembering, each from outside; more stand beside what they concern."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.embedding import SHORT
from dualmem.errors import ModelUnavailable
from dualmem.lifecycle import violations
from dualmem.records import Memory
from dualmem.retrieval.text import count_tokens
from dualmem.stores import edge_shard
from dualmem.stores.backend import Filter
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS
from dualmem.testing import ScriptedChatModel, WordEmbeddings

Open = Callable[..., DualMem]
Make = Callable[..., Any]


async def remembered(memory: DualMem, user_id: str = "ana") -> list[Memory]:
    memories = await memory.memories(user_id=user_id, states=())
    assert violations(memories) == []
    return memories


async def test_the_assistants_suggestion_is_not_what_the_user_did(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    """The model claims that the user said it; the turn it quotes decides."""
    claim = {"turns": [1], "quote": "buy a red bicycle", "text": "Ana bought a red bicycle.", "subject": "Ana"}
    memory = open_memory(reader(extract={"memories": [claim]}))
    await memory.remember(chat_of("Ana: What should I do?", "Bot: You could buy a red bicycle."), user_id="ana")
    (found,) = await remembered(memory)
    assert found.speaker == "Bot"
    assert [turn.text for turn in await memory.sources(found)] == ["You could buy a red bicycle."]


@pytest.mark.parametrize(
    ("said", "question", "word"),
    [
        ("我在里斯本的面包店工作。", "里斯本", "里斯本"),
        ("أعيش في لشبونة منذ عام.", "لشبونة", "لشبونة"),
        ("Ich wohne in der Nähe von Lübeck.", "Lübeck", "Lübeck"),
    ],
)
async def test_the_language_of_a_conversation_is_kept_and_found(
    open_memory: Open, chat_of: Make, said: str, question: str, word: str
) -> None:
    model = ScriptedChatModel(script={"extract": {"memories": [{"turns": [1], "quote": said, "text": said}]}})
    memory = open_memory(model)
    await memory.remember(chat_of(f"Ana: {said}", "Bot: ok", "Ana: …"), user_id="ana")
    assert said in model.prompts[0][1][-1].text, "as it was written, not escaped"
    assert [one.text for one in await remembered(memory)] == [said]
    items = await memory.search(question, user_id="ana", rankings=("keyword",))
    assert [item.text for item in items] == [said], f"{word} is found by its word"


async def test_old_conversations_are_dated_by_their_own_time(open_memory: Open) -> None:
    """Replayed today, "yesterday" is the day before it was said; without a time it is no day at all."""
    text = "I moved to Porto yesterday."
    draft = {"turns": [1], "quote": text, "text": "Ana moved to Porto.", "kind": "event", "when": "yesterday"}
    for time, start in (("2019-05-08T13:00:00+00:00", datetime(2019, 5, 7, tzinfo=UTC)), (None, None)):
        memory = open_memory(ScriptedChatModel(script={"extract": {"memories": [draft]}}))
        user = str(time)
        await memory.remember([{"role": "user", "content": text, "timestamp": time}], user_id=user)
        (found,) = await remembered(memory, user)
        assert (found.valid.start if found.valid else None) == start


@pytest.mark.parametrize(
    "text", ["The server listens on port 9077.", "Dinosaurs died 66,000,000 years ago.", "Room 2024b"]
)
async def test_a_number_that_is_no_date_is_no_date(open_memory: Open, text: str) -> None:
    memory = open_memory(ScriptedChatModel(script={}), strategy="verbatim")
    await memory.remember([{"role": "user", "content": text, "timestamp": "2024-05-08T13:00:00Z"}], user_id="ana")
    (found,) = await remembered(memory)
    assert found.valid is None


async def test_times_with_and_without_a_zone_stand_side_by_side(open_memory: Open, reader: Make) -> None:
    messages = [
        {"role": "user", "name": "Ana", "content": "Ana lives in Berlin.", "timestamp": "2024-05-08T13:00:00"},
        {"role": "user", "name": "Ana", "content": "Ana lives in Porto.", "timestamp": "2024-05-08T13:00:00-05:00"},
        {"role": "user", "name": "Ana", "content": "Ana lives in Faro."},
    ]
    memory = open_memory(reader())
    receipt = await memory.remember(messages, user_id="ana")
    assert (receipt.memories_made, receipt.failures) == (3, ())
    assert all(turn.said_at is None or turn.said_at.tzinfo for turn in await memory.resources.store.turns("ana"))
    assert [one.text for one in await remembered(memory) if one.active] == ["Ana lives in Faro."]


async def test_metadata_named_like_a_scope_field_changes_no_scope(open_memory: Open, reader: Make) -> None:
    message = {
        "role": "user",
        "name": "Ana",
        "content": "Ana owns a boat.",
        "user_id": "eve",
        "conversation_id": "other",
        "metadata": {"user_id": "eve", "state": "superseded"},
        "additional_kwargs": {"user_id": "eve"},
    }
    memory = open_memory(reader())
    await memory.remember([message], user_id="ana", conversation_id="chat")
    (found,) = await remembered(memory)
    assert (found.user_id, found.conversation_id, found.state) == ("ana", "chat", "active")
    assert await remembered(memory, "eve") == []
    assert await memory.resources.store.users() == {"ana": 1}


async def test_erasing_a_user_reads_to_the_last_page_and_no_other_user(
    open_memory: Open, chat_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_shard, "PAGE", 3)
    monkeypatch.setattr(edge_shard, "BATCH", 2)
    memory = open_memory(ScriptedChatModel(script={}), strategy="verbatim")
    for user in ("ana", "ana2", "an"):
        await memory.remember(chat_of(*(f"Ana: Ana owns boat {number}." for number in range(8))), user_id=user)
    receipt = await memory.forget(user_id="ana", everything=True)
    assert (receipt.turns, receipt.memories) == (8, 8)
    backend = memory.resources.store._backend
    for collection in (TURNS, MEMORIES, CONTROL):
        owners = {payload.get("user_id") for _, payload in await backend.scroll(collection, Filter())}
        assert "ana" not in owners
    assert [len(await remembered(memory, user)) for user in ("ana", "ana2", "an")] == [0, 8, 8]


async def test_what_contradicts_is_written_before_what_it_retires_is_touched(
    open_memory: Open, reader: Make, chat_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Berlin."), user_id="ana")
    store = memory.resources.store
    seen: list[list[tuple[str, str]]] = []
    set_payload = store._backend.set_payload

    async def watched(collection: str, ids: Any, payload: Any) -> None:
        if collection == MEMORIES and ids:
            seen.append([(one.text, one.state) for one in await memory.memories(user_id="ana", states=())])
        await set_payload(collection, ids, payload)

    monkeypatch.setattr(store._backend, "set_payload", watched)
    await memory.remember(chat_of("Ana: Ana lives in Porto.", start=1), user_id="ana", conversation_id="second")
    assert seen == [[("Ana lives in Berlin.", "active"), ("Ana lives in Porto.", "active")]]
    assert [one.state for one in await remembered(memory)] == ["superseded", "active"]


@pytest.mark.parametrize("reply", ["", "[]", "null", '{"memories": {"type": "array", "items": {"type": "object"}}}'])
async def test_a_reply_that_is_none_is_no_empty_list_of_facts(
    open_memory: Open, reader: Make, chat_of: Make, reply: str
) -> None:
    """Nor is the schema, sent back, a fact."""
    memory = open_memory(reader(extract=reply, repair=reply))
    receipt = await memory.remember(chat_of("Ana: Ana owns a boat."), user_id="ana")
    assert (receipt.memories_made, receipt.turns_pending) == (0, 1)
    assert receipt.failures


async def test_what_is_forgotten_while_a_model_reads_it_is_not_remembered(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    from_words = reader().script["extract"]
    memory = open_memory(reader())

    class Slow(ScriptedChatModel):
        async def _agenerate(self, messages: Any, *given: Any, **more: Any) -> Any:
            if "Write the memories" in messages[-1].text:
                await memory.resources.store.open(create=False)
                turn = next(t for t in await memory.resources.store.turns("ana") if "Porto" in t.text)
                await memory.forget(user_id="ana", turn_id=turn.id)
            return self._generate(messages, *given[:1])

    slow = open_memory(Slow(script={"extract": from_words, "consolidate": {"decisions": []}}), evolution=False)
    receipt = await slow.remember(chat_of("Ana: Ana lives in Porto.", "Ana: Ana owns a boat."), user_id="ana")
    assert [one.text for one in await remembered(memory)] == ["Ana owns a boat."]
    assert receipt.rejected == {"its turns were forgotten meanwhile": 1}
    assert [turn.text for turn in await memory.resources.store.turns("ana")] == ["Ana owns a boat."]


class Narrow(WordEmbeddings):
    """Refuses a batch with a text beyond its window, as servers of small models do."""

    def embed_documents(self, texts: Any) -> list[list[float]]:
        if any(count_tokens(text) > SHORT for text in texts):
            raise ValueError("input (3000 tokens) is too large to process")
        return super().embed_documents(texts)


async def test_a_model_with_a_small_window_gets_the_beginning(open_memory: Open, reader: Make, chat_of: Make) -> None:
    long = "Ana walked along the river and counted the bridges of Porto. " * 200
    memory = open_memory(reader(extract={"memories": []}), embeddings=Narrow())
    receipt = await memory.remember(chat_of(f"Ana: {long}", "Ana: Ana owns a boat."), user_id="ana")
    assert (receipt.turns_stored, receipt.turns_pending) == (2, 0)
    assert (await memory.search("bridges of Porto", user_id="ana"))[0].text == long.strip()


async def test_a_refusal_for_another_reason_is_told_as_it_is(open_memory: Open, reader: Make, chat_of: Make) -> None:
    class Limited(WordEmbeddings):
        calls = 0

        def embed_documents(self, texts: Any) -> list[list[float]]:
            self.calls += 1
            raise ValueError("rate limit exceeded: 3000 tokens per minute")

    limited = Limited()
    with pytest.raises(ModelUnavailable, match="rate limit"):
        await open_memory(reader(), embeddings=limited).remember(chat_of(f"Ana: {'word ' * 4000}"), user_id="ana")
    assert limited.calls == 1
