"""`dualmem mcp`, used by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

Run = Callable[..., Any]

COMMAND = textwrap.dedent("""
    import sys
    from dualmem import context
    from dualmem.chat import Chat
    from dualmem.cli import main
    from dualmem.embedding import Embedder
    from dualmem.testing import ScriptedChatModel, WordEmbeddings

    words = WordEmbeddings()
    model = ScriptedChatModel(script={
        "extract": lambda prompt: {"memories": [{
            "turns": [1], "quote": "Ana lives in Porto.", "text": "Ana lives in Porto.", "subject": "Ana",
        }]},
        "consolidate": {"decisions": []},
        "evolve": {"relations": []},
        "answer": {"answer": "In Porto.", "found": True, "cites": ["M1"]},
        "gate": {"relevant": True, "faithful": True, "complete": True, "reason": "", "missing": ""},
    })
    context.make_chat = lambda *_: Chat(model)
    context.make_embedder = lambda *_: Embedder(words, name="words", dimension=words.dimension)
    sys.argv[0] = "dualmem"
    main()
""")


def said(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


@pytest.fixture
def desk(tmp_path: Path) -> Callable[[], Client]:
    """Make clients, each of which starts a server of its own over the same store, as those on a desktop do."""
    script = tmp_path / "command.py"
    script.write_text(COMMAND, encoding="utf-8")

    def make() -> Client:
        arguments = [str(script), "mcp", "--user", "ana", "--store", str(tmp_path / "store")]
        # Names of models that are never made: the command wants to see that some are configured.
        names = {"DUALMEM_CHAT_MODEL": "local", "DUALMEM_EMBEDDING_MODEL": "local"}
        return Client(
            stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, **names}))
        )

    return make


async def test_two_clients_use_one_store_at_the_same_time(desk: Callable[[], Client]) -> None:
    async with desk() as one, desk() as other:
        assert {tool.name for tool in (await one.list_tools()).tools} == {
            "recall",
            "remember",
            "forget",
            "list_memories",
        }
        assert said(await one.call_tool("remember", {"statement": "Ana lives in Porto."})) == "Remembered."
        assert said(await other.call_tool("recall", {"question": "Where does Ana live?"})).startswith("In Porto.")
        listed = said(await one.call_tool("list_memories", {}))
        identifier = listed.removeprefix("[").partition("]")[0]
        assert "Forgotten" in said(await other.call_tool("forget", {"memory_id": identifier}))
        assert "no memories" in said(await one.call_tool("list_memories", {}))


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "terminal", "version": "1"},
    },
}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to send")
def test_ctrl_c_ends_it_although_its_input_is_open(tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(COMMAND, encoding="utf-8")
    names = {"DUALMEM_CHAT_MODEL": "local", "DUALMEM_EMBEDDING_MODEL": "local"}
    command = [sys.executable, str(script), "mcp", "--user", "ana", "--store", str(tmp_path / "store")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **names},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "dualmem"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == ""


def test_without_a_model_it_does_not_start(dualmem: Run) -> None:
    assert "three ways" in dualmem("mcp", "--user", "ana").complaint


def test_a_blank_user_is_refused_at_once(dualmem: Run) -> None:
    assert "user" in dualmem("mcp", "--user", " ").complaint


def test_without_the_extra_it_says_how_to_install_it(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_CHAT_MODEL", "local")
    monkeypatch.setitem(sys.modules, "dualmem.integrations.mcp", None)
    assert "dualmem[mcp]" in dualmem("mcp", "--user", "ana").complaint
