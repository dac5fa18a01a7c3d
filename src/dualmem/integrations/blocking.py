"""The one way from synchronous code into this package: an event loop in a thread of its own.

Models and connections belong to the event loop that first used them, so all synchronous calls of a process share
one loop instead of making one each.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

from dualmem.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

T = TypeVar("T")

_starting = threading.Lock()
_running: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop by process id: a forked process inherits the entry, and not the thread."""


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on the loop of synchronous calls, and return what it returns.

    LangSmith's trace goes on in it. The run of a graph around it does not: with it a synchronous checkpointer
    would come along, which asynchronous graphs cannot use.

    Raises:
        ConfigurationError: The caller is on that loop itself, and would wait for itself.
    """
    future = start(work, detached_context())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def start(work: Coroutine[Any, Any, T], context: Context) -> Future[T]:
    """Begin `work` on the loop of synchronous calls, in `context`, and return at once.

    Raises:
        ConfigurationError: The caller is on that loop itself.
    """
    loop = _loop()
    if _current() is loop:
        work.close()
        message = "a synchronous call was made from inside another one; use the asynchronous method there"
        raise ConfigurationError(message)
    return context.run(asyncio.run_coroutine_threadsafe, work, loop)


def detached_context() -> Context:
    """Return a copy of the current context without the graph run it is part of."""
    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    return context


def _current() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop() -> asyncio.AbstractEventLoop:
    process = os.getpid()
    with _starting:
        if process not in _running:
            loop = asyncio.new_event_loop()
            # A daemon: a program that ends must not wait for it.
            threading.Thread(target=loop.run_forever, name="dualmem", daemon=True).start()
            _running[process] = loop
        return _running[process]
