"""Processes killed at any moment, folders that cannot be written, disks that are full: nothing lost, nothing twice.

`TRUST_KILLS` sets how many processes are killed, 12 by default; the long form is 200.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import StoreError
from dualmem.testing import WordEmbeddings

Make = Callable[..., Any]
KILLS = int(os.environ.get("TRUST_KILLS", "12"))
SCRIPT = Path(__file__).with_name("killing.py")
MEMORY = Path("/dev/shm")  # noqa: S108 - only if it is there


@pytest.fixture(scope="module")
def outcome() -> dict[str, Any]:
    """What the stores hold after all runs."""
    if not hasattr(os, "fork"):
        pytest.skip("needs processes that can be forked")
    # Files in memory outlive a killed process as those on a disk do, and are written faster.
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(folder), str(KILLS)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_most_of_them_were_killed_at_work(outcome: dict[str, Any]) -> None:
    ends = list(outcome["ends"].values())
    assert len(ends) == KILLS
    assert set(ends) <= {-signal.SIGKILL, 0}
    assert ends.count(-signal.SIGKILL) > KILLS // 2


def test_undisturbed_runs_are_what_they_should_be(outcome: dict[str, Any]) -> None:
    one, both = (outcome["calm"][user] for user in ("one", "both"))
    assert [(text, state) for text, state, *_ in one["memories"]] == [
        ("Ana lives in Berlin.", "superseded"),
        ("Ana lives in Porto.", "active"),
        ("Ana owns a boat", "active"),
    ]
    assert [origin for *_, origin, _ in both["memories"]].count("deliberation") == 1


def test_a_second_run_ends_as_an_undisturbed_one(outcome: dict[str, Any]) -> None:
    expected = {"remember": outcome["calm"]["one"], "ask": outcome["calm"]["both"]}
    different = {
        user: (held, expected[outcome["kinds"][user]])
        for user, held in outcome["left"].items()
        if held != expected[outcome["kinds"][user]]
    }
    assert different == {}
    assert all(held["violations"] == [] and held["open"] == 0 for held in outcome["left"].values())


# Folders that cannot be written


@pytest.fixture
def opened(tmp_path: Path, reader: Make) -> Callable[[], DualMem]:
    return lambda: DualMem(store=str(tmp_path / "store"), chat_model=reader(), embeddings=WordEmbeddings())


LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana owns a boat.")


async def test_a_folder_that_is_read_only_is_a_clear_error(
    opened: Callable[[], DualMem], chat_of: Make, tmp_path: Path
) -> None:
    async with opened() as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
    folders = [tmp_path / "store", *(path for path in (tmp_path / "store").rglob("*"))]
    for path in folders:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        if os.access(tmp_path / "store", os.W_OK):
            pytest.skip("the superuser may write everywhere")
        async with opened() as memory:
            with pytest.raises(StoreError, match=str(tmp_path / "store")):
                await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    finally:
        for path in folders:
            path.chmod(0o700 if path.is_dir() else 0o600)
    async with opened() as memory:
        assert len(await memory.memories(user_id="ana")) == len(LINES)


FILLING = """
import asyncio, resource, signal, sys
from dualmem import DualMem
from dualmem.errors import DualmemError
from dualmem.testing import ScriptedChatModel, WordEmbeddings

def opened(store):
    return DualMem(store=store, strategy="verbatim", chat_model=ScriptedChatModel(script={}), embeddings=WordEmbeddings())

async def main(store, most):
    async with opened(store) as memory:
        await memory.remember([("user", "I have a boat.")], user_id="ana", conversation_id="before")
    # No file may grow any further: to a writer that is a full disk (EFBIG in place of ENOSPC).
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    for attempt in (store, store + "-new"):
        try:
            async with opened(attempt) as memory:
                for number in range(3):
                    await memory.remember([("user", f"This is number {number}.")], user_id="ana", conversation_id="full")
                await memory.compact()
            print("fine")
        except DualmemError as error:
            print(type(error).__name__, error)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
@pytest.mark.parametrize("most", [0, 4096, 1024 * 1024])
async def test_a_disk_without_room_is_a_clear_error_and_what_was_stored_stays(
    opened: Callable[[], DualMem], tmp_path: Path, most: int
) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FILLING, str(tmp_path / "store"), str(most)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    full, new = done.stdout.splitlines()
    assert full.startswith(f"StoreError the store at {tmp_path / 'store'} failed"), done.stderr[-2000:]
    assert new.startswith(f"StoreError the store at {tmp_path / 'store-new'} failed")
    async with opened() as memory:
        assert await memory.resources.store.open(create=False)
        turns = await memory.resources.store.turns("ana")
        assert "I have a boat." in {turn.text for turn in turns}
        assert len({turn.text for turn in turns}) == len(turns)
        await memory.remember([("user", "There is room again.")], user_id="ana")
        assert "There is room again." in {turn.text for turn in await memory.resources.store.turns("ana")}
        assert [fault for one in await memory.doctor() for fault in one.faults] == []
