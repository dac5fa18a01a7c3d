"""One writer a user, in one process and among several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from dualmem.embedding import Embedder
from dualmem.errors import UserBusy
from dualmem.records import Memory
from dualmem.stores.backend import Filter
from dualmem.stores.commit import Commit
from dualmem.stores.payload import CONTROL, is_any, specs
from dualmem.stores.qdrant import QdrantBackend
from dualmem.stores.store import Store
from dualmem.stores.writing import Lease, alone
from dualmem.testing import WordEmbeddings


class Process(QdrantBackend):
    """A backend as another process would have it, over the same data."""

    def __init__(self, other: QdrantBackend | None = None) -> None:
        super().__init__(":memory:")
        if other is not None:
            self._memory = other._memory
            self._turn = other._turn
            self._specs = other._specs

    @property
    def key(self) -> str:
        return f"process {id(self)}"

    @property
    def shared(self) -> bool:
        return True


@pytest.fixture
async def backend() -> AsyncIterator[Process]:
    made = Process()
    await made.open(specs(64), create=True)
    yield made
    await made.close()


def store_of(backend: QdrantBackend, seconds: float = 60) -> Store:
    return Store(backend, Embedder(WordEmbeddings(), name="words", dimension=64), lease_seconds=seconds)


async def leases(backend: QdrantBackend) -> list[tuple[int, float]]:
    rows = await backend.scroll(CONTROL, Filter((is_any("what", "lease"),)))
    return sorted((row["number"], row["until"]) for _, row in rows)


# In one process


async def test_those_who_wait_come_in_order() -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        async with alone("here", "ana"):
            seen.append(f"{name} in")
            await asyncio.sleep(0)
            seen.append(f"{name} out")

    await asyncio.gather(*(work(name) for name in "abc"))
    assert seen == ["a in", "a out", "b in", "b out", "c in", "c out"]


async def test_other_users_and_other_data_do_not_wait() -> None:
    async with alone("here", "ana"), alone("here", "bea"), alone("there", "ana"):
        pass


async def test_who_is_cancelled_while_waiting_holds_nobody_up() -> None:
    done = asyncio.Event()

    async def wait() -> None:
        async with alone("here", "ana"):
            done.set()

    async with alone("here", "ana"):
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
    await second
    assert done.is_set()
    async with alone("here", "ana"):
        pass


async def test_who_is_cancelled_as_the_turn_comes_passes_it_on() -> None:
    async def wait() -> None:
        async with alone("here", "ana"):
            pass

    async with alone("here", "ana"):
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the turn is on its way to the first
    first.cancel()
    await second


def test_event_loops_in_several_threads_take_turns() -> None:
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            async with alone("here", "ana"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, inside) == (1, 0)


# Among several processes


async def test_a_second_process_waits_until_the_first_is_done(backend: Process) -> None:
    mine, other = store_of(backend), store_of(Process(backend))
    seen: list[str] = []

    async def write() -> None:
        async with other.writer("ana"):
            seen.append("second")

    async with mine.writer("ana"):
        waiting = asyncio.create_task(write())
        await asyncio.sleep(0.05)
        seen.append("first")
        async with other.writer("bea"):
            pass
    await waiting
    assert seen == ["first", "second"]
    assert await leases(backend) == [(1, 0.0), (2, 0.0)], "one of each user, and both are over"


async def test_a_process_that_died_is_waited_for_until_its_lease_is_over(backend: Process) -> None:
    await Lease(backend, "ana", 0.05)._try()
    async with store_of(Process(backend), 0.05).writer("ana"):
        pass
    assert [number for number, _ in await leases(backend)] == [2]


async def test_a_lease_is_kept_as_long_as_its_holder_lives(backend: Process) -> None:
    async with store_of(backend, 0.2).writer("ana"):
        await asyncio.sleep(0.5)
        assert not await Lease(Process(backend), "ana", 0.2)._try()


async def test_of_many_at_once_one_gets_the_lease(backend: Process) -> None:
    await Lease(backend, "ana", -1)._try()  # one that is over
    got = await asyncio.gather(*(Lease(Process(backend), "ana", 60)._try() for _ in range(8)))
    assert got.count(True) == 1


async def test_a_writer_that_lost_its_lease_writes_nothing(backend: Process, a_memory: object) -> None:
    mine = store_of(backend)
    async with mine.writer("ana"):
        lease = mine._leases["ana"]
        await backend.set_payload(CONTROL, [lease._point(lease._number)], {"until": 0.0})  # as after a long pause
        async with store_of(Process(backend)).writer("ana"):
            pass
        with pytest.raises(UserBusy, match="took over"):
            await mine.commit(Commit("ana", new=(_memory(a_memory),)))
    assert await mine.count("ana") == (0, 0)
    assert [until for _, until in await leases(backend)] == [0.0]


def _memory(make: object) -> Memory:
    assert callable(make)
    made = make("00000000-0000-4000-8000-000000000000")
    assert isinstance(made, Memory)
    return made


async def test_who_waits_too_long_is_told(backend: Process) -> None:
    async with store_of(backend).writer("ana"):
        with pytest.raises(UserBusy, match="'ana'"):
            await Lease(Process(backend), "ana", 0.001).take()


async def test_no_lease_names_its_user(backend: Process) -> None:
    async with store_of(backend).writer("ana@example.com"):
        pass
    assert "ana@" not in str(await backend.scroll(CONTROL, Filter()))
