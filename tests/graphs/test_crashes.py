"""A process that is killed at any write of an ingestion loses nothing and makes nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("crashing.py")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the stores hold after all runs."""
    if not hasattr(os, "fork"):
        pytest.skip("needs processes that can be forked")
    # Files in memory outlive a killed process as those on a disk do, and are written faster.
    memory = Path("/dev/shm")  # noqa: S108 - only if it is there
    folder = Path(tempfile.mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("crashes")
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False, cwd=folder
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_run_was_killed_where_it_should_be(outcome: dict[str, Any]) -> None:
    assert set(outcome["ends"].values()) == {-signal.SIGKILL}
    assert len(outcome["ends"]) > 15


def test_the_undisturbed_run_is_what_it_should_be(outcome: dict[str, Any]) -> None:
    for held in outcome["calm"].values():
        assert [turn[1:] for turn in held["turns"]] == [
            ["Ana lives in Berlin.", 0, "read", "yes"],
            ["Ana owns a boat.", 1, "read", "yes"],
            ["Ana lives in Porto.", 2, "read", "yes"],
            ["Ana owns a boat.", 3, "read", "yes"],
        ]
        assert [memory[1:3] for memory in held["memories"]] == [
            ["Ana lives in Berlin.", "superseded"],
            ["Ana owns a boat.", "active"],
            ["Ana lives in Porto.", "active"],
            ["Ana owns a boat.", "active"],
        ]
        assert [len(memory[-1]) for memory in held["memories"]] == [1, 1, 1, 1]
        assert sorted(rejection[1] for rejection in held["rejections"]) == [
            "It is not true that Ana owns a boat.",
            "It is not true that Ana owns a boat.",
        ]
        assert (len(held["vectors"]), len(held["memory_vectors"]), held["open_commits"]) == (4, 4, 0)


def test_after_a_crash_a_second_run_ends_as_an_undisturbed_one(outcome: dict[str, Any]) -> None:
    different = {
        user: {
            part: (held[part], outcome["calm"][user][part])
            for part in held
            if held[part] != outcome["calm"][user][part]
        }
        for user, held in outcome["killed"].items()
        if held != outcome["calm"][user]
    }
    assert different == {}
