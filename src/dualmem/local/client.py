"""The chat model over a `LocalServer`: a `ChatOpenAI` that starts its server and works from any event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr, SkipValidation

from dualmem.connections import LoopClient
from dualmem.local.server import LocalServer

_ANYWHERE = "http://127.0.0.1/v1"
"""Base URL of the clients, who learn the server's port with each request."""

_ONE_LINE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""LLGuidance's options for JSON without a choice of white space."""


class LocalChat(ChatOpenAI):
    """A chat model that starts its server when it is called.

    It starts the server here, not where the HTTP request is sent, so that what goes wrong reaches the caller as
    dualmem's own error: openai's client would wrap it into a connection error.
    """

    server: SkipValidation[LocalServer] = Field(exclude=True, repr=False)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.server.start()
        return super()._generate(messages, stop, run_manager, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await asyncio.to_thread(self.server.start)
        return await super()._agenerate(messages, stop, run_manager, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        self.server.start()
        yield from super()._stream(*args, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.to_thread(self.server.start)
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


# No proxy of the environment stands between this machine and itself, and without TLS no certificates need to be
# read, which would block the event loop.
_PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}


class LocalClient(openai.DefaultHttpxClient):
    """Sends each request to where the server listens now."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(**_PLAIN)
        self._local_server = server

    def send(self, request: Any, **options: Any) -> Any:
        """Send `request` to the server."""
        return super().send(_redirected(self, self._local_server, request), **options)


class LocalAsyncClient(LoopClient):
    """Sends each request to where the server listens now, from a connection pool of the running event loop."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(**_PLAIN)
        self._local_server = server

    async def send(self, request: Any, **options: Any) -> Any:
        """Send `request` to the server."""
        return await super().send(_redirected(self, self._local_server, request), **options)


@cache
def http_clients(server: LocalServer) -> tuple[LocalClient, LocalAsyncClient]:
    """Return the clients of `server`, made once: they outlive the chat models that use them."""
    return LocalClient(server), LocalAsyncClient(server)


def make_chat(server: LocalServer, *, temperature: float, max_tokens: int, timeout: float) -> LocalChat:
    """Return a chat model over `server`, with the limits that `local_chat_model` describes."""
    http_client, http_async_client = http_clients(server)
    return LocalChat(
        server=server,
        model=server.model_name,
        base_url=_ANYWHERE,
        api_key=SecretStr(server.key),
        http_client=http_client,
        http_async_client=http_async_client,
        # Clients of one's own and a proxy exclude each other, and the environment may name one.
        openai_proxy=None,
        use_responses_api=False,
        stream_usage=True,
        temperature=temperature,
        max_completion_tokens=max_tokens,
        timeout=timeout,
        # What failed on this machine fails again, and a reply that came too late would be written twice.
        max_retries=0,
    )


def compact_json(body: bytes) -> bytes:
    """Return a request's body with its JSON schema as a grammar that allows one way of white space.

    The server's own grammar for a schema lets the model indent, which it does: over a third of its tokens, and of
    the time, went into white space.

    Args:
        body: The body of a request for a chat completion, or anything else, which comes back as it is.
    """
    try:
        request = json.loads(body)
        schema = request["response_format"]["json_schema"]["schema"]
    except (ValueError, TypeError, KeyError):
        return body
    del request["response_format"]
    request["grammar"] = "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": _ONE_LINE})
    return json.dumps(request).encode()


def _redirected(client: Any, server: LocalServer, request: Any) -> Any:
    """Return `request` as `client` has to send it."""
    body = compact_json(request.content)
    headers = {name: value for name, value in request.headers.items() if name.lower() not in {"host", "content-length"}}
    return client.build_request(
        request.method,
        server.address + request.url.raw_path.decode("ascii"),
        content=body,
        # Connections do not stay open, or those of a closed event loop would be left behind. One costs 0.1 ms.
        headers={**headers, "Connection": "close"},
        extensions=request.extensions,
    )
