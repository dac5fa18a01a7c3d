"""Models that are asked in one event loop after another, as by two calls of `asyncio.run`."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, SecretStr

from dualmem.chat import Chat, Prompt
from dualmem.config import load_settings
from dualmem.embedding import Embedder
from dualmem.errors import ModelUnavailable, ReplyTruncated
from dualmem.models import make_chat, make_embedder
from dualmem.testing import WordEmbeddings

pytestmark = pytest.mark.loopback

AT_ONCE = 8
"""More than a client tries again, so that connections of a closed loop cannot be used up by trying."""


class City(BaseModel):
    """A reply."""

    city: str


PROMPT = Prompt(step="answer", messages=(HumanMessage("Where?"),), output=City, schema=City.model_json_schema())


@dataclass
class Server:
    """A server of the OpenAI protocol that keeps connections open, and counts."""

    url: str = ""
    requests: int = 0
    connections: int = 0
    open: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    together: threading.Barrier | None = None
    """Requests wait for each other, so that each needs a connection of its own."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests."""
    packed: bool = False
    """Whether vectors are sent as base64."""
    choice: dict[str, Any] = field(default_factory=dict)
    """What is different about a reply."""
    kind: str = "application/json"

    def all_closed(self) -> bool:
        """Wait until the clients have closed every connection."""
        with self.changed:
            return self.changed.wait_for(lambda: self.open == 0, 10)


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with served.changed:
                served.connections += 1
                served.open += 1

        def finish(self) -> None:
            super().finish()
            with served.changed:
                served.open -= 1
                served.changed.notify_all()

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with served.changed:
                served.requests += 1
                served.asked.append(given)
            if served.together is not None:
                served.together.wait(10)
            if self.path.endswith("/embeddings"):
                vectors: list[Any] = WordEmbeddings().embed_documents(given["input"])
                if served.packed:
                    vectors = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in vectors]
                data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
                done: Any = {"object": "list", "model": "m", "data": data, "usage": {}}
                done["usage"] = {"prompt_tokens": 1, "total_tokens": 1}
            else:
                message = {"role": "assistant", "content": '{"city": "Porto"}'}
                choice = {"index": 0, "message": message, "finish_reason": "stop"} | served.choice
                done = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            body = json.dumps(done).encode()
            self.send_response(200)
            self.send_header("Content-Type", served.kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    served.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield served
    http.shutdown()
    thread.join()
    http.server_close()


def named_chat(url: str) -> Chat:
    return make_chat(load_settings(chat_model="openai:m", base_url=url))


def own_model(url: str, **options: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="m", base_url=url, api_key=SecretStr("none"), **options)


def given_chat(url: str) -> Chat:
    return make_chat(load_settings(), own_model(url))


def named_embedder(url: str) -> Embedder:
    return make_embedder(load_settings(embedding_model="openai:m", base_url=url))


def given_embedder(url: str) -> Embedder:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        model="m", openai_api_base=url, openai_api_key=SecretStr("none"), check_embedding_ctx_length=False
    )
    return make_embedder(load_settings(), embeddings)


Call = Callable[[int], Any]


def asking(chat: Chat) -> Call:
    return lambda _: chat.ask(PROMPT)


def embedding(embedder: Embedder) -> Call:
    return lambda number: embedder.query(f"text {number}")


CALLS: dict[str, Callable[[str], Call]] = {
    "named chat": lambda url: asking(named_chat(url)),
    "given chat": lambda url: asking(given_chat(url)),
    "named embeddings": lambda url: embedding(named_embedder(url)),
    "given embeddings": lambda url: embedding(given_embedder(url)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_loop_has_connections_of_its_own_and_closes_them(server: Server, name: str) -> None:
    call = CALLS[name](server.url)

    async def several(first: int) -> None:
        await asyncio.gather(*(call(first + number) for number in range(AT_ONCE)))

    server.together = threading.Barrier(AT_ONCE)
    for loop in range(3):
        asyncio.run(several(loop * AT_ONCE))
        assert server.all_closed()
    # Nothing was tried again, and nothing is left for the collector to complain of.
    assert server.requests == server.connections == 3 * AT_ONCE
    gc.collect()


@pytest.mark.parametrize("name", CALLS)
def test_within_a_loop_a_connection_is_used_again(server: Server, name: str) -> None:
    call = CALLS[name](server.url)

    async def in_sequence() -> None:
        for number in range(5):
            await call(number)

    asyncio.run(in_sequence())
    assert (server.requests, server.connections) == (5, 1)


def test_loops_of_two_threads_ask_at_once(server: Server) -> None:
    chat = named_chat(server.url)
    server.together = threading.Barrier(2)
    cities: list[str] = []

    async def ask() -> None:
        cities.extend([(await chat.ask(PROMPT)).value.city for _ in range(5)])

    threads = [threading.Thread(target=asyncio.run, args=(ask(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cities == ["Porto"] * 10
    assert (server.requests, server.connections) == (10, 2)
    assert server.all_closed()


def test_connections_of_a_loop_that_was_not_shut_down_are_let_go(server: Server) -> None:
    chat = named_chat(server.url)

    def abandon() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(chat.ask(PROMPT))
        loop.close()

    def ask_again() -> None:
        assert asyncio.run(chat.ask(PROMPT)).value.city == "Porto"
        gc.collect()

    abandon()
    # Nobody can close them any more; the collector does, and says so.
    with pytest.warns(ResourceWarning, match="unclosed"):
        ask_again()
    assert server.all_closed()


def test_what_has_an_http_client_of_its_own_keeps_it(server: Server) -> None:
    import openai

    own = openai.DefaultAsyncHttpxClient()
    model = own_model(server.url, http_async_client=own)
    assert make_chat(load_settings(), model).model is model
    given = own_model(server.url)
    before = given.root_async_client
    made: Any = make_chat(load_settings(), given).model
    assert given.root_async_client is before is not made.root_async_client
    assert made.openai_api_base == server.url


def test_a_proxy_that_is_set_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_PROXY", server.url.removesuffix("/v1"))
    chat = named_chat("http://models.invalid/v1")
    for _ in range(2):
        assert asyncio.run(chat.ask(PROMPT)).value.city == "Porto"
    assert server.requests == 2


# What is sent and read as it is


@pytest.mark.parametrize("make", [named_chat, given_chat])
async def test_a_request_is_sent_with_its_form(server: Server, make: Callable[[str], Chat]) -> None:
    reply = await make(server.url).ask(PROMPT)
    assert reply.value == City(city="Porto")
    (asked,) = server.asked
    assert asked["messages"] == [{"role": "user", "content": "Where?"}]
    assert asked["response_format"]["json_schema"]["schema"] == PROMPT.schema


async def test_a_reply_that_was_cut_off_is_told_with_what_it_cost(server: Server) -> None:
    server.choice = {"finish_reason": "length"}
    with pytest.raises(ReplyTruncated) as caught:
        await named_chat(server.url).ask(PROMPT)
    assert len(caught.value.calls) == 1


async def test_a_refusal_is_told(server: Server) -> None:
    server.choice = {"message": {"role": "assistant", "content": None, "refusal": "I may not say."}}
    with pytest.raises(ModelUnavailable, match="I may not say"):
        await named_chat(server.url).ask(PROMPT)


async def test_what_is_no_json_is_a_failed_call(server: Server) -> None:
    server.kind = "text/html"
    with pytest.raises(ModelUnavailable, match="Unexpected response type"):
        await named_chat(server.url).ask(PROMPT)


@pytest.mark.parametrize("make", [named_embedder, given_embedder])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
async def test_vectors_are_read_however_they_come(
    server: Server, make: Callable[[str], Embedder], packed: bool, kind: str
) -> None:
    server.packed, server.kind = packed, kind
    vectors = await make(server.url).documents(["a dog", "a cat"])
    for vector, expected in zip(vectors, WordEmbeddings().embed_documents(["a dog", "a cat"]), strict=True):
        assert vector == pytest.approx(expected)
    assert server.asked[0]["encoding_format"] == "base64"
