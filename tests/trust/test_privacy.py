"""What is forgotten is in no file, and what people say is in no log."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import StoreError
from dualmem.stores.payload import entity_key
from dualmem.testing import ScriptedChatModel, WordEmbeddings

Make = Callable[..., Any]
WORD = "zanzibarquux"
LINES = ("Ana: Ana lives in Berlin.", f"Ana: Ana lives in {WORD}.", "Ana: Ana owns a boat.")


def written(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file without blocks of zeros, of which Edge's files mostly consist."""
    found, nothing = {}, bytes(1 << 16)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                kept = bytearray()
                while block := file.read(len(nothing)):
                    kept += b"" if block == nothing else block
            found[str(path.relative_to(folder))] = bytes(kept)
    return found


def places_of(files: Path | dict[str, bytes], word: str) -> list[str]:
    """Return the files in which the bytes of a word are, in either byte order of UTF-16 as well."""
    files = written(files) if isinstance(files, Path) else files
    coded = [word.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    return [name for name, raw in files.items() if any(one in raw for one in coded)]


@pytest.fixture
def opened(tmp_path: Path, reader: Make) -> Callable[[], DualMem]:
    return lambda: DualMem(store=str(tmp_path / "store"), chat_model=reader(), embeddings=WordEmbeddings())


async def test_after_compacting_the_bytes_of_what_was_forgotten_are_in_no_file(
    opened: Callable[[], DualMem], tmp_path: Path, chat_of: Make
) -> None:
    async with opened() as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        await memory.remember(chat_of(f"Bea: Bea lives in {WORD}."), user_id="bea")
        assert places_of(tmp_path, WORD)
        (secret,) = [turn for turn in await memory.resources.store.turns("ana") if WORD in turn.text]
        await memory.forget(user_id="ana", turn_id=secret.id)
        await memory.forget(user_id="bea", everything=True)
        kept = await memory.memories(user_id="ana", states=())
        found = await memory.search("Where does Ana live?", user_id="ana")
        vectors = await memory.resources.store._backend.vectors("memories", [one.id for one in kept], "semantic")
        assert await memory.compact()
        assert places_of(tmp_path, WORD) == []
        assert await memory.memories(user_id="ana", states=()) == kept
        assert await memory.search("Where does Ana live?", user_id="ana") == found, "keyword vectors are kept as well"
        again = await memory.resources.store._backend.vectors("memories", [one.id for one in kept], "semantic")
        assert again == vectors
        assert [fault for one in await memory.doctor() for fault in one.faults] == []
        await memory.remember(chat_of("Ana: Ana owns a piano.", start=9), user_id="ana")
    async with opened() as memory:
        assert "Ana owns a piano." in {one.text for one in await memory.memories(user_id="ana")}
    assert places_of(tmp_path, WORD) == []
    assert [each.name for each in (tmp_path / "store").iterdir() if each.name.startswith(".")] == [".lock"]


KEY = "ab" * 32
SAID = (
    "Anaquux: Anaquux lives in Berlinquux.",
    "Anaquux: Do you know harbourquux?",
    "Anaquux: Anaquux lives in Portoquux.",
)
TEXTS = (
    *("Anaquux", "Berlinquux", "Portoquux", "harbourquux", "chatquux", "sourcequux"),  # turns, speakers, conversations
    *("attrquux", "topicquux", "entityquux", "lives changed"),  # memories and the reason of a decision
    *("draftquux", "quotequux", "its quote is not in"),  # drafts that were rejected
)


def extracted(*, number: int, text: str) -> dict[str, Any]:
    return {
        "turns": [number],
        "quote": text,
        "text": text,
        "kind": "state",
        "subject": "Anaquux",
        "attribute": "attrquux",
        "topic": "topicquux",
        "entities": ["entityquux"],
        "standing": False,
        "when": "",
    }


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
async def test_an_encrypted_store_holds_no_text(tmp_path: Path, reader: Make, chat_of: Make, key: str | None) -> None:
    """Every kind of text is looked for in every file; that they are found in a plain store shows that looking works."""
    drafts = [
        extracted(number=1, text="Anaquux lives in Berlinquux."),
        extracted(number=3, text="Anaquux lives in Portoquux."),
        {**extracted(number=2, text="Anaquux likes draftquux."), "quote": "quotequux"},
    ]
    memory = DualMem(
        store=str(tmp_path / "store"),
        chat_model=reader(extract={"memories": drafts}),
        embeddings=WordEmbeddings(),
        encryption_key=key,
    )
    said = [{**message, "id": f"sourcequux-{number}"} for number, message in enumerate(chat_of(*SAID))]
    async with memory:
        await memory.remember(said, user_id="ana", conversation_id="chatquux")
        assert {one.state for one in await memory.memories(user_id="ana", states=())} == {"active", "superseded"}
        assert len(await memory.rejections(user_id="ana")) == 1
        assert await memory.search("Where does Anaquux live?", user_id="ana")
    files = written(tmp_path / "store")
    found = {text for text in TEXTS if places_of(files, text)}
    assert found == (set() if key else set(TEXTS))
    named = entity_key("Anaquux")
    assert bool(places_of(files, named)) == (key is None), "names that filters ask for are texts, too"


async def test_where_there_is_no_room_for_a_copy_everything_stays(
    opened: Callable[[], DualMem], chat_of: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(edge: Any) -> Iterator[Any]:
        raise OSError(28, "No space left on device")
        yield

    async with opened() as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        kept = await memory.memories(user_id="ana", states=())
        monkeypatch.setattr("dualmem.stores.edge_shard._copied", full)
        with pytest.raises(StoreError, match="No space left"):
            await memory.compact()
        assert await memory.memories(user_id="ana", states=()) == kept
        assert [each.name for each in (tmp_path / "store").glob(".*")] == [".lock"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
@pytest.mark.parametrize("rename", [0, 1, 2, 3])
def test_a_process_that_is_killed_while_compacting_loses_nothing(
    opened: Callable[[], DualMem], chat_of: Make, rename: int, tmp_path: Path
) -> None:
    async def tell() -> None:
        async with opened() as memory:
            await memory.remember(chat_of(*LINES), user_id="ana")

    async def compact() -> None:
        async with opened() as memory:
            await memory.compact()

    async def look() -> list[str]:
        async with opened() as memory:
            return [one.text for one in await memory.memories(user_id="ana", states=())]

    asyncio.run(tell())
    child = os.fork()
    if child == 0:
        move, left = Path.rename, [rename]

        def dying(self: Path, target: Path) -> Path:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return move(self, target)

        Path.rename = dying  # type: ignore[method-assign, assignment] # in this process alone
        asyncio.run(compact())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(asyncio.run(look())) == len(LINES)
    assert [each.name for each in (tmp_path / "store").glob(".*")] == [".lock"]


async def test_nothing_that_was_said_is_logged_above_debug(
    opened: Callable[[], DualMem], chat_of: Make, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened() as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        await memory.search(f"Who lives in {WORD}?", user_id="ana")
        await memory.forget(user_id="ana", everything=True)
    broken = DualMem(
        store=str(memory.settings.store),
        chat_model=ScriptedChatModel(script={"extract": RuntimeError("down")}),
        embeddings=WordEmbeddings(),
    )
    async with broken:
        receipt = await broken.remember(chat_of(*LINES), user_id="ana")
    assert receipt.turns_pending == 3
    assert WORD not in "".join(receipt.failures)
    loud = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert not [record for record in loud if WORD in record.getMessage()]
    assert not re.search(WORD, "".join(capfd.readouterr()))
