"""A program that stands in for the server's process, and a way to reach it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from dualmem.local.server import LocalServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = """
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = json.loads(sys.stdin.readline())
log = open(options["model"] + ".log", "a", buffering=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        log.write(json.dumps({"path": self.path, "headers": headers, "body": body}) + "\\n")
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                 "prompt_tokens_details": {"cached_tokens": 5}}
        reply = {"id": "1", "created": 0, "model": "tiny", "usage": usage}
        choice = {"index": 0, "finish_reason": "stop"}
        if body.get("stream"):
            chunks = [{**reply, "object": "chat.completion.chunk", "usage": None,
                       "choices": [{"index": 0, "finish_reason": None, "delta": {"content": word}}]}
                      for word in ("one ", "two")]
            chunks.append({**reply, "object": "chat.completion.chunk", "choices": [{**choice, "delta": {}}]})
            text = "".join(f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks) + "data: [DONE]\\n\\n"
            self.answer(text.encode(), "text/event-stream")
        else:
            message = {"role": "assistant", "content": '{"ok": true}'}
            reply = {**reply, "object": "chat.completion", "choices": [{**choice, "message": message}]}
            self.answer(json.dumps(reply).encode(), "application/json")

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
log.write(json.dumps({"started": os.getpid(), "options": options}) + "\\n")
print(json.dumps({"address": f"http://127.0.0.1:{server.server_port}"}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A file that passes for a model."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    return file


@pytest.fixture
def make_server(tmp_path: Path, gguf: Path) -> Iterator[Callable[..., LocalServer]]:
    """Make servers of a program, the stand-in where none is given; they are closed with the test."""
    made: list[LocalServer] = []

    def make(source: str = PROGRAM, path: Path | None = gguf) -> LocalServer:
        program = tmp_path / f"program{len(made)}.py"
        program.write_text(source)
        made.append(LocalServer(path, tmp_path / "cache", program=program))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def events(gguf: Path) -> Callable[[], list[dict[str, Any]]]:
    """Read what the stand-in noted: each start and each request."""

    def read() -> list[dict[str, Any]]:
        file = Path(f"{gguf}.log")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    return read


@pytest.fixture
def _loopback() -> None:
    """Let the test reach this machine, and nothing else."""
    enable_socket()
    socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
