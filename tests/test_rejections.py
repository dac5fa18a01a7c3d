"""What ingestion refuses is kept to be looked at, once, for as long as nothing it was written from is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem import DualMem
from dualmem.ingestion import rejections as module
from dualmem.ingestion.rejections import MALFORMED, rejection_of, to_keep
from dualmem.rebuilding import copy_store
from dualmem.records import Rejection, Turn
from dualmem.stores.backend import Filter, check_payload
from dualmem.stores.commit import Commit
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS, rejection_payload
from dualmem.stores.store import Store
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Bot: ok", "Ana: Ana owns a boat.", "Ana: hm")
NO_QUOTE = "its quote is not in its source turns"
NOT_SHOWN = "cites a turn that was not shown"


def wrong(*statements: tuple[int, str]) -> Callable[[str], Any]:
    """Reply with some statements whose words nobody said, each citing a turn by its number."""
    memories = [{"turns": [number], "quote": f"so {text}", "text": text} for number, text in statements]
    return lambda _: {"memories": memories}


async def remember(memory: DualMem, chat_of: Make, *lines: str, user: str = "ana", chat: str = "chat") -> Any:
    return await memory.remember(chat_of(*(lines or LINES)), user_id=user, conversation_id=chat)


async def texts(memory: DualMem, user: str = "ana", chat: str | None = None) -> list[str]:
    return sorted(one.text for one in await memory.rejections(user_id=user, conversation_id=chat))


async def everything_kept(memory: DualMem) -> str:
    """Return all payloads of all collections, in one text."""
    backend = memory.resources.store._backend
    return str([await backend.scroll(name, Filter()) for name in (TURNS, MEMORIES, CONTROL)])


async def test_what_is_refused_is_kept_with_its_reason_and_turns(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    reply = {"memories": [*wrong((1, "Ana lives in Rome."), (9, "Ana likes rain."))("")["memories"], {"turns": [2, 7]}]}
    memory = open_memory(reader(extract=reply))
    receipt = await remember(memory, chat_of)
    assert receipt.rejected == {NO_QUOTE: 1, NOT_SHOWN: 1, MALFORMED: 1}
    turns = [turn.id for turn in await memory.resources.store.turns("ana")]
    found = await memory.rejections(user_id="ana", conversation_id="chat")
    assert {(one.text, one.quote, one.reason, one.turn_ids) for one in found} == {
        ("Ana lives in Rome.", "so Ana lives in Rome.", NO_QUOTE, (turns[0],)),
        ("Ana likes rain.", "so Ana likes rain.", NOT_SHOWN, ()),
        ('{"turns": [2, 7]}', "", MALFORMED, (turns[1],)),
    }
    assert {one.shown_turn_ids for one in found} == {tuple(turns)}
    # Nothing of it is remembered.
    assert await memory.memories(user_id="ana", states=()) == []
    assert not [one for one in await memory.search("Rome", user_id="ana") if "Rome" in one.text]
    assert "Rome" not in "".join([line async for line in memory.export(user_id="ana")])
    assert await memory.rejections(user_id="bea") == await memory.rejections(user_id="ana", conversation_id="no") == []


async def test_looking_makes_no_store(open_memory: Open, tmp_path: Path) -> None:
    assert await open_memory(store=str(tmp_path / "none")).rejections(user_id="ana") == []
    assert not (tmp_path / "none").exists()


async def test_the_same_again_is_kept_once(open_memory: Open, reader: Make, chat_of: Make) -> None:
    """A batch that was given up is read again; what was refused is refused again."""
    first = {"turns": [1], "quote": LINES[0].partition(": ")[2], "text": "Ana lives in Berlin.", "kind": "state"}

    def reply(_: str) -> Any:
        return {"memories": [first, *wrong((1, "Ana lives in Rome."))("")["memories"]]}

    memory = open_memory(reader())
    await remember(memory, chat_of, "Ana: Ana lives in Porto.", chat="before")
    failing = open_memory(reader(extract=reply, consolidate=ConnectionError("refused")))
    receipt = await remember(failing, chat_of)
    assert receipt.turns_pending == 4
    before = await memory.rejections(user_id="ana")
    assert [one.text for one in before] == ["Ana lives in Rome."]
    (receipt,) = await open_memory(reader(extract=reply)).resume(user_id="ana")
    assert (receipt.turns_pending, receipt.rejected) == (0, {NO_QUOTE: 1})
    await remember(open_memory(reader(extract=reply)), chat_of)
    assert await memory.rejections(user_id="ana") == before


async def test_the_oldest_of_a_conversation_go_first(
    open_memory: Open, reader: Make, chat_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    for number, line in enumerate(("one.", "two.", "three.")):
        names = [f"{line}{place}" for place in range(2)]
        memory = open_memory(reader(extract=wrong(*((1, name) for name in names))), window_overlap=0)
        await memory.remember(chat_of(f"Ana: {line}", start=number), user_id="ana", conversation_id="chat")
    await remember(open_memory(reader(extract=wrong((1, "of another")))), chat_of, chat="other")
    left = await texts(memory, chat="chat")
    assert len(left) == 3
    assert {"three.0", "three.1"} < set(left)
    assert await texts(memory, chat="other") == ["of another"]
    many = open_memory(reader(extract=wrong(*((1, f"at once {number}") for number in range(5)))), window_overlap=0)
    await remember(many, chat_of, "Ana: four.", chat="chat")
    assert await texts(memory, chat="chat") == ["at once 2", "at once 3", "at once 4"]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_forgotten_turn_takes_all_that_was_written_from_it(
    open_memory: Open, reader: Make, chat_of: Make, place: int
) -> None:
    """Also what cites another turn, or none: the model had its words before it."""
    memory = open_memory(reader(extract=wrong((1, "SECRET one"), (2, "SECRET two"), (9, "SECRET none"))))
    await remember(memory, chat_of)
    await remember(open_memory(reader(extract=wrong((1, "plain")))), chat_of, chat="other")
    turn = (await memory.resources.store.turns("ana", conversation_id="chat"))[place]
    receipt = await memory.forget(user_id="ana", turn_id=turn.id)
    assert (receipt.turns, receipt.rejections) == (1, 3)
    assert await texts(memory) == ["plain"]
    assert "SECRET" not in await everything_kept(memory)
    assert "SECRET" not in "".join([line async for line in memory.export(user_id="ana")])


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        ({"conversation_id": "chat"}, ["SECRET other"]),
        ({"everything": True}, []),
        ({"since": "2024-03-04"}, ["SECRET other"]),
        ({"until": "2024-02-01"}, ["SECRET chat", "SECRET other"]),
    ],
)
async def test_forgetting_more_takes_it_too(
    open_memory: Open, reader: Make, chat_of: Make, selection: dict[str, Any], left: list[str]
) -> None:
    from datetime import UTC, datetime

    for chat, lines in (("chat", LINES), ("other", LINES[:2])):
        memory = open_memory(reader(extract=wrong((1, f"SECRET {chat}"))))
        await remember(memory, chat_of, *lines, chat=chat)
        await remember(memory, chat_of, *lines, user="bea", chat=chat)
    for name in {"since", "until"} & selection.keys():
        selection = {name: datetime.fromisoformat(selection[name]).replace(tzinfo=UTC)}
    receipt = await memory.forget(user_id="ana", **selection)
    assert receipt.rejections == 2 - len(left)
    assert await texts(memory) == left
    assert await texts(memory, "bea") == ["SECRET chat", "SECRET other"]
    await memory.forget(user_id="bea", everything=True)
    await memory.forget(user_id="ana", everything=True)
    assert "SECRET" not in await everything_kept(memory)


async def test_what_was_written_from_a_turn_that_went_meanwhile_is_not_kept(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader())

    class Slow(ScriptedChatModel):
        async def _agenerate(self, messages: Any, *given: Any, **more: Any) -> Any:
            await memory.resources.store.open(create=False)
            turn = next(one for one in await memory.resources.store.turns("ana") if "Berlin" in one.text)
            await memory.forget(user_id="ana", turn_id=turn.id)
            return self._generate(messages, *given[:1])

    slow = open_memory(Slow(script={"extract": wrong((1, "SECRET one"), (3, "SECRET three"))}), evolution=False)
    receipt = await remember(slow, chat_of)
    assert receipt.rejected == {NO_QUOTE: 2}
    assert "SECRET" not in await everything_kept(memory)


async def test_reading_again_begins_anew(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(extract=wrong((1, "old"))))
    await remember(memory, chat_of)
    await remember(memory, chat_of, chat="other")
    (receipt,) = await open_memory(reader(extract=wrong((1, "new")))).reextract(user_id="ana", conversation_id="chat")
    assert receipt.rejected == {NO_QUOTE: 1}
    assert (await texts(memory, chat="chat"), await texts(memory, chat="other")) == (["new"], ["old"])
    await open_memory(reader()).reextract(user_id="ana")
    assert await texts(memory) == []


async def test_memories_that_were_shown_count_as_the_turns_they_come_from(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    await remember(open_memory(reader()), chat_of, "Ana: Ana owns a boat.", chat="before")
    memory = open_memory(reader(extract=wrong((1, "SECRET")), update={"operations": []}), strategy="mem0star")
    await remember(memory, chat_of, "Ana: Ana owns a boat no more")
    (before,) = await memory.resources.store.turns("ana", conversation_id="before")
    (rejected,) = await memory.rejections(user_id="ana")
    assert rejected.shown_turn_ids[0] == before.id
    assert rejected.turn_ids == rejected.shown_turn_ids[1:]
    await memory.forget(user_id="ana", turn_id=before.id)
    assert "SECRET" not in await everything_kept(memory)


async def test_it_goes_with_the_store_to_another_model(
    open_memory: Open, reader: Make, chat_of: Make, shared_store: Path, tmp_path: Path
) -> None:
    memory = open_memory(reader(extract=wrong((1, "Ana lives in Rome."))))
    await remember(memory, chat_of)
    other = open_memory(reader(), store=str(tmp_path / "new"))
    for _ in range(2):
        await copy_store(Store(EdgeBackend(shared_store), None), other.resources.store)
    assert await other.rejections(user_id="ana") == await memory.rejections(user_id="ana") != []


def test_a_commit_keeps_it_until_it_is_carried_out(a_turn: Callable[..., Turn]) -> None:
    rejected = rejection_of({"text": "x", "turns": [1]}, "odd", [a_turn()])
    commit = Commit("ana", rejections=(rejected,), forgotten_rejection_ids=("some",))
    assert Commit.read("ana", commit.written()) == commit
    assert all((Commit("ana", rejections=(rejected,)), Commit("ana", forgotten_rejection_ids=("some",))))
    older = {key: value for key, value in json.loads(commit.written()).items() if "rejections" not in key}
    assert Commit.read("ana", json.dumps(older)) == Commit("ana")


async def test_of_nothing_there_is_nothing_to_keep(open_memory: Open) -> None:
    assert await to_keep([], open_memory().resources.store) == ((), ())


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["turns", "text", "quote", "kind"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(item=values)
def test_whatever_a_model_wrote_can_be_kept(item: Any, a_turn: Callable[..., Turn]) -> None:
    turns = [a_turn("one", 0), a_turn("two", 1)]
    made: Rejection = rejection_of(item, MALFORMED, turns)
    check_payload(rejection_payload(made))
    assert set(made.turn_ids) <= {"chat-0", "chat-1"}
    assert made.text
    assert max(len(made.text), len(made.quote)) < 1000
    assert made.id == rejection_of(item, MALFORMED, turns).id
