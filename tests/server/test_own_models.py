"""The project's own server with models named by the environment, over a server that speaks OpenAI's protocol.

Nothing stands in for the clients: LangChain's own are imported, made and used inside of the server, where nothing may
block its event loop.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from dualmem.testing import STEPS, WordEmbeddings

pytestmark = pytest.mark.server

PROJECT = Path(__file__).parents[2]
_TURN = re.compile(r"^\[(\d+)\] ([^:\n]+): (.*\.)$", re.MULTILINE)


def reply(prompt: str) -> str:
    """Reply as a model would that does what it is asked."""
    step = next((name for name, mark in STEPS.items() if mark in prompt), "chat")
    shown = prompt.partition("<conversation>")[2]
    replies: dict[str, Any] = {
        "extract": {
            "memories": [
                {"turns": [int(number)], "quote": text, "text": text, "subject": speaker}
                for number, speaker, text in _TURN.findall(shown)
            ]
        },
        "consolidate": {"decisions": []},
        "evolve": {"relations": []},
        "answer": {"answer": "In Porto.", "found": True, "cites": ["M1"]},
        "gate": {"relevant": True, "faithful": True, "complete": True, "reason": "as told", "missing": ""},
    }
    return json.dumps(replies[step]) if step in replies else "You live in Porto."


class Handler(BaseHTTPRequestHandler):
    """Two endpoints of OpenAI's protocol."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if self.path.endswith("/embeddings"):
            vectors = WordEmbeddings().embed_documents(body["input"])
            data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
            self._answer({"object": "list", "model": "words", "data": data, "usage": usage})
            return
        message = {"role": "assistant", "content": reply(str(body["messages"][-1]["content"]))}
        if body.get("stream"):
            self._stream({"role": "assistant", "content": message["content"]})
            return
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self._answer(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )

    def _answer(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _stream(self, delta: dict[str, str]) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        parts = [
            {**chunk, "choices": [{"index": 0, "finish_reason": None, "delta": delta}]},
            {**chunk, "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]},
        ]
        self._send(
            "".join(f"data: {json.dumps(p)}\n\n" for p in parts).encode() + b"data: [DONE]\n\n", "text/event-stream"
        )

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def models() -> Iterator[str]:
    """The base URL of a server of models."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def configured(serve: Callable[..., Any], models: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The project's server, configured by a file as its `langgraph.json` names one."""
    folder = tmp_path_factory.mktemp("configured")
    config = json.loads((PROJECT / "langgraph.json").read_text(encoding="utf-8"))
    config["graphs"] = {
        name: str(PROJECT / place) if place.startswith("./") else place for name, place in config["graphs"].items()
    }
    lines = {
        "DUALMEM_BASE_URL": models,
        "DUALMEM_CHAT_MODEL": "m",
        "DUALMEM_EMBEDDING_MODEL": "words",
        "DUALMEM_STORE": str(folder / "store"),
    }
    (folder / config["env"]).write_text("".join(f"{name}={value}\n" for name, value in lines.items()), "utf-8")
    (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    return serve(folder / "langgraph.json")


@pytest.fixture
async def client(configured: Any) -> AsyncIterator[Any]:
    async with get_client(url=configured.url) as client:
        yield client


async def test_the_agent_remembers_across_threads_and_nothing_blocks(client: Any, configured: Any) -> None:
    said = []
    for text in ("I live in Porto.", "Where do I live?"):
        thread = (await client.threads.create())["thread_id"]
        given = {"user_id": "ana", "messages": [{"role": "user", "content": text}]}
        state = await client.runs.wait(thread, "agent", input=given)
        said.append(state)
    assert [state["messages"][-1]["content"] for state in said] == ["You live in Porto."] * 2
    assert said[1]["answer"] == "In Porto."
    found = await client.runs.wait(
        None, "recall", input={"user_id": "ana", "question": "Where do I live?"}, context={"gate": "never"}
    )
    assert found["recollection"]["evidence"][0]["text"] == "I live in Porto."
    assert found["verdict"]["policy"] == "never"
    assert "BlockingError" not in configured.said()
    assert "Blocking call to" not in configured.said()
