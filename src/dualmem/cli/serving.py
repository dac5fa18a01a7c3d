"""`dualmem mcp`: memory for the clients on a desktop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dualmem.cleaning import clean_user_id
from dualmem.errors import ConfigurationError
from dualmem.models import chat_name, embedding_name

if TYPE_CHECKING:
    from dualmem.config import Settings

INTERRUPTED: Final = 130
"""The status after Ctrl-C, by the custom of shells."""


async def serve_mcp(settings: Settings, user_id: str) -> None:
    """Serve `user_id`'s memory over standard input and output until the client goes.

    Raises:
        InvalidUser: The user is blank.
        ModelNotConfigured: No model is configured; a client would learn that only from its first call.
        ConfigurationError: The extra `mcp` is not installed.
    """
    user_id = clean_user_id(user_id)
    chat_name(settings)
    embedding_name(settings)
    try:
        from dualmem.integrations.mcp import serve
    except ModuleNotFoundError as error:
        message = f'the MCP server is not installed ({error.name}); install it with: pip install "dualmem[mcp]"'
        raise ConfigurationError(message) from error
    from dualmem.memory import DualMem

    in_folder = settings.store != ":memory:" and "://" not in settings.store
    async with DualMem(settings) as memory:
        with _leaving_at_once():
            await serve(memory, user_id=user_id, share_store=in_folder)


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Let Ctrl-C end this process.

    A thread waits in a read of standard input, which nothing interrupts, and leaving in good order would wait for the
    thread. The store is closed between calls, and what a call has written stands whenever the process ends.
    """

    def leave(*_: object) -> None:
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
