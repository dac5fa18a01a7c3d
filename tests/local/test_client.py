"""The chat model over a server of this machine: from any loop, through one set of clients, with plain errors."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dualmem.errors import ConfigurationError
from dualmem.local.client import LocalChat, compact_json, http_clients, make_chat
from dualmem.local.server import local_chat_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from dualmem.local.server import LocalServer

    Events = Callable[[], list[dict[str, Any]]]
    Make = Callable[..., LocalServer]

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "check", "schema": SCHEMA, "strict": True}}


def chat_with(server: LocalServer) -> LocalChat:
    return make_chat(server, temperature=0.0, max_tokens=64, timeout=60.0)


@pytest.mark.usefixtures("_loopback")
def test_it_works_in_one_event_loop_after_another(make_server: Make, events: Events) -> None:
    chat = chat_with(make_server())
    for _ in range(3):
        reply = asyncio.run(chat.ainvoke("hello"))
        assert reply.text == '{"ok": true}'
    assert [event["started"] for event in events() if "started" in event] == [chat.server._process.pid]  # type: ignore[union-attr] # it has started


@pytest.mark.usefixtures("_loopback")
def test_it_works_in_several_event_loops_at_once(make_server: Make, events: Events) -> None:
    chat = chat_with(make_server())
    texts: list[str] = []

    async def ask_some() -> None:
        replies = await asyncio.gather(*(chat.ainvoke("hello") for _ in range(5)))
        texts.extend(reply.text for reply in replies)

    threads = [threading.Thread(target=asyncio.run, args=(ask_some(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ['{"ok": true}'] * 20
    assert len(events()) == 21


@pytest.mark.usefixtures("_loopback")
async def test_a_reply_comes_with_its_usage_and_reason(make_server: Make) -> None:
    reply = await chat_with(make_server()).ainvoke("hello")
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] == 9
    assert reply.usage_metadata["output_tokens"] == 4
    assert reply.usage_metadata["input_token_details"]["cache_read"] == 5
    assert reply.response_metadata["finish_reason"] == "stop"


@pytest.mark.usefixtures("_loopback")
async def test_a_reply_can_be_streamed(make_server: Make) -> None:
    chunks = [chunk async for chunk in chat_with(make_server()).astream("hello")]
    assert "".join(chunk.text for chunk in chunks) == "one two"
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) == 4


@pytest.mark.usefixtures("_loopback")
def test_it_can_be_called_without_a_loop(make_server: Make) -> None:
    chat = chat_with(make_server())
    assert chat.invoke("hello").text == '{"ok": true}'
    assert "".join(chunk.text for chunk in chat.stream("hello")) == "one two"


@pytest.mark.usefixtures("_loopback")
async def test_the_server_sees_its_key_its_limits_and_a_grammar(make_server: Make, events: Events) -> None:
    server = make_server()
    await chat_with(server).bind(response_format=FORMAT).ainvoke("hello")
    request = events()[-1]
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["authorization"] == f"Bearer {server.key}"
    assert request["headers"]["connection"] == "close"
    assert request["body"]["model"] == "tiny"
    assert request["body"]["temperature"] == 0.0
    assert request["body"]["max_completion_tokens"] == 64
    assert request["body"]["messages"] == [{"role": "user", "content": "hello"}]
    assert request["body"]["grammar"].startswith("%llguidance {}\nstart: %json {")
    assert "response_format" not in request["body"]


@pytest.mark.usefixtures("_loopback")
async def test_structured_output_of_langchain_is_read(make_server: Make) -> None:
    chat = chat_with(make_server()).with_structured_output({"title": "check", **SCHEMA}, method="json_schema")
    assert await chat.ainvoke("hello") == {"ok": True}


@pytest.mark.usefixtures("_loopback")
async def test_a_proxy_of_the_environment_is_passed_by(make_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_PROXY"):
        monkeypatch.setenv(name, "http://proxy.test:3128")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    chat = chat_with(make_server())
    assert (await chat.ainvoke("hello")).text == chat.invoke("hello").text == '{"ok": true}'


@pytest.mark.usefixtures("_loopback")
async def test_a_call_after_the_server_died_starts_it_again(make_server: Make) -> None:
    chat = chat_with(make_server())
    await chat.ainvoke("hello")
    process = chat.server._process
    assert process is not None
    process.kill()
    process.wait()
    assert (await chat.ainvoke("hello")).text == '{"ok": true}'


async def test_what_keeps_the_server_from_starting_reaches_the_caller(make_server: Make, tmp_path: Path) -> None:
    chat = chat_with(make_server(path=tmp_path / "missing.gguf"))
    with pytest.raises(ConfigurationError, match="No such file"):
        await chat.ainvoke("hello")
    with pytest.raises(ConfigurationError, match="No such file"):
        async for _ in chat.astream("hello"):
            pass
    with pytest.raises(ConfigurationError, match="No such file"):
        chat.invoke("hello")


async def test_making_a_chat_model_touches_nothing(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"cache_dir": tmp_path / "cache", "max_tokens": 64, "timeout": 60.0}
    cold = local_chat_model(tmp_path / "missing.gguf", temperature=0.0, **limits)
    warm = local_chat_model(tmp_path / "missing.gguf", temperature=0.7, **limits)
    assert isinstance(cold, LocalChat)
    assert isinstance(warm, LocalChat)
    assert (cold.temperature, warm.temperature) == (0.0, 0.7)
    assert cold.server is warm.server
    assert cold.http_async_client is warm.http_async_client is http_clients(cold.server)[1]
    assert not cold.server.running
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("_loopback")
async def test_no_step_of_it_blocks_the_event_loop(make_server: Make) -> None:
    # LangGraph's server refuses blocking calls this way; the package comes with it.
    blockbuster = pytest.importorskip("blockbuster")
    server = make_server()
    with blockbuster.blockbuster_ctx():
        chat = chat_with(server)
        await chat.ainvoke("hello")
        assert [chunk.text async for chunk in chat.astream("hello")][:2] == ["one ", "two"]


def test_the_embedded_model_has_a_name(tmp_path: Path) -> None:
    chat = local_chat_model(None, cache_dir=tmp_path, temperature=0.0, max_tokens=64, timeout=60.0)
    assert chat.model_name == "qwen2.5-coder-1.5b-instruct-q4_k_m"


def test_the_key_is_not_shown(make_server: Make) -> None:
    server = make_server()
    chat = chat_with(server)
    assert server.key not in repr(chat)
    assert server.key not in json.dumps(chat.to_json(), default=repr)


def test_a_schema_becomes_a_grammar_of_one_line() -> None:
    body = {"model": "tiny", "response_format": FORMAT, "messages": [{"role": "user", "content": "ä"}]}
    found = json.loads(compact_json(json.dumps(body).encode()))
    grammar = found.pop("grammar")
    assert found == {"model": "tiny", "messages": body["messages"]}
    head, _, schema = grammar.partition("%json ")
    assert head == "%llguidance {}\nstart: "
    guidance = json.loads(schema).pop("x-guidance")
    assert guidance["whitespace_flexible"] is False
    assert {**json.loads(schema), "x-guidance": guidance} == {**SCHEMA, "x-guidance": guidance}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[1]",
        b'"text"',
        b'{"messages": []}',
        b'{"response_format": null}',
        b'{"response_format": {"type": "json_object"}}',
        b'{"response_format": {"type": "json_schema", "json_schema": "x"}}',
        b"\xff",
    ],
)
def test_another_body_stays_as_it_is(body: bytes) -> None:
    assert compact_json(body) == body
