"""HTTP connections for OpenAI's client, kept apart by event loop, and requests that it sends as they are.

langchain-openai keeps one pool of connections for all loops. After `asyncio.run` has closed the loop that made them, a
call in the next loop fails on them ("Event loop is closed"), and two loops in two threads wake each other's waiters.

Its requests are plain values, and it reads replies as plain values. The client compares each part of a request with
its types all the same, and makes objects of each part of a reply: half of all computing that a call costs. What is
here leaves that out; headers, retries and errors are the client's.

Imports openai, so that it is only imported where a model of that kind is used.
"""

from __future__ import annotations

import array
import asyncio
import base64
import json
import sys
import threading
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any, TypeVar

import openai
from openai.resources import AsyncEmbeddings
from openai.resources.chat import AsyncCompletions

M = TypeVar("M")


class LoopClient(openai.DefaultAsyncHttpxClient):
    """An HTTP client that has a pool of connections for each event loop, closed when the loop ends.

    Args:
        options: Of httpx's `AsyncClient`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._loop_options = options
        self._loop_pools: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None]]] = {}
        self._loop_lock = threading.Lock()

    async def send(self, request: Any, **options: Any) -> Any:
        """Send `request` over a connection of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._loop_pools.get(loop)
        if kept is not None:
            return await kept[0].send(request, **options)
        pool = openai.DefaultAsyncHttpxClient(**self._loop_options)
        ending = self._until_the_end(loop, pool)
        with self._loop_lock:
            # A loop that was closed without being shut down has left its pool behind.
            for gone in [loop for loop in self._loop_pools if loop.is_closed()]:
                del self._loop_pools[gone]
            self._loop_pools[loop] = pool, ending
        await anext(ending)
        return await pool.send(request, **options)

    async def _until_the_end(self, loop: asyncio.AbstractEventLoop, pool: Any) -> AsyncGenerator[None]:
        """Close `pool` at the end: a loop that is shut down closes the generators that began in it, while it runs."""
        try:
            yield
        finally:
            with self._loop_lock:
                self._loop_pools.pop(loop, None)
            await pool.aclose()


class PlainCompletions(AsyncCompletions):
    """Chat completions with a form for the reply, asked for and returned as JSON has them."""

    async def parse(self, **request: Any) -> Any:
        """Send a request; a reply that was cut off or refused is returned, too."""
        options = _options(request)
        return await self._post("/chat/completions", body=request, options=options, cast_to=object)


class PlainEmbeddings(AsyncEmbeddings):
    """Embeddings, asked for and returned as JSON has them."""

    async def create(self, **request: Any) -> Any:
        """Embed texts; vectors come as base64 where the server can, as with the client's own method.

        Raises:
            ValueError: The reply holds no vectors.
        """
        options = _options(request)
        body = {"encoding_format": "base64", **request}
        reply: Any = await self._post("/embeddings", body=body, options=options, cast_to=object)
        if isinstance(reply, str):  # a server that does not call it JSON
            reply = json.loads(reply)
        if not (isinstance(reply, dict) and reply.get("data")):
            message = f"no embeddings in the reply: {str(reply)[:200]}"
            raise ValueError(message)
        if "encoding_format" not in request:
            for one in reply["data"]:
                one["embedding"] = _numbers(one["embedding"])
        return reply


def _options(request: dict[str, Any]) -> Any:
    """Take out of a request's arguments what is for the client, as options of its."""
    names = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
    given = {option: request.pop(name) for name, option in names.items() if name in request}
    return {name: value for name, value in given.items() if value is not None}


def _numbers(vector: str | list[float]) -> list[float]:
    """Return the numbers of a vector, which base64 holds as 32-bit ones, the lowest byte first."""
    if not isinstance(vector, str):
        return vector
    numbers = array.array("f", base64.b64decode(vector))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def per_loop(model: M) -> M:
    """Return a chat model or embeddings of langchain-openai with connections of its own for each event loop.

    What it asks and is told is not taken apart by the client.

    One that was given an HTTP client comes back as it is.

    Args:
        model: Stays as it is; what comes back is a copy.
    """
    given: Any = model
    if given.http_async_client is not None and not given.openai_proxy:
        return model
    # Reading the certificates takes a tenth of a second: once, and not for each loop. The library is httpx, or
    # httpx2 in newer SDKs.
    library = import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
    options = {"proxy": given.openai_proxy} if given.openai_proxy else {}
    http_client = LoopClient(verify=library.create_ssl_context(), **options)
    if hasattr(given, "root_async_client"):
        client = given.root_async_client.copy(http_client=http_client)
        client.chat.completions = PlainCompletions(client)
        changed = {"root_async_client": client, "async_client": client.chat.completions}
    else:
        # Embeddings keep of the client only its part for embeddings.
        client = given.async_client._client.copy(http_client=http_client)  # noqa: SLF001 - no public way to it
        changed = {"async_client": PlainEmbeddings(client)}
    copied: M = given.model_copy(update=changed)
    return copied
