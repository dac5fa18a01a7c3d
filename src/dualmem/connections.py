"""HTTP connections for OpenAI's client, kept apart by event loop.

langchain-openai keeps one pool of connections for all loops. After `asyncio.run` has closed the loop that made them, a
call in the next loop fails on them ("Event loop is closed"), and two loops in two threads wake each other's waiters.
Imports openai, so that it is only imported where a model of that kind is used.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any, TypeVar

import openai

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


def per_loop(model: M) -> M:
    """Return a chat model or embeddings of langchain-openai with connections of its own for each event loop.

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
        changed = {"root_async_client": client, "async_client": client.chat.completions}
    else:
        # Embeddings keep of the client only its part for embeddings.
        client = given.async_client._client.copy(http_client=http_client)  # noqa: SLF001 - no public way to it
        changed = {"async_client": client.embeddings}
    copied: M = given.model_copy(update=changed)
    return copied
