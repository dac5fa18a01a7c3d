"""What all tests share: no network, no settings from outside, and a memory with a scripted model over a real store."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from pytest_socket import disable_socket, socket_allow_hosts

from dualmem.records import Draft, Memory, Source, Turn

# What is heavy is imported by the fixtures that need it: many tests do not.
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from dualmem import DualMem
    from dualmem.testing import ScriptedChatModel, WordEmbeddings

START = datetime(2024, 3, 1, 10, 0, tzinfo=UTC)
"""When the first turn of a test is said; each later one a day after."""

DIMENSION = 64
"""Size of the vectors of `WordEmbeddings`."""

# A slow machine is no failure, and a run can be repeated.
settings.register_profile("dualmem", deadline=None, derandomize=True, database=None)
settings.load_profile("dualmem")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes golden files anew."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files of the prompts anew")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Block sockets; asyncio needs Unix ones, and tests of servers loopback."""
    if any(item.get_closest_marker(name) for name in ("browser", "local", "loopback", "postgres", "server")):
        socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
    else:
        disable_socket(allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away whatever could configure dualmem from outside, and stand in an empty folder."""
    for name in list(os.environ):
        if name.upper().startswith(("DUALMEM_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name beside the test, or write it with `--update-golden`."""
    folder = Path(str(request.path)).parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        file = folder / f"{name}.txt"
        if update:
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no golden file {file.name}; make it with --update-golden"
        assert text == file.read_text(encoding="utf-8")

    return compare


# Records


@pytest.fixture(scope="session")
def a_turn() -> Callable[..., Turn]:
    """Make turns; `number` gives one its place, its time and, with the conversation, its id."""

    def make(text: str = "hello", number: int = 0, **fields: Any) -> Turn:
        values: dict[str, Any] = {
            "id": f"{fields.get('conversation_id', 'chat')}-{number}",
            "user_id": "ana",
            "conversation_id": "chat",
            "position": number,
            "speaker": "Ana",
            "role": "user",
            "text": text,
            "said_at": START + timedelta(days=number),
            "recorded_at": START,
        }
        return Turn(**{**values, **fields})

    return make


@pytest.fixture(scope="session")
def a_memory() -> Callable[..., Memory]:
    """Make memories; `day` is when one was told."""

    def make(name: str, day: int = 0, **fields: Any) -> Memory:
        values: dict[str, Any] = {
            "id": name,
            "user_id": "ana",
            "conversation_id": "chat",
            "text": f"Ana says {name}.",
            "kind": "state",
            "speaker": "Ana",
            "subject": "Ana",
            "attribute": "home",
            "known_at": START + timedelta(days=day),
            "recorded_at": START + timedelta(days=400),
            "sources": (Source(turn_id=f"turn-{name}", quote=name),),
            "position": day,
        }
        return Memory(**{**values, **fields})

    return make


@pytest.fixture(scope="session")
def a_draft() -> Callable[..., Draft]:
    """Make drafts; `number` is the turn one comes from."""

    def make(text: str, number: int = 0, **fields: Any) -> Draft:
        values: dict[str, Any] = {
            "text": text,
            "kind": "fact",
            "speaker": "Ana",
            "subject": "Ana",
            "sources": (Source(turn_id=f"chat-{number}", quote=text),),
            "position": number,
            "said_at": START + timedelta(days=number),
        }
        return Draft(**{**values, **fields})

    return make


# Messages and a model that reads them


@pytest.fixture(scope="session")
def chat_of() -> Callable[..., list[dict[str, Any]]]:
    """Make messages of `Speaker: text` lines, a day apart; Bot is the assistant."""

    def make(*lines: str, start: int = 0) -> list[dict[str, Any]]:
        messages = []
        for number, line in enumerate(lines, start=start):
            speaker, _, text = line.partition(": ")
            messages.append(
                {
                    "role": "assistant" if speaker == "Bot" else "user",
                    "name": speaker,
                    "content": text,
                    "timestamp": (START + timedelta(days=number)).isoformat(),
                }
            )
        return messages

    return make


_NUMBERED = re.compile(r"^\[(\d+)\] ([^:\n]+): (.*)$", re.MULTILINE)
_NEW = re.compile(r"^New (\d+): \[N\d+\] (.*)$")
_OLD = re.compile(r"^ +old: \[([A-Z]+)\] (.*)$")
_SUBJECTS = {"lives": "home", "works": "job"}


def extract_statements(prompt: str) -> dict[str, Any]:
    """Reply to an extraction: each of the window's own turns that ends in a full stop is a memory."""
    shown = prompt.partition("<conversation>")[2].partition("</conversation>")[0]
    memories = []
    for number, speaker, text in _NUMBERED.findall(shown):
        if not text.endswith("."):
            continue
        verb = next((verb for verb in _SUBJECTS if verb in text.split()), "")
        memories.append(
            {
                "turns": [int(number)],
                "quote": text,
                "text": text,
                "kind": "state" if verb else "fact",
                "subject": speaker,
                "attribute": _SUBJECTS.get(verb, ""),
                "when": "",
                "topic": _SUBJECTS.get(verb, "misc"),
                "entities": [],
                "standing": False,
            }
        )
    return {"memories": memories}


def decide_by_words(prompt: str) -> dict[str, Any]:
    """Reply to a consolidation: equal texts are the same, two with one of the known verbs a change."""
    shown = prompt.partition("<memories>")[2].partition("</memories>")[0]
    decisions: list[dict[str, Any]] = []
    text = ""
    for line in shown.splitlines():
        if new := _NEW.match(line):
            text = _bare(new[2])
            decisions.append(
                {"new": int(new[1]), "target": "none", "same": False, "both": True, "sign": "", "reason": ""}
            )
        elif (old := _OLD.match(line)) and decisions[-1]["target"] == "none":
            other = _bare(old[2])
            verbs = set(_SUBJECTS) & set(text.split()) & set(other.split())
            if other == text:
                decisions[-1] |= {"target": old[1], "same": True, "reason": "said again"}
            elif verbs:
                decisions[-1] |= {
                    "target": old[1],
                    "both": False,
                    "sign": "later",
                    "reason": f"{min(verbs)} changed",
                }
    return {"decisions": decisions}


def _bare(line: str) -> str:
    return line.partition(" (")[0]


@pytest.fixture
def reader() -> Callable[..., ScriptedChatModel]:
    """Make a model that extracts statements and notes changes by their words; other steps as given."""

    from dualmem.testing import ScriptedChatModel

    def make(**script: Any) -> ScriptedChatModel:
        known = {"extract": extract_statements, "consolidate": decide_by_words, "evolve": {"relations": []}}
        return ScriptedChatModel(script={**known, **script})

    return make


GRADES = {"reason": "", "relevant": True, "faithful": True, "complete": True, "missing": ""}


@pytest.fixture(scope="session")
def grades() -> Callable[..., dict[str, Any]]:
    """Make the gate's grades: all good, but what is given."""
    return lambda **changed: {**GRADES, **changed}


# Stores


@pytest.fixture(scope="session")
def _shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An embedded store that stays open: making one costs more than a test."""
    from dualmem.stores.edge import EdgeBackend
    from dualmem.stores.edge_folder import acquire, release
    from dualmem.stores.payload import specs

    path = tmp_path_factory.mktemp("embedded") / "store"
    holder = EdgeBackend(path)
    folder = acquire(holder, path, specs(DIMENSION), create=True)
    assert folder is not None
    yield path
    release(holder, folder)


@pytest.fixture
async def shared_store(_shared_store: Path) -> AsyncIterator[Path]:
    """The folder of an embedded store with nothing in it."""
    from dualmem.stores.backend import Filter
    from dualmem.stores.edge import EdgeBackend
    from dualmem.stores.payload import specs

    yield _shared_store
    backend = EdgeBackend(_shared_store)
    await backend.open(specs(DIMENSION), create=True)
    for spec in specs(DIMENSION):
        await backend.delete(spec.name, [key for key, _ in await backend.scroll(spec.name, Filter(), ids_only=True)])
    await backend.close()


@pytest.fixture
async def open_memory(shared_store: Path) -> AsyncIterator[Callable[..., DualMem]]:
    """Make memories over an empty embedded store with a scripted model and embeddings made from words."""
    from dualmem import DualMem
    from dualmem.testing import ScriptedChatModel, WordEmbeddings

    opened: list[DualMem] = []

    def make(model: Any = None, **options: Any) -> DualMem:
        given = {"store": str(shared_store), "embeddings": WordEmbeddings(DIMENSION), **options}
        memory = DualMem(chat_model=model or ScriptedChatModel(script={}), **given)
        opened.append(memory)
        return memory

    yield make
    for memory in opened:
        await memory.close()


@pytest.fixture
def as_json() -> Callable[[Any], str]:
    """Write a value as JSON, as a model would."""
    return lambda value: json.dumps(value, ensure_ascii=False)


# The command line


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one sentence on stderr; nothing was printed and the status is 2."""
        assert (self.status, self.out) == (2, "")
        (line,) = self.err.splitlines()
        assert line.startswith("dualmem: ")
        assert line == line.strip()
        return line.removeprefix("dualmem: ")


@pytest.fixture
def dualmem(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run `dualmem` with arguments in this process, on a wide terminal."""
    from dualmem import cli as command_line

    monkeypatch.setenv("COLUMNS", "220")

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["dualmem", *arguments])
        capsys.readouterr()
        try:
            command_line.main()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        shown = capsys.readouterr()
        return Done(status, shown.out, shown.err)

    return run


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, shared_store: Path) -> Callable[..., ScriptedChatModel]:
    """Let the commands use a scripted model, embeddings made from words, and the empty store."""
    from dualmem import context
    from dualmem.chat import Chat
    from dualmem.embedding import Embedder
    from dualmem.testing import WordEmbeddings

    def use(model: ScriptedChatModel, embeddings: WordEmbeddings | None = None) -> ScriptedChatModel:
        words = embeddings or WordEmbeddings()
        monkeypatch.setattr(context, "make_chat", lambda *_: Chat(model))
        monkeypatch.setattr(
            context,
            "make_embedder",
            lambda *_: Embedder(words, name=words.model_name, dimension=words.dimension),
        )
        monkeypatch.setenv("DUALMEM_STORE", str(shared_store))
        return model

    return use
