"""Measure how the cost of remembering a session and of a question grows with the history behind them.

Usage: python benchmarks/growth.py LOCOMO_FILE... [--at 100 200 400 800 1600] [--repeats 5]

The conversations are remembered session by session by one user, on the stub server (stub_server.py), without delay.
Each time the history has grown past one of the sizes in `--at` (turns), a line of JSON: what the last session cost, by
call and by message, what a fast question, a doubted one (by default: waves of chunks, nobody satisfied) and one that
reads everything cost in tokens in, all medians, and how long a search takes without its embedding call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ingestion import by_session, memory_at
from recall import UNSAID, questions_about
from stub_server import StubServer

from dualmem import DualMem
from dualmem.loaders import load_file
from dualmem.records import Transcript


async def asked(server: StubServer, memory: DualMem, questions: list[str], route: str) -> dict[str, Any]:
    """Return the medians of what questions cost that took a route."""
    rows = []
    for question in questions:
        server.reset(0.0)
        if (await memory.recall(question, user_id="ana")).route == route:
            rows.append(server.summary())
    return {name: statistics.median(row[name] for row in rows) if rows else None for name in ("calls", "tokens_in")}


async def searched(memory: DualMem, questions: list[str]) -> float:
    """Return the median time of a search in milliseconds; the questions are embedded already."""
    wall = []
    for question in questions:
        started = time.perf_counter()
        await memory.search(question, user_id="ana")
        wall.append(time.perf_counter() - started)
    return round(statistics.median(wall) * 1000, 1)


async def measure(options: argparse.Namespace, folder: Path, server: StubServer) -> None:
    """Remember, ask at each size, and print."""
    sessions: list[tuple[Transcript, Transcript]] = []
    for file in options.files:
        (transcript, *_) = load_file(file)
        sessions += [(transcript, session) for session in by_session(transcript)]
    sizes = sorted(options.at)
    turns = 0
    settings: dict[str, Any] = {"max_concurrency": 16, "write_back": False}
    async with (
        memory_at(server.url, folder / "store", **settings) as memory,
        memory_at(server.url, folder / "store", deliberation="exhaustive", gate="always", **settings) as exhaustive,
    ):
        for transcript, session in sessions:
            server.reset(0.0)
            receipt = await memory.remember(session, user_id="ana")
            assert not receipt.failures, receipt.failures
            counted = server.summary()
            turns += receipt.turns_stored
            if not sizes or turns < sizes[0]:
                continue
            while sizes and turns >= sizes[0]:
                sizes.pop(0)
            fast = questions_about(transcript, options.repeats)
            doubted = [f"{question.rstrip('?')} and {UNSAID}?" for question in fast]
            messages = len(session.messages)
            row = {
                "turns": turns,
                "session_messages": messages,
                "session_calls": counted["calls"],
                "session_tokens_in": counted["tokens_in"],
                "tokens_in_a_message": round(counted["tokens_in"] / messages),
                "fast": await asked(server, memory, fast, "fast"),
                "doubted": await asked(server, memory, doubted, "deliberate"),
                "all": await asked(server, exhaustive, doubted, "deliberate"),
                "search_ms": await searched(memory, fast),
            }
            print(json.dumps(row), flush=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="conversations of LoCoMo")
    parser.add_argument("--at", type=int, nargs="+", default=[100, 200, 400, 800, 1600], help="sizes in turns")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with StubServer() as server, tempfile.TemporaryDirectory(prefix="dualmem-growth-") as folder:
        asyncio.run(measure(options, Path(folder), server))


if __name__ == "__main__":
    main()
