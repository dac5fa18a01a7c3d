"""Running the command line in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dualmem import cli as command_line
from dualmem import context
from dualmem.chat import Chat
from dualmem.embedding import Embedder
from dualmem.testing import ScriptedChatModel, WordEmbeddings


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
    """Run `dualmem` with arguments, on a wide terminal."""
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


@pytest.fixture
def chat_file(tmp_path: Path, chat_of: Callable[..., Any]) -> Callable[..., str]:
    """Write a conversation to a file; return its path."""

    def write(*lines: str, name: str = "chat.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(chat_of(*lines), ensure_ascii=False), encoding="utf-8")
        return str(path)

    return write
