"""The blocks of every page run as they stand, page by page: programs in one namespace, commands over one store.

A scripted model and embeddings made from words stand for the real ones. What cannot run is marked in the page by
`<!-- not run: REASON -->` before the block, or by `<!-- not run: COMMANDS in backticks: REASON -->` for some of its lines.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.sqlite import AsyncSqliteStore

import dualmem
from dualmem import DualMem
from dualmem.config import Settings
from dualmem.stores.commit import Commit
from dualmem.testing import WordEmbeddings

ROOT = Path(dualmem.__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SAMPLES = ROOT / "tests" / "loaders" / "samples"

LEFT_OUT = {
    "README.md": {"they set up the whole project": 1, "it serves until its client leaves": 1},
    "command-line.md": {
        "needs the embedded model": 1,
        "they serve until they are stopped": 2,
        "they look at the shell that calls them": 1,
    },
    "embedding.md": {"needs a Postgres server": 1, "it serves until it is stopped": 1, "needs the server": 1},
    "evaluation.md": {"needs the data of a benchmark, which is not shipped": 2},
    "explorer.md": {"it serves until it is stopped": 3},
    "index.md": {"needs the embedded model": 1, "it serves until it is stopped": 1},
    "langsmith.md": {"needs LangSmith": 1},
    "privacy.md": {"they change the key of the store in use": 1},
    "reliability.md": {
        "it is a run of the tests themselves": 1,
        "needs the data of a benchmark, which is not shipped": 1,
    },
    "transfer.md": {"needs the embedding model": 1},
}
"""Blocks and lines that are not run, by page and reason; a new one is to be a decision."""

BLOCK = re.compile(r"((?:^<!-- not run: [^\n]+ -->\n+)*)^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- not run: (?:(`[^:]+`): )?(.+?) -->")
SHELL = ("", "bash", "console", "sh")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    page: str
    language: str
    text: str
    reason: str
    """Why it is not run; "" where it is."""
    lines: dict[str, str]
    """Why lines are not run that begin so."""

    def not_run(self) -> Iterator[str]:
        """Give the reason of each part that is not run."""
        if self.reason:
            yield self.reason
        for line in self.text.splitlines():
            for start, reason in self.lines.items():
                if line.startswith(start):
                    yield reason


def blocks_of(page: Path) -> list[Block]:
    found = []
    for marks, language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        whole, lines = "", {}
        for commands, reason in MARK.findall(marks):
            starts = re.findall(r"`([^`]+)`", commands)
            lines.update(dict.fromkeys(starts, reason))
            whole = whole if starts else reason
        found.append(Block(page.name, language, text, whole, lines))
    return found


def test_what_is_not_run_is_known_and_does_not_grow() -> None:
    left_out = {page.name: Counter(reason for block in blocks_of(page) for reason in block.not_run()) for page in PAGES}
    assert {page: dict(reasons) for page, reasons in left_out.items() if reasons} == LEFT_OUT
    marks = sum(len(MARK.findall(page.read_text(encoding="utf-8"))) for page in PAGES)
    used = sum(len(set(block.lines.values())) + bool(block.reason) for page in PAGES for block in blocks_of(page))
    assert marks == used, "a mark stands before no block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_data_that_is_shown_can_be_read(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "json":
            json.loads(block.text)
        if block.language == "toml":
            tomllib.loads(block.text)


@dataclass
class Session:
    """What a page's blocks share."""

    names: dict[str, Any]
    runner: asyncio.Runner
    command: Callable[..., Any]

    def program(self, block: Block) -> None:
        """Run a program; one that waits at its top runs in the loop of the page."""
        code = compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, self.names)  # noqa: S307 - our own documentation
        if inspect.isawaitable(result):
            self.runner.run(waited_for(result))

    def shell(self, block: Block) -> None:
        """Run the commands of a shell block that are the package's; of others only what is asked of them is checked."""
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.partition(" | ")[0], comments=True)
            if not words or any(line.startswith(start) for start in block.lines):
                continue
            while words and (setting := re.fullmatch(r"DUALMEM_([A-Z_]+)=.*", words[0])):
                assert setting[1].lower() in Settings.model_fields, line
                words = words[1:]
            if words[:2] == ["pip", "install"]:
                for extra in re.findall(r"\[(.*)\]", " ".join(words)):
                    assert set(extra.split(",")) <= set(metadata("dualmem").get_all("Provides-Extra", [])), line
            elif words:
                assert words[0] == "dualmem", f"{block.page}: mark what cannot run: {line}"
                done = self.command(*words[1:])
                assert done.status == 0, (block.page, line, done.err)


async def waited_for(awaitable: Any) -> Any:
    return await awaitable


class Agent(GenericFakeChatModel):
    """The model of an agent; it calls no tool."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


async def filled(memory: DualMem, chat_of: Any, a_memory: Any) -> None:
    """Remember what the pages speak of."""
    await memory.remember(chat_of("Mara: I moved to Porto."), user_id="mara", conversation_id="chat")
    lines = chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.", "Ana: We spent 20 euros.")
    await memory.remember(lines, user_id="ana", conversation_id="march 2024")
    named = a_memory("a tea", id="3f2a0000-0000-5000-8000-000000000000", text="Ana drinks tea.", sources=())
    store = memory.resources.store
    async with store.writer("ana"):
        await store.commit(Commit("ana", new=(named,)))


def files(chat_of: Any) -> None:
    """Put the files that the pages name into the folder."""
    Path("chat.json").write_text(json.dumps(chat_of("Ana: Ana owns a boat.", "Bot: ok", start=5)), encoding="utf-8")
    shutil.copy(SAMPLES / "whatsapp_android.txt", "chat.txt")
    rows = [{"id": "1", "memory": "Ana plays the cello.", "user_id": "ana", "created_at": "2024-03-02T10:00:00Z"}]
    for name in ("mem0-export.json", "export.json"):
        Path(name).write_text(json.dumps({"results": rows}), encoding="utf-8")

    async def fill() -> None:
        async with AsyncSqliteStore.from_conn_string("langmem.sqlite") as store:
            await store.setup()
            await store.aput(("memories", "ana"), "1", {"kind": "Memory", "content": {"content": "Ana likes figs."}})

    asyncio.run(fill())


@pytest.fixture
def session(
    scripted: Any,
    reader: Any,
    grades: Any,
    chat_of: Any,
    a_memory: Any,
    dualmem: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Session]:
    """A store with something in it, and the names that a reader has by then."""
    model = scripted(reader(answer={"cites": ["M1"], "found": True, "answer": "In Porto."}, gate=grades()))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    files(chat_of)
    graph = StateGraph(MessagesState).add_node("chat", lambda _: {"messages": []}).add_edge(START, "chat")
    memory = DualMem()
    agent = Agent(messages=iter(AIMessage("You live in Porto.") for _ in range(9)))
    given = {"memory": memory, "chat_model": model, "embeddings": WordEmbeddings(), "graph": graph, "model": agent}
    program = ModuleType("shown")
    program.__dict__.update(given)
    monkeypatch.setitem(sys.modules, "shown", program)  # a dataclass looks for the module that it is in
    with asyncio.Runner() as runner:
        runner.run(filled(memory, chat_of, a_memory))
        runner.run(memory.close())
        session = Session(program.__dict__, runner, dualmem)
        yield session
        for name in list(session.names.values()):
            if isinstance(name, DualMem):
                runner.run(name.close())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page: Path, session: Session) -> None:
    for block in blocks_of(page):
        if block.reason:
            continue
        if block.language == "python":
            session.program(block)
        elif block.language in SHELL:
            session.shell(block)
