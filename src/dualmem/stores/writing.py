"""One writer a user: in this process by a lock, among processes by a lease in the store.

Deciding what a new memory replaces, and writing it, must be one step: two that decide at once would both retire the
same memory. The lock is one for all event loops of a process and all objects over the same data.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from dualmem.errors import StoreError, UserBusy
from dualmem.identity import stable_id
from dualmem.stores.backend import Backend, Filter, Point
from dualmem.stores.payload import CONTROL, is_any

PATIENCE: Final = 10
"""Lease times that a writer waits for another one that shows life."""

_BEATS: Final = 3
"""Signs of life in a lease's time."""

_PAUSE: Final = 0.5
"""Most seconds between two looks at another writer's lease."""


@dataclass
class _Line:
    """Those who wait for one user; the first of them goes next. Each may wait in an event loop of its own."""

    taken: bool = False
    waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = field(default_factory=deque)


_lines: dict[tuple[str, str], _Line] = {}
_guard = threading.Lock()


@asynccontextmanager
async def alone(place: str, user_id: str) -> AsyncIterator[None]:
    """Be the one in this process who writes a user's data; others wait, in order.

    Args:
        place: What names the data: `Backend.key`.
        user_id: Whose data it is.
    """
    key = (place, user_id)
    await _enter(key)
    try:
        yield
    finally:
        _leave(key)


async def _enter(key: tuple[str, str]) -> None:
    loop = asyncio.get_running_loop()
    with _guard:
        line = _lines.setdefault(key, _Line())
        if not line.taken:
            line.taken = True
            return
        turn = loop.create_future()
        line.waiting.append((loop, turn))
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            _leave(key)  # it was given the turn, and does not take it
        raise


def _leave(key: tuple[str, str]) -> None:
    with _guard:
        line = _lines[key]
        while line.waiting:
            loop, turn = line.waiting.popleft()
            # A loop that was closed has nobody in it who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_give, key, turn)
                return
        del _lines[key]


def _give(key: tuple[str, str], turn: asyncio.Future[None]) -> None:
    if turn.done():
        _leave(key)  # it was cancelled meanwhile
    else:
        turn.set_result(None)


class Lease:
    """The right to write a user's data on a server that several processes share.

    Leases of a user are points with consecutive numbers; a point is only ever made where none is, so that of several
    who want the next number one gets it. The last point stays when its holder is done, marked as over. One whose
    holder shows no life for `seconds` is over, too: the clocks of all processes must agree better than that.

    Args:
        backend: Where the leases are kept; open.
        user_id: Whose data it is. Only a digest of it is stored.
        seconds: How long the lease lasts without a sign of life.
    """

    def __init__(self, backend: Backend, user_id: str, seconds: float) -> None:
        self._backend = backend
        self._user_id = user_id
        self._digest = stable_id("control", "lease", user_id)
        self._seconds = seconds
        self._owner = uuid.uuid4().hex
        self._number = 0
        self._heart: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Wait until nobody else writes.

        Raises:
            UserBusy: Another writer was still at work after `PATIENCE` times the lease.
        """
        end = time.monotonic() + PATIENCE * self._seconds
        pause = 0.01
        while not await self._try():
            if time.monotonic() > end:
                message = (
                    f"another process has been writing the memory of user {self._user_id!r} for more than "
                    f"{PATIENCE * self._seconds:g} s; try again when it is done"
                )
                raise UserBusy(message)
            await asyncio.sleep(pause)
            pause = min(_PAUSE, 2 * pause)
        self._heart = asyncio.create_task(self._beat())

    async def _try(self) -> bool:
        mine = Filter((is_any("user_id", self._digest), is_any("what", "lease")))
        rows = await self._backend.scroll(CONTROL, mine)
        last = max((payload for _, payload in rows), key=lambda payload: int(payload["number"]), default=None)
        if last is not None and float(last["until"]) > time.time():
            return False
        self._number = 1 if last is None else int(last["number"]) + 1
        payload = {
            "what": "lease",
            "user_id": self._digest,
            "number": self._number,
            "owner": self._owner,
            "until": time.time() + self._seconds,
        }
        await self._backend.upsert(CONTROL, [Point(self._point(self._number), payload, {})], only_new=True)
        if not await self._held():
            return False
        await self._backend.delete(CONTROL, [key for key, _ in rows])
        return True

    def _point(self, number: int) -> str:
        return stable_id("control", "lease", self._user_id, str(number))

    async def _held(self) -> bool:
        mine, next_one = self._point(self._number), self._point(self._number + 1)
        found = await self._backend.retrieve(CONTROL, [mine, next_one])
        return mine in found and found[mine]["owner"] == self._owner and next_one not in found

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / _BEATS)
            # A sign of life that does not get through is followed by another; `check` tells whether it was too late.
            with suppress(StoreError):
                await self._backend.set_payload(
                    CONTROL, [self._point(self._number)], {"until": time.time() + self._seconds}
                )

    async def check(self) -> None:
        """Refuse to go on where another writer took over.

        Raises:
            UserBusy: One did, since this one showed no life for too long.
        """
        if not await self._held():
            message = (
                f"another process took over writing the memory of user {self._user_id!r}, since this one showed no "
                f"life for {self._seconds:g} s; nothing was changed: try again, or set DUALMEM_LEASE_SECONDS higher"
            )
            raise UserBusy(message)

    async def give_back(self) -> None:
        """Let the next writer go on at once."""
        if self._heart is not None:
            self._heart.cancel()
            with suppress(asyncio.CancelledError):
                await self._heart
        # Not reached now, the lease ends by itself.
        with suppress(StoreError):
            await self._backend.set_payload(CONTROL, [self._point(self._number)], {"until": 0.0})
