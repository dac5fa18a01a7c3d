"""Serve the explorer on this machine, until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from dualmem.errors import ConfigurationError
from dualmem.explorer.app import build_app
from dualmem.explorer.guard import Access

if TYPE_CHECKING:
    from dualmem.evals.prices import PriceTable
    from dualmem.memory import DualMem

HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


async def serve(
    memory: DualMem,
    *,
    port: int,
    writable: bool,
    prices: PriceTable,
    user_id: str,
    ready: Callable[[str], None],
) -> None:
    """Serve the explorer of a memory's store on loopback.

    Args:
        memory: Whose store is shown.
        port: 0 for any that is free.
        writable: Whether undo, forget and writing back are offered.
        prices: What tokens cost.
        user_id: The user to begin with, "" for the list of all.
        ready: Called once, with the address to open.

    Raises:
        StoreLocked: Another process has the store open.
        ConfigurationError: The port is taken.
    """
    await memory.resources.store.open(create=False)
    bound = _bound(port)
    access = Access(bound.getsockname()[1])
    app = build_app(memory, access, writable=writable, prices=prices)
    # A stream that a browser holds open must not hold up the end.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1, lifespan="on"
    )
    address = access.url("/memories", user=user_id) if user_id else access.url()
    with bound:
        await _Server(config, lambda: ready(address)).serve(sockets=[bound])


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Else a port just used cannot be used again for a while.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        message = f"port {port} on {HOST} cannot be used ({error.strerror}); choose another with --port"
        raise ConfigurationError(message) from error
    return bound
