"""A model's server between which and the client things go wrong: retried within bounds, then told, and made up for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.config import load_settings
from dualmem.errors import ModelUnavailable
from dualmem.testing import WordEmbeddings

pytestmark = pytest.mark.server

Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana owns a boat.", "Ana: Ana lives in Porto.")
MOST = 5
"""Requests of one call: the first, and four more (`max_retries` of the client)."""


@dataclass(frozen=True)
class Fault:
    """What comes in place of a completion."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection before the body is whole."""
    hang: bool = False
    retried: bool = True


SOON = {"retry-after-ms": "20"}
BUSY = b'{"error": {"message": "busy", "type": "busy", "code": "busy"}}'
FAULTS = {
    "429 with Retry-After": Fault(429, BUSY, {"Retry-After": "0.02"}),
    "429 with its milliseconds": Fault(429, BUSY, SOON),
    "500": Fault(500, BUSY, SOON),
    "502 with a page": Fault(502, b"<html>Bad Gateway</html>", SOON),
    "503": Fault(503, b"", SOON),
    "408": Fault(408, BUSY, SOON),
    "cut off": Fault(200, b'{"id": "x", "choices": [{"message": {"cont', cut=True),
    "400": Fault(400, BUSY, retried=False),
    "401": Fault(401, BUSY, retried=False),
    "404": Fault(404, BUSY, retried=False),
    "no JSON": Fault(200, b"<html>sign in</html>", {"Content-Type": "text/html"}, retried=False),
    "no choices": Fault(200, b'{"id": "x", "object": "chat.completion", "choices": []}', retried=False),
    "null choices": Fault(200, b'{"id": "x", "object": "chat.completion", "choices": null}', retried=False),
}


@dataclass
class Server:
    """A server of the OpenAI protocol with faults first."""

    url: str
    reply: Callable[[str], Any]
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    requests: int = 0
    ended: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server(reader: Make) -> Iterator[Server]:
    script = reader().script

    def reply(prompt: str) -> Any:
        for step, mark in (("extract", "Write the memories"), ("consolidate", "Decide for each")):
            if mark in prompt:
                return script[step](prompt)
        return {"relations": []}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.requests += 1
            fault = served.always or (served.faults.pop(0) if served.faults else None)
            if fault is None:
                message = {"role": "assistant", "content": json.dumps(served.reply(given["messages"][-1]["content"]))}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                done = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
                fault = Fault(200, json.dumps(done).encode(), {"Content-Type": "application/json"})
            if fault.hang:
                served.ended.wait(60)
                return
            self.send_response(fault.status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(fault.body) + 100 * fault.cut))
            self.end_headers()
            self.wfile.write(fault.body)
            self.close_connection = fault.cut

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    served = Server(f"http://127.0.0.1:{http.server_address[1]}/v1", reply)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield served
    served.ended.set()
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def opened(shared_store: Path, server: Server) -> Callable[..., DualMem]:
    def make(**options: Any) -> DualMem:
        given = {"evolution": False, "call_timeout": 60.0, **options}
        settings = load_settings(store=str(shared_store), chat_model="openai:model", base_url=server.url, **given)
        return DualMem(settings, embeddings=WordEmbeddings())

    return make


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.retried])
async def test_what_passes_is_retried(server: Server, opened: Callable[..., DualMem], chat_of: Make, name: str) -> None:
    server.faults = [FAULTS[name], FAULTS[name]]
    async with opened() as memory:
        receipt = await memory.remember(chat_of(*LINES), user_id="ana")
    assert (receipt.memories_made, receipt.turns_pending, receipt.failures) == (3, 0, ())


@pytest.mark.parametrize("name", FAULTS)
async def test_what_does_not_pass_is_given_up_and_told(
    server: Server, opened: Callable[..., DualMem], chat_of: Make, name: str
) -> None:
    server.always = FAULTS[name]
    async with opened() as memory:
        receipt = await memory.remember(chat_of(*LINES), user_id="ana")
        assert server.requests == (MOST if FAULTS[name].retried else 1)
        assert (receipt.turns_stored, receipt.turns_pending, receipt.memories_made) == (3, 3, 0)
        assert receipt.failures
        assert all(failure.startswith("extract: ") and "\n" not in failure for failure in receipt.failures)
        with pytest.raises(ModelUnavailable):
            await memory.recall("Where does Ana live?", user_id="ana")
        server.always = None
        (resumed,) = await memory.resume(user_id="ana")
        assert (resumed.memories_made, resumed.turns_pending) == (3, 0)


@pytest.mark.parametrize(
    "fault", [Fault(hang=True), Fault(429, BUSY, {"Retry-After": "55"}), Fault(429, BUSY)], ids=["hang", "later", "429"]
)
async def test_a_call_with_all_its_retries_ends_by_its_deadline(
    server: Server, opened: Callable[..., DualMem], chat_of: Make, fault: Fault
) -> None:
    server.always = fault
    async with opened(call_timeout=0.3) as memory:
        receipt = await memory.remember(chat_of(*LINES), user_id="ana")
    assert receipt.turns_pending == 3
    assert "no reply from the model within 0.3 s" in receipt.failures[0]
