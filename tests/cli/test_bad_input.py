"""What a person sees when something is wrong: one sentence, and status 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dualmem.loaders.files import FORMATS
from dualmem.testing import WordEmbeddings

Run = Callable[..., Any]


def test_a_file_that_does_not_exist(dualmem: Run) -> None:
    assert "nowhere.json" in dualmem("ingest", "nowhere.json", "--user", "ana").complaint


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("broken.json", '[{"role": "user", "content": "hi"', ["begins like JSON", "line 1"]),
        ("prose.txt", "Once upon a time there was a river.", FORMATS),
        ("other.json", '{"weather": "sunny"}', FORMATS),
        ("empty.json", "[]", ["no message"]),
        ("blank.txt", " \n ", ["no message"]),
        ("silent.json", '[{"role": "user", "content": " "}]', ["no message"]),
        ("picture.png", "\x89PNG\x00\x01", ["picture.png"]),
    ],
)
def test_a_file_that_cannot_be_used(dualmem: Run, tmp_path: Path, name: str, content: str, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    complaint = dualmem("ingest", str(path), "--user", "ana").complaint
    assert all(word in complaint for word in words)


def test_a_folder_that_is_no_conversation(dualmem: Run, tmp_path: Path) -> None:
    assert str(tmp_path) in dualmem("ingest", str(tmp_path), "--user", "ana").complaint


@pytest.mark.parametrize(
    "command",
    [
        ["ingest", "FILE"],
        ["ask", "Where?"],
        ["memories", "list"],
        ["memories", "show", "3f2a"],
        ["memories", "history", "3f2a"],
    ],
)
def test_a_blank_user(dualmem: Run, chat_file: Callable[..., str], command: list[str]) -> None:
    path = chat_file("Ana: hello")
    arguments = [path if part == "FILE" else part for part in command]
    assert "user" in dualmem(*arguments, "--user", "  ").complaint


def test_no_user_at_all(dualmem: Run) -> None:
    done = dualmem("ask", "Where?")
    assert done.status == 2
    assert "--user" in done.err


def test_an_empty_question(dualmem: Run) -> None:
    assert "question" in dualmem("ask", " ", "--user", "ana").complaint


def test_no_model_configured_names_three_ways(dualmem: Run, chat_file: Callable[..., str]) -> None:
    complaint = dualmem("ingest", chat_file("Ana: hello"), "--user", "ana", "--store", "new").complaint
    for way in ("OPENAI_API_KEY", "DUALMEM_BASE_URL", "dualmem[local]", "local"):
        assert way in complaint
    assert not Path("new").exists()


def test_a_chat_model_that_is_missing_is_told(
    dualmem: Run, chat_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedding model alone is configured."""
    monkeypatch.setattr("dualmem.context.make_embedder", lambda *_: _words())
    complaint = dualmem("ingest", chat_file("Ana: hello"), "--user", "ana", "--store", "new").complaint
    assert "chat model" in complaint
    assert "OPENAI_API_KEY" in complaint


def _words() -> Any:
    from dualmem.embedding import Embedder

    return Embedder(WordEmbeddings(), name="words", dimension=64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["config", "--preset", "best"], ["'best'", "'memlace'"]),
        (["ask", "Where?", "--user", "ana", "--preset", "best"], ["'best'", "'memlace'"]),
        (["ask", "Where?", "--user", "ana", "--asked-at", "yesterday"], ["'yesterday'", "2024-05-08T13:30"]),
        (["graph", "memory"], ["'memory'", "'recall'", "'deliberation'", "'ingestion'"]),
        (["memories", "show", "3f2a", "--user", "ana"], ["'3f2a'", "'ana'"]),
        (["memories", "history", "x" * 36, "--user", "ana"], ["x" * 36]),
    ],
)
def test_a_value_that_cannot_be(dualmem: Run, arguments: list[str], words: list[str]) -> None:
    complaint = dualmem(*arguments).complaint
    assert all(word in complaint for word in words)


def test_a_bad_setting_in_the_environment(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_TOP_K", "many")
    assert "'many'" in dualmem("memories", "list", "--user", "ana").complaint


@pytest.mark.parametrize("identifier", ["ffff", "z" * 36, "00000000-0000-0000-0000-000000000000", ""])
def test_a_memory_that_does_not_exist(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Callable[..., str], identifier: str
) -> None:
    scripted(reader())
    dualmem("ingest", chat_file("Ana: Ana owns a boat."), "--user", "ana")
    assert f"no memory {identifier!r}" in dualmem("memories", "show", identifier, "--user", "ana").complaint


def test_a_memory_of_another_user_is_not_found(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Callable[..., str]
) -> None:
    scripted(reader())
    dualmem("ingest", chat_file("Ana: Ana owns a boat."), "--user", "ana")
    (memory,) = dualmem("memories", "list", "--user", "ana", "--json").json
    assert "'bea'" in dualmem("memories", "show", memory["id"], "--user", "bea").complaint


def test_another_embedding_model_is_named_with_the_stores(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Callable[..., str]
) -> None:
    path = chat_file("Ana: Ana owns a boat.")
    scripted(reader())
    assert dualmem("ingest", path, "--user", "ana").status == 0

    class Others(WordEmbeddings):
        model_name = "other-words"

    for embeddings, sizes in ((WordEmbeddings(32), ("64", "32")), (Others(64), ("'words'", "'other-words'"))):
        scripted(reader(), embeddings)
        for command in (["ingest", path], ["ask", "What does Ana own?"]):
            complaint = dualmem(*command, "--user", "ana").complaint
            assert all(part in complaint for part in (*sizes, "DUALMEM_EMBEDDING_MODEL"))


HOLD = """
import sys
from pathlib import Path
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.edge_folder import acquire
from dualmem.stores.payload import specs
holder = EdgeBackend(Path(sys.argv[1]))
folder = acquire(holder, Path(sys.argv[1]), specs(64), create=True)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held_store(tmp_path: Path) -> Iterator[Path]:
    """A store that another process has open."""
    path = tmp_path / "held"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield path
        process.kill()


def test_a_store_that_another_process_has_open(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Callable[..., str], held_store: Path
) -> None:
    scripted(reader())
    path = chat_file("Ana: hello")
    for command in (["ingest", path], ["ask", "Where?"], ["memories", "list"]):
        assert str(held_store) in dualmem(*command, "--user", "ana", "--store", str(held_store)).complaint


def test_a_folder_that_is_no_store(dualmem: Run, scripted: Run, reader: Run, chat_file: Run, tmp_path: Path) -> None:
    scripted(reader())
    path = chat_file("Ana: hello")
    complaint = dualmem("ingest", path, "--user", "ana", "--store", str(tmp_path)).complaint
    assert "not a store" in complaint
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["chat.json"]


def test_a_model_that_is_down_leaves_no_answer_to_print(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Callable[..., str]
) -> None:
    scripted(reader(answer=ConnectionError("refused")))
    dualmem("ingest", chat_file("Ana: Ana owns a boat."), "--user", "ana")
    for flags in ([], ["--json"]):
        assert "refused" in dualmem("ask", "What does Ana own?", "--user", "ana", *flags).complaint
