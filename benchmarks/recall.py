"""Measure recall against its critical path: the fast route, the deliberate one, and many recalls at once.

Usage: python benchmarks/recall.py LOCOMO_FILE [--latency 0.2] [--repeats 10] [--at-once 32] [--chunks 10]

A conversation is remembered on the stub server (stub_server.py) without delay. Then every model call takes `--latency`
seconds. Fast questions ask for words that are stored; deliberate ones also for a word that nobody said, so that the
gate is not satisfied. Prints JSON for each route: medians, the calls in sequence, and as `limit_s` these calls times
the latency, which no recall that asks them in this order can beat. `cpu_s` is what this process computed for one of
them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from math import ceil
from pathlib import Path
from typing import Any

from ingestion import memory_at
from stub_replies import fact_in
from stub_server import StubServer

from dualmem.loaders import load_file
from dualmem.records import Transcript

UNSAID = "zeppelins"
"""A word that is in no conversation."""


def questions_about(transcript: Transcript, count: int) -> list[str]:
    """Return questions in the words of facts that are remembered, from all over the conversation."""
    facts = [
        (message.name, fact) for message in transcript.messages if (fact := fact_in(message.content.partition("\n")[0]))
    ]
    step = max(1, len(facts) // count)
    return [f"What did {name} say about: {' '.join(fact.split()[:5]).rstrip('.,!?')}?" for name, fact in facts[::step]][
        :count
    ]


async def timed(asked: Callable[[], Awaitable[Any]]) -> tuple[float, float, Any]:
    """Return the seconds something took, those computed in this process, and its result."""
    started, computed = time.perf_counter(), time.process_time()
    found = await asked()
    return time.perf_counter() - started, time.process_time() - computed, found


async def one_by_one(
    server: StubServer, questions: list[str], latency: float, ask: Callable[[str], Awaitable[Any]], route: str
) -> dict[str, Any]:
    """Ask one question after the other; questions that took another route are counted apart."""
    rows = []
    others = 0
    for question in questions:
        server.reset(latency)
        seconds, cpu, found = await timed(lambda question=question: ask(question))
        counted = server.summary()
        if found.route != route:
            others += 1
            continue
        rows.append((seconds, cpu, counted))
    assert rows, f"no question took the route {route!r}"
    middle = {name: statistics.median(row[2][name] for row in rows) for name in ("in_sequence", "calls", "tokens_in")}
    limit = middle["in_sequence"] * latency
    wall = statistics.median(row[0] for row in rows)
    return {
        "route": route,
        "recalls": len(rows),
        "on_other_routes": others,
        "wall_s": round(wall, 3),
        "fastest_s": round(min(row[0] for row in rows), 3),
        "cpu_s": round(statistics.median(row[1] for row in rows), 3),
        "limit_s": round(limit, 3),
        "ratio": round(wall / limit, 2),
        "fastest_ratio": round(min(row[0] / (row[2]["in_sequence"] * latency) for row in rows), 2),
        **middle,
        "prefix_share": statistics.median(row[2]["prefix_share"] for row in rows),
    }


async def measure(options: argparse.Namespace, folder: Path, server: StubServer) -> None:
    """Remember, ask, and print."""
    (transcript, *_) = load_file(options.file)
    fast = questions_about(transcript, options.repeats)
    deliberate = [f"{question.rstrip('?')} and {UNSAID}?" for question in fast]
    turns = ceil(len(transcript.messages) / options.chunks)
    settings: dict[str, Any] = {"max_concurrency": 64, "write_back": False}
    async with (
        memory_at(server.url, folder / "store", **settings) as memory,
        memory_at(server.url, folder / "store", deliberation="exhaustive", chunk_turns=turns, **settings) as exhaustive,
    ):
        server.reset(0.0)
        await memory.remember(transcript, user_id="ana")

        def read_all(question: str) -> Awaitable[Any]:
            return exhaustive.recall(question, user_id="ana")

        def by_default(question: str) -> Awaitable[Any]:
            return memory.recall(question, user_id="ana")

        for question in (fast[0], deliberate[0]):
            await read_all(question)
        about = {"turns": len(transcript.messages), "latency_s": options.latency}
        row = await one_by_one(server, fast, options.latency, by_default, "fast")
        print(json.dumps({"measured": "fast", **about, **row}), flush=True)
        row = await one_by_one(server, deliberate, options.latency, read_all, "deliberate")
        print(json.dumps({"measured": f"deliberate, {options.chunks} chunks", **about, **row}), flush=True)
        row = await one_by_one(server, deliberate, options.latency, by_default, "deliberate")
        print(json.dumps({"measured": "deliberate, by default in waves", **about, **row}), flush=True)
        many = questions_about(transcript, options.at_once)
        server.reset(options.latency)
        seconds, cpu, found = await timed(lambda: asyncio.gather(*(by_default(question) for question in many)))
        counted = server.summary()
        limit = 2 * options.latency
        row = {
            "measured": f"{len(many)} at once",
            **about,
            "routes": {route: sum(one.route == route for one in found) for route in ("fast", "deliberate")},
            "wall_s": round(seconds, 3),
            "cpu_s": round(cpu, 3),
            "limit_s": round(counted["in_sequence"] * options.latency, 3),
            "limit_of_one_fast_s": limit,
            "recalls_per_s": round(len(many) / seconds, 1),
            "calls": counted["calls"],
            "calls_at_once": counted["at_once"],
        }
        print(json.dumps(row), flush=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a conversation of LoCoMo")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds of a model call")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--chunks", type=int, default=10)
    options = parser.parse_args()
    with StubServer() as server, tempfile.TemporaryDirectory(prefix="dualmem-recall-") as folder:
        asyncio.run(measure(options, Path(folder), server))


if __name__ == "__main__":
    main()
