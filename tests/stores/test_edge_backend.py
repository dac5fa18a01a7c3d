"""What only the embedded backend does: locks, crashes, sharing, and folders that are no stores."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dualmem.errors import StoreError, StoreLocked
from dualmem.stores import edge_shard
from dualmem.stores.backend import CollectionSpec, Filter, Point, Ranking, Sparse
from dualmem.stores.edge import SHORT, EdgeBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = Filter()

CHILD = """
    import asyncio, os, sys
    from pathlib import Path
    from dualmem.errors import DualmemError
    from dualmem.stores.backend import CollectionSpec, Filter, Point, Ranking, Sparse
    from dualmem.stores.edge import EdgeBackend

    path = Path(sys.argv[1])
    specs = [CollectionSpec("notes", {"dense": 4}, ("words",), {"user": "tenant"})]
    backend = EdgeBackend(path)

    def point_id(number):
        return f"00000000-0000-0000-0000-{number:012x}"

    async def main():
        try:
            opened = await backend.open(specs, create="create" in sys.argv)
        except DualmemError as error:
            print(type(error).__name__, error, flush=True)
            return
        print("opened" if opened else "nothing", flush=True)
        await work()
"""


def point_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


def note(number: int, **payload: Any) -> Point:
    return Point(point_id(number), payload, {})


def child(path: Path, work: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that opens the store at `path` and then does `work`."""
    code = textwrap.dedent(CHILD) + "\nasync def work():\n" + textwrap.indent(textwrap.dedent(work), "    ")
    code += "\nasyncio.run(main())\n"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def let_go(process: subprocess.Popen[str]) -> None:
    """Let a process end that waits for its input."""
    if process.poll() is None:
        process.communicate("\n", timeout=60)


def names(path: Path) -> set[str]:
    """Return what is in a store's folder beside its lock."""
    return {entry.name for entry in path.iterdir()} - {".lock"}


def opens(path: Path) -> str:
    """Return what another process is told when it opens the store at `path`."""
    return child(path, "pass").communicate(timeout=60)[0].strip()


@pytest.fixture
def holder(store_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open until it reads a line."""
    process = child(store_path, "sys.stdin.readline()")
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "opened"
    yield process
    let_go(process)


# Processes


async def test_a_second_process_is_told_what_to_do(store_path: Path, holder: subprocess.Popen[str], specs: Any) -> None:
    backend = EdgeBackend(store_path)
    with pytest.raises(StoreLocked, match=r"another process.*Qdrant server") as caught:
        await backend.open(specs, create=True)
    assert str(store_path) in str(caught.value)
    with pytest.raises(StoreLocked):
        await backend.open(specs, create=False)
    await backend.close()
    let_go(holder)
    assert await backend.open(specs, create=False)
    await backend.close()


async def test_a_second_process_changes_no_file_of_a_store_that_is_open(store_path: Path, specs: Any) -> None:
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=True)
    await backend.upsert("notes", [note(number, state="a") for number in range(300)])
    seen = {path: path.stat().st_mtime_ns for path in store_path.rglob("*") if path.is_file()}
    assert "StoreLocked" in await asyncio.to_thread(opens, store_path)
    assert {path: path.stat().st_mtime_ns for path in store_path.rglob("*") if path.is_file()} == seen
    # What it would have harmed shows at the next flush.
    backend._shard("notes")._unflushed = edge_shard.FLUSH_AFTER
    await backend.upsert("notes", [note(number, state="b") for number in range(300)])
    await backend.close()
    again = EdgeBackend(store_path)
    assert await again.open(specs, create=False)
    assert await again.count("notes", ALL) == 300
    await again.close()


async def test_the_last_to_close_lets_other_processes_in(store_path: Path, specs: Any) -> None:
    first, second = EdgeBackend(store_path), EdgeBackend(store_path.parent / "." / "store")
    assert await first.open(specs, create=False)
    assert await first.open(specs, create=False)
    assert await second.open(specs, create=True)
    assert opens(store_path).startswith("StoreLocked")
    await first.close()
    await first.close()
    assert opens(store_path).startswith("StoreLocked")
    await second.close()
    assert opens(store_path) == "opened"


async def test_one_who_forgot_to_close_does_not_lock_the_store(store_path: Path, specs: Any) -> None:
    forgotten, second = EdgeBackend(store_path), EdgeBackend(store_path)
    assert await forgotten.open(specs, create=False)
    del forgotten
    gc.collect()
    assert await second.open(specs, create=False)
    await second.close()
    assert opens(store_path) == "opened"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_cannot_use_its_parents_store(store_path: Path) -> None:
    work = """
        await backend.upsert("notes", [Point(point_id(1), {"user": "parent"}, {})])
        process = os.fork()
        if not process:
            for call in (backend.count("notes", Filter()), EdgeBackend(path).open(specs, create=False)):
                try:
                    print("did", call.send(None), flush=True)
                except StopIteration as stop:
                    print("did", stop.value, flush=True)
                except DualmemError as error:
                    print(type(error).__name__, flush=True)
            os._exit(0)
        os.waitpid(process, 0)
        await backend.upsert("notes", [Point(point_id(2), {"user": "parent"}, {})])
        print(await backend.count("notes", Filter()))
    """
    # In the child no thread is left to hop to: the calls are made in place.
    inline = "async def inline(call, *args, **kwargs):\n    return call(*args, **kwargs)\nasyncio.to_thread = inline\n"
    code = textwrap.dedent(CHILD) + inline + "async def work():\n" + textwrap.indent(textwrap.dedent(work), "    ")
    code += "\nasyncio.run(main())\n"
    done = subprocess.run(
        [sys.executable, "-c", code, str(store_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:4] == ["opened", "StoreError", "StoreLocked", "2"]


def test_what_was_acknowledged_outlives_a_killed_process(store_path: Path) -> None:
    process = child(
        store_path,
        """
        for step in range(100000):
            numbers = range(1 + step * 20, 21 + step * 20)
            points = [Point(point_id(n), {"user": "u", "n": n}, {"dense": [n, 1, 0, 0]}) for n in numbers]
            await backend.upsert("notes", points)
            await backend.set_payload("notes", [point_id(numbers[0])], {"marked": True})
            await backend.set_vectors("notes", [Point(point_id(numbers[1]), {}, {"words": Sparse((7,), (1.0,))})])
            await backend.delete("notes", [point_id(numbers[2])])
            print(step, flush=True)
        """,
    )
    acknowledged = -1
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line) if line.strip().isdigit() else acknowledged
            if acknowledged == 60:
                # What it acknowledges until it is dead stays in the pipe, and is read too.
                process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL

    async def check() -> None:
        backend = EdgeBackend(store_path)
        spec = CollectionSpec("notes", {"dense": 4}, ("words",), {"user": "tenant"})
        assert await backend.open([spec], create=False)
        found = dict(await backend.scroll("notes", ALL))
        for step in range(acknowledged + 1):
            first = 1 + step * 20
            assert found[point_id(first)] == {"user": "u", "n": first, "marked": True}
            assert point_id(first + 2) not in found
            assert all(point_id(number) in found for number in range(first + 3, first + 20))
        near, marked = await backend.rank(
            "notes",
            [
                Ranking("near", 10**4, ALL, "dense", [1, 0, 0, 0]),
                Ranking("w", 10**4, ALL, "words", Sparse((7,), (1.0,))),
            ],
        )
        assert {hit.id for hit in near} == set(found)
        assert {point_id(2 + step * 20) for step in range(acknowledged + 1)} <= {hit.id for hit in marked}
        await backend.upsert("notes", [note(1, user="after")])
        assert await backend.retrieve("notes", [point_id(1)]) == {point_id(1): {"user": "after"}}
        await backend.close()

    asyncio.run(check())


def test_a_process_that_does_not_close_loses_nothing(store_path: Path, specs: Any) -> None:
    process = child(store_path, 'await backend.upsert("notes", [Point(point_id(1), {"user": "u"}, {})])')
    process.communicate(timeout=60)
    assert process.returncode == 0

    async def check() -> None:
        backend = EdgeBackend(store_path)
        assert await backend.open(specs, create=False)
        assert await backend.retrieve("notes", [point_id(1)]) == {point_id(1): {"user": "u"}}
        await backend.close()

    asyncio.run(check())


# Inside one process


async def test_two_backends_share_one_folder(store_path: Path, specs: Any) -> None:
    link = store_path.parent / "link"
    link.symlink_to(store_path)
    first, second = EdgeBackend(store_path), EdgeBackend(link)
    assert await first.open(specs[:1], create=False)
    assert await second.open(specs, create=False)
    await first.upsert("notes", [note(1, state="a")])
    assert await second.retrieve("notes", [point_id(1)]) == {point_id(1): {"state": "a"}}
    await first.close()
    await second.set_payload("notes", [point_id(1)], {"state": "b"})
    with pytest.raises(StoreError, match="not open"):
        await first.count("notes", ALL)
    assert await first.open(specs, create=False)
    assert await first.retrieve("notes", [point_id(1)]) == {point_id(1): {"state": "b"}}
    await second.close()
    await first.close()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that fills with the threads in which Edge is called."""
    noted: list[int] = []
    entered = edge_shard.edge_errors

    def note_thread(path: Path) -> Any:
        noted.append(threading.get_ident())
        return entered(path)

    monkeypatch.setattr(edge_shard, "edge_errors", note_thread)
    return noted


async def test_writes_and_long_reads_never_run_in_the_event_loops_thread(
    store_path: Path, specs: Any, threads: list[int]
) -> None:
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=True)
    await backend.upsert("notes", [note(1, state="a")])
    await backend.set_payload("notes", [point_id(1)], {"state": "b"})
    await backend.set_vectors("notes", [Point(point_id(1), {}, {"dense": [1, 0, 0, 0]})])
    await backend.retrieve("notes", [point_id(number) for number in range(SHORT + 1)])
    await backend.scroll("notes", ALL, order_by="at")
    await backend.vectors("notes", [point_id(1)], "dense")
    await backend.count("notes", ALL)
    await backend.facet("notes", "state", ALL)
    await backend.delete("notes", [point_id(1)])
    await backend.close()
    assert threads
    assert threading.get_ident() not in threads


async def test_short_reads_cost_no_change_of_threads_unless_they_have_to_wait(
    store_path: Path, specs: Any, threads: list[int]
) -> None:
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=True)
    await backend.upsert("notes", [note(number, state="a") for number in range(SHORT + 1)])

    async def read() -> None:
        await backend.retrieve("notes", [point_id(1)])
        await backend.rank("notes", [Ranking("near", 3, ALL, "dense", [1, 0, 0, 0])])
        await backend.scroll("notes", ALL, limit=3)

    threads.clear()
    await read()
    assert set(threads) == {threading.get_ident()}
    threads.clear()
    assert len(await backend.scroll("notes", ALL)) == SHORT + 1
    assert threads[0] == threading.get_ident() != threads[-1]
    monopoly = backend._shard("notes")._lock
    monopoly.acquire()
    threads.clear()
    waiting = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    assert not waiting.done(), "a read went past a call under way"
    monopoly.release()
    await waiting
    assert threads[0] != threading.get_ident()
    await backend.close()


async def test_closing_waits_for_calls_under_way(store_path: Path, specs: Any) -> None:
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=False)
    writes = [asyncio.create_task(backend.upsert("notes", [note(n, state="a")])) for n in range(1, 30)]
    await asyncio.sleep(0)
    await backend.close()
    done = await asyncio.gather(*writes, return_exceptions=True)
    await backend.open(specs, create=False)
    written = await backend.count("notes", ALL)
    await backend.close()
    assert written == sum(result is None for result in done)
    assert all(result is None or isinstance(result, StoreError) for result in done)


async def test_a_folder_that_was_removed_is_not_written_to(store_path: Path, specs: Any) -> None:
    old, new = EdgeBackend(store_path), EdgeBackend(store_path)
    await old.open(specs, create=False)
    await old.upsert("notes", [note(1, state="a")])
    shutil.rmtree(store_path)
    assert not await new.open(specs, create=False)
    assert await new.open(specs[1:], create=True)
    with pytest.raises(StoreError, match="closed"):
        await old.upsert("notes", [note(2, state="a")])
    await old.close()
    assert await new.count("bare", ALL) == 0
    await new.close()


async def test_the_log_is_cut_after_so_many_changes(
    store_path: Path, specs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_shard, "FLUSH_AFTER", 100)
    log = store_path / "notes" / "wal" / "first-index"
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=False)
    before = log.read_bytes()
    await backend.upsert("notes", [note(n, state="a") for n in range(1, 100)])
    assert log.read_bytes() == before
    await backend.set_payload("notes", [point_id(1)], {"state": "b"})
    assert log.read_bytes() != before
    await backend.close()


# The folder


async def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path, specs: Any) -> None:
    path = tmp_path / "deep" / "store"
    backend = EdgeBackend(path)
    assert not await backend.open(specs, create=False)
    assert not path.parent.exists()
    assert await backend.open(specs[1:], create=True)
    await backend.close()
    assert names(path) == {"bare"}
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o700
        assert (path / "bare").stat().st_mode & 0o777 == 0o700


async def test_a_half_made_store_is_completed(store_path: Path, specs: Any) -> None:
    backend = EdgeBackend(store_path)
    await backend.open(specs, create=False)
    await backend.upsert("bare", [Point(point_id(1), {"what": "kept"}, {})])
    await backend.close()
    # As a crash leaves it: one collection whole, one not begun, one half-made under another name.
    (store_path / "notes").rename(store_path / ".building-notes")
    (store_path / ".building-notes" / "edge_config.json").unlink()
    assert not await backend.open(specs, create=False)
    assert (store_path / ".building-notes").exists()
    assert await backend.open(specs, create=True)
    assert names(store_path) == {"notes", "bare"}
    assert await backend.retrieve("bare", [point_id(1)]) == {point_id(1): {"what": "kept"}}
    await backend.upsert("notes", [note(1, state="a")])
    assert await backend.facet("notes", "state", ALL) == {"a": 1}
    await backend.close()


async def test_a_missing_index_is_made_on_opening(store_path: Path, specs: Any) -> None:
    spec = specs[0]
    more = CollectionSpec(spec.name, spec.dense, spec.sparse, {**spec.fields, "later": "integer"})
    backend = EdgeBackend(store_path)
    await backend.open([spec], create=True)
    await backend.upsert("notes", [note(1, later=2), note(2, later=1)])
    with pytest.raises(StoreError, match="later"):
        await backend.scroll("notes", ALL, order_by="later")
    await backend.open([more], create=True)
    assert [key for key, _ in await backend.scroll("notes", ALL, order_by="later")] == [point_id(2), point_id(1)]
    await backend.close()


async def test_a_store_of_an_earlier_version_is_searched_in_the_callers_thread_and_keeps_its_settings(
    store_path: Path, specs: Any
) -> None:
    config = store_path / "notes" / "edge_config.json"
    made = json.loads(config.read_text())
    assert made["max_search_threads"] == 1
    assert {"quantization_config", "payload_memory"} <= made.keys()
    config.write_text(json.dumps({name: value for name, value in made.items() if name != "max_search_threads"}))
    backend = EdgeBackend(store_path)
    assert await backend.open(specs, create=False)
    await backend.upsert("notes", [Point(point_id(1), {"user": "ana"}, {"dense": [1, 0, 0, 0]})])
    ranked = await backend.rank("notes", [Ranking("near", 5, ALL, "dense", [1.0, 0, 0, 0])])
    assert [row.id for row in ranked[0]] == [point_id(1)]
    await backend.close()
    assert json.loads(config.read_text()) == made


@pytest.mark.parametrize("create", [False, True])
async def test_a_path_that_is_a_file_is_an_error(tmp_path: Path, specs: Any, *, create: bool) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(StoreError, match="not a folder") as caught:
        await EdgeBackend(path).open(specs, create=create)
    assert str(path) in str(caught.value)
    with pytest.raises(StoreError) as caught:
        await EdgeBackend(path / "below").open(specs, create=True)
    assert str(path) in str(caught.value)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("create", [False, True])
async def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, specs: Any, *, create: bool) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"not a store.*thesis\.txt"):
        await EdgeBackend(tmp_path).open(specs, create=create)
    assert names(tmp_path) == {"thesis.txt"}


async def test_an_empty_folder_may_become_a_store(tmp_path: Path, specs: Any) -> None:
    (tmp_path / ".hidden").touch()
    backend = EdgeBackend(tmp_path)
    assert not await backend.open(specs[1:], create=False)
    assert await backend.open(specs[1:], create=True)
    await backend.close()
    assert (tmp_path / ".hidden").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
@pytest.mark.parametrize("mode", [0o000, 0o500])
async def test_a_folder_without_permission_is_an_error(tmp_path: Path, specs: Any, mode: int) -> None:
    path = tmp_path / "store"
    path.mkdir()
    path.chmod(mode)
    try:
        with pytest.raises(StoreError) as caught:
            await EdgeBackend(path).open(specs, create=True)
        assert str(path) in str(caught.value)
    finally:
        path.chmod(0o700)


@pytest.mark.parametrize("damage", ["config", "segment", "log"])
async def test_a_damaged_store_is_an_error(store_path: Path, specs: Any, damage: str) -> None:
    pattern = {"config": "edge_config.json", "segment": "segments/*/segment.json", "log": "wal/open-*"}[damage]
    for path in (store_path / "notes").glob(pattern):
        path.write_bytes(b"garbage")
    backend = EdgeBackend(store_path)
    with pytest.raises(StoreError) as caught:
        await backend.open(specs, create=True)
    assert str(store_path) in str(caught.value)
    # Nothing of it stays locked.
    assert await backend.open(specs[1:], create=False)
    await backend.close()


async def test_a_store_without_a_vector_that_is_needed_is_an_error(store_path: Path, specs: Any) -> None:
    spec = specs[0]
    other = CollectionSpec(spec.name, {**spec.dense, "newer": 4}, spec.sparse, spec.fields)
    with pytest.raises(StoreError, match="newer"):
        await EdgeBackend(store_path).open([other], create=True)


def test_importing_the_backend_does_not_load_the_engine() -> None:
    code = "import sys, json, dualmem.stores.edge; print(json.dumps([m for m in sys.modules if 'qdrant' in m]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []
