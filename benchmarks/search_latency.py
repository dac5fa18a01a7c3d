"""Measure search in the embedded store: rankings, filters, lifecycle expansion and zoom, without the embedding call.

Usage: python benchmarks/search_latency.py [--users 1] [--memories 10000] [--turns 10000] [--repeats 50] [--keep DIR]
                                           [--peers PYTHON]

Memories and turns are sentences of made-up words whose frequencies fall as those of a language do, with random vectors
of 384 numbers; every tenth memory is superseded by the next. With `--keep`, the store stays there, and is filled once.
`--peers` names the Python of an environment with `peers.txt` installed; mem0 and LangMem then search as many memories
of one user (peer_search.py). Prints JSON: median and 95th percentile in milliseconds, and beside them the engine's own
time for the same rankings, which no search over this engine can be faster than.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from dualmem.config import load_settings
from dualmem.context import Context, Resources
from dualmem.identity import stable_id
from dualmem.records import Link, Memory, Source, Turn
from dualmem.searching.search import search
from dualmem.stores.backend import Point
from dualmem.stores.payload import MEMORIES, TURNS, memory_payload, memory_sparse, specs, turn_payload, turn_sparse

DIMENSION = 384
START = datetime(2024, 1, 1, tzinfo=UTC)
BATCH = 500


class RandomEmbeddings(Embeddings):
    """Vectors that cost nothing."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def embed_query(self, text: str) -> list[float]:
        """Return a random vector."""
        return [self._random.gauss(0, 1) for _ in range(DIMENSION)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return random vectors."""
        return [self.embed_query(text) for text in texts]


class Words:
    """Sentences of words whose frequency falls with their rank (Zipf)."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "bcdfghklmnprstvz"
        self._words = [
            "".join(
                self._random.choice(letters) + self._random.choice("aeiou") for _ in range(self._random.randint(2, 4))
            )
            for size in self._random.choices((2, 3, 4), k=20_000)
        ]
        self._weights = [1 / rank for rank in range(1, len(self._words) + 1)]

    def sentence(self, count: int) -> str:
        """Return a sentence of `count` words."""
        return " ".join(self._random.choices(self._words, self._weights, k=count))


def make_turn(user: str, number: int, text: str) -> Turn:
    """Make a turn; two speakers take turns."""
    return Turn(
        id=stable_id("turn", user, str(number)),
        user_id=user,
        conversation_id=f"chat-{number // 200}",
        position=number,
        speaker=("Ana", "Ben")[number % 2],
        role=("user", "assistant")[number % 2],
        text=text,
        said_at=START + timedelta(minutes=number),
        recorded_at=START,
        state="read",
    )


def make_memory(user: str, number: int, text: str, turn_id: str) -> Memory:
    """Make a memory; every tenth one is superseded by the next."""
    own, following, before = (stable_id("memory", user, str(number + step)) for step in (0, 1, -1))
    links: tuple[Link, ...] = ()
    if number % 10 == 0:
        links = (Link(relation="superseded_by", target=following, reason="changed", at=START),)
    elif number % 10 == 1 and number > 1:
        links = (Link(relation="supersedes", target=before, reason="changed", at=START),)
    return Memory(
        id=own,
        user_id=user,
        conversation_id="chat",
        text=text,
        kind="state",
        speaker=("Ana", "Ben")[number % 2],
        subject=("Ana", "Ben")[number % 2],
        attribute=f"attribute {number % 50}",
        topic=f"topic {number % 20}",
        entities=(f"entity {number % 300}",),
        known_at=START + timedelta(minutes=number),
        recorded_at=START,
        sources=(Source(turn_id=turn_id, quote=text[:20]),),
        state="superseded" if number % 10 == 0 else "active",
        retired_at=START + timedelta(days=400) if number % 10 == 0 else None,
        links=links,
        position=number,
    )


async def fill(backend: Any, *, users: int, memories: int, turns: int) -> None:
    """Write the points as the store does."""
    words, vectors = Words(1), RandomEmbeddings(2)
    await backend.open(specs(DIMENSION), create=True)
    for user in (f"user-{number}" for number in range(users)):
        said = [make_turn(user, number, words.sentence(14)) for number in range(turns)]
        known: dict[str, list[str]] = {}
        points = [
            Point(
                turn.id,
                {**turn_payload(turn), "indexed": "yes"},
                {
                    "semantic": vectors.embed_query(""),
                    "lexical": turn_sparse(turn, said[max(0, place - 4) : place], said[place + 1 : place + 5], known),
                },
            )
            for place, turn in enumerate(said)
        ]
        for start in range(0, len(points), BATCH):
            await backend.upsert(TURNS, points[start : start + BATCH])
        made = [
            make_memory(user, number, words.sentence(11), said[number % len(said)].id if said else "none")
            for number in range(memories)
        ]
        points = [
            Point(memory.id, memory_payload(memory), {"semantic": vectors.embed_query(""), **memory_sparse(memory)})
            for memory in made
        ]
        for start in range(0, len(points), BATCH):
            await backend.upsert(MEMORIES, points[start : start + BATCH])


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill a store and search it."""
    resources = Resources(load_settings(store=str(folder / "store"), gate="never"), embeddings=RandomEmbeddings(3))
    context = Context(resources.settings, resources)
    backend = context.store._backend
    started = time.perf_counter()
    if not (folder / "store").exists():
        await fill(backend, users=options.users, memories=options.memories, turns=options.turns)
    filled = time.perf_counter() - started
    # The identity of the store is written once.
    await context.store.open(create=True)
    words = Words(4)
    questions = [f"What did Ana say about {words.sentence(5)}?" for _ in range(options.repeats + 3)]
    wall: list[float] = []
    engine: list[float] = []
    rank = type(backend).rank

    async def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return await rank(self, *args, **kwargs)
        finally:
            spent[0] += time.perf_counter() - begun

    spent = [0.0]
    type(backend).rank = timed
    try:
        for number, question in enumerate(questions):
            user = f"user-{number % options.users}"
            await context.embedder.query(question)
            spent[0] = 0.0
            begun = time.perf_counter()
            found = await search(context, user, question)
            wall.append(time.perf_counter() - begun)
            engine.append(spent[0])
            assert found.units
    finally:
        type(backend).rank = rank
        await resources.close()
    wall, engine = wall[3:], engine[3:]
    return {
        "library": "dualmem",
        "users": options.users,
        "memories_of_each": options.memories,
        "turns_of_each": options.turns,
        "searches": len(wall),
        "median_ms": round(statistics.median(wall) * 1000, 2),
        "p95_ms": round(statistics.quantiles(wall, n=20)[-1] * 1000, 2),
        "engine_median_ms": round(statistics.median(engine) * 1000, 2),
        "fill_seconds": round(filled, 1),
    }


def with_peer(options: argparse.Namespace, library: str) -> None:
    """Have another library search, in its own environment."""
    script = Path(__file__).with_name("peer_search.py")
    command = [options.peers, str(script), "--library", library, "--memories", str(options.memories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout.strip() if done.returncode == 0 else f"{library}: {done.stderr[-2000:]}", flush=True)


def main() -> None:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--memories", type=int, default=10_000, help="of each user")
    parser.add_argument("--turns", type=int, default=10_000, help="of each user")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="where the filled store stays")
    parser.add_argument("--peers", help="Python of an environment with peers.txt")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dualmem-search-") as folder:
        print(json.dumps(asyncio.run(measure(options, options.keep or Path(folder)))), flush=True)
    for library in ("mem0", "langmem") if options.peers else ():
        with_peer(options, library)


if __name__ == "__main__":
    main()
