"""Sixteen who write and sixteen who read, at once: nothing lost, nothing twice, nobody waits for ever.

`TRUST_ROUNDS` sets how often each writer writes, 2 by default; the long form is 4.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import pytest

from dualmem import DualMem
from dualmem.lifecycle import violations
from dualmem.testing import WordEmbeddings

Open = Callable[..., DualMem]
Make = Callable[..., Any]
ROUNDS = int(os.environ.get("TRUST_ROUNDS", "2"))
CROWD = 16
PROCESSES = 4
SERVER = os.environ.get("DUALMEM_TEST_QDRANT_URL", "")
PATIENCE = 600
"""Seconds after which somebody waits for ever."""


async def write(memory: DualMem, number: int, users: list[str], chat_of: Make) -> None:
    """Tell each round something new, with a change of home in it, and half of it twice."""
    user = users[number % len(users)]
    for round_ in range(ROUNDS):
        lines = (f"Ana: Ana lives in town{number} since {round_}.", f"Ana: Ana owns boat {number} {round_}.")
        # Conversations are shared by writers: two of them tell into one at the same time.
        told = chat_of(*lines, start=10 * (number * ROUNDS + round_))
        await memory.remember(told, user_id=user, conversation_id=f"chat {number // 4}")
        if number % 2:
            await memory.remember(told, user_id=user, conversation_id=f"chat {number // 4}")


async def read(memory: DualMem, number: int, users: list[str], done: Callable[[], bool]) -> int:
    """Look again and again until the writers are through; what is seen must be whole."""
    user, looks = users[number % len(users)], 0
    while not done():
        # A chain seen while it is being written may lack its other end; nothing else may be wrong.
        for one in await memory.memories(user_id=user, states=()):
            assert (one.user_id, one.state in {"active", "superseded", "merged", "contradicted"}) == (user, True)
        for item in await memory.search("Where does Ana live?", user_id=user):
            assert item.source_turn_ids
        looks += 1
        await asyncio.sleep(0)
    return looks


async def check(memory: DualMem, users: list[str], *, writers_of: Callable[[int], list[int]] | None = None) -> None:
    """Nothing is lost, nothing is twice, and the rules hold."""
    assert await memory.resources.store.open(create=False)
    for place, user in enumerate(users):
        writers = writers_of(place) if writers_of else [n for n in range(CROWD) if n % len(users) == place]
        told = sorted(
            text
            for number in writers
            for round_ in range(ROUNDS)
            for text in (f"Ana lives in town{number} since {round_}.", f"Ana owns boat {number} {round_}.")
        )
        turns = await memory.resources.store.turns(user)
        assert sorted(turn.text for turn in turns) == told
        assert {turn.state for turn in turns} == {"read"}
        for conversation in {turn.conversation_id for turn in turns}:
            positions = [turn.position for turn in turns if turn.conversation_id == conversation]
            assert sorted(positions) == list(range(len(positions)))
        made = await memory.memories(user_id=user, states=())
        assert sorted(one.text for one in made) == told
        assert violations(made) == []
        assert sum(one.active for one in made if "lives" in one.text) == 1, "one home is in force"
    assert [fault for one in await memory.doctor() for fault in one.faults] == []


@pytest.mark.parametrize("count", [1, 5], ids=["one user", "several users"])
async def test_tasks_of_one_event_loop(open_memory: Open, reader: Make, chat_of: Make, count: int) -> None:
    memories = [open_memory(reader(), candidate_similarity=-1.0, similar_memories=50) for _ in range(4)]
    users = [f"user {number}" for number in range(count)]
    writers = [asyncio.create_task(write(memories[n % 4], n, users, chat_of)) for n in range(CROWD)]

    def done() -> bool:
        return all(task.done() for task in writers)

    readers = [asyncio.create_task(read(memories[n % 4], n, users, done)) for n in range(CROWD)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*writers, *readers)
    assert all(task.result() for task in readers)
    await check(memories[0], users)


def test_threads_with_an_event_loop_each(shared_store: Path, reader: Make, chat_of: Make) -> None:
    users = ["ana", "bea", "cyd"]
    options: dict[str, Any] = {"candidate_similarity": -1.0, "similar_memories": 50}
    failures: list[BaseException] = []
    written = threading.Semaphore(0)
    finished = threading.Event()

    def start(work: Callable[[DualMem], Any]) -> None:
        async def run() -> None:
            async with DualMem(
                store=str(shared_store), chat_model=reader(), embeddings=WordEmbeddings(), **options
            ) as memory:
                await work(memory)

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    def writing(number: int) -> None:
        start(lambda memory: write(memory, number, users, chat_of))
        written.release()

    threads = [threading.Thread(target=writing, args=(n,)) for n in range(CROWD)] + [
        threading.Thread(target=start, args=(lambda memory, n=n: read(memory, n, users, finished.is_set),))
        for n in range(CROWD)
    ]
    for thread in threads:
        thread.start()
    for _ in range(CROWD):
        assert written.acquire(timeout=PATIENCE)
    finished.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failures == []

    async def look() -> None:
        async with DualMem(store=str(shared_store), chat_model=reader(), embeddings=WordEmbeddings()) as memory:
            await check(memory, users)

    asyncio.run(look())


@pytest.mark.parametrize("command", [["memories", "list", "--user", "ana"], ["doctor"], ["compact"]])
async def test_a_second_process_is_told_what_to_do(
    open_memory: Open, shared_store: Path, command: list[str], chat_of: Make
) -> None:
    await open_memory(strategy="verbatim").remember(chat_of("Ana: I have a boat."), user_id="ana")
    env = {"PATH": os.environ["PATH"], "HOME": str(Path.cwd()), "DUALMEM_STORE": str(shared_store)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", "from dualmem.cli import main; main()", *command],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert re.search("open in another process.*close that one first.*Qdrant server", line)


# Processes over one server


def loaded(path: Path) -> Any:
    """Return the module of a file that is no test."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["stand-in", "server"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a real server, or of one that answers Qdrant's requests from qdrant-client's `:memory:` mode."""
    if request.param == "server":
        if not SERVER:
            pytest.skip("needs a Qdrant server on this machine: its URL in DUALMEM_TEST_QDRANT_URL")
        yield SERVER
        return
    fake = loaded(Path(__file__).parents[1] / "stores" / "conftest.py").FakeServer()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = httpx.Request(self.command, f"http://localhost{self.path}", content=body)
            given = asyncio.run(fake._handle(asked))
            self.send_response(given.status_code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(given.content)))
            self.end_headers()
            self.wfile.write(given.content)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.server
async def test_processes_over_one_server(url: str) -> None:
    """Several writers a user in each of several processes, and one that dies while it has the right to write."""
    script = Path(__file__).with_name("crowding.py")
    crowding = loaded(script)
    prefix, users = f"crowd-{uuid.uuid4().hex}", ["ana", "bea"]

    async def start(*arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(script), url, prefix, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    async with asyncio.timeout(PATIENCE):
        holder = await start("hold", "ana")
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        writers = [await start("write", str(number), str(ROUNDS), *users) for number in range(PROCESSES)]
        await asyncio.sleep(crowding.LEASE)
        assert all(writer.returncode is None for writer in writers), "they wait for who holds the user and lives"
        holder.kill()
        await holder.wait()
        for writer in writers:
            _, complaint = await writer.communicate()
            assert (writer.returncode, complaint.decode()[-2000:]) == (0, "")
    async with crowding.opened(url, prefix) as memory:
        await check(memory, users, writers_of=lambda _: list(range(PROCESSES)))
