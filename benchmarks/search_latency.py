"""Measure search in the embedded store: rankings, filters, lifecycle expansion and zoom, without the embedding call.

Usage: python benchmarks/search_latency.py [--users 1] [--memories 10000] [--turns 10000] [--repeats 50] [--keep DIR]
           [--fill] [--peers PYTHON] [--libraries mem0 langmem simplemem]

Memories, turns and questions are those of corpus.py; every tenth memory is superseded by the next. `--peers` names the
Python of an environment with `peers.txt` installed; mem0, LangMem and SimpleMem then search as many memories of one
user, with the same texts and vectors (peer_search.py). With `--keep`, all stores but LangMem's stay there, and are
filled once;
`--fill` fills them and searches nothing. With several users, each question is asked by another one.

Prints JSON: 10th percentile, median and 95th percentile in milliseconds, and beside them the engine's own time for the
same rankings, which no search over this engine can be faster than, that for reading what they found, and NumPy's for
comparing a user's memories with the question one by one, which needs no engine. Bytes are those that the store takes on
disk, and after the searches those of this process that are in memory, and of them those that no file holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from corpus import DIMENSION, Corpus, nearest
from langchain_core.embeddings import Embeddings

from dualmem.config import load_settings
from dualmem.context import Context, Resources
from dualmem.identity import stable_id
from dualmem.records import Link, Memory, Source, Turn
from dualmem.searching.search import search
from dualmem.stores.backend import Point
from dualmem.stores.payload import MEMORIES, TURNS, memory_payload, memory_sparse, specs, turn_payload, turn_sparse

START = datetime(2024, 1, 1, tzinfo=UTC)
BATCH = 500
NEIGHBOURS = 4
"""Turns on each side whose words are indexed with a turn."""
WARM = 3
"""Searches before those that count."""
BLOCK = 512
"""Bytes that `stat` counts blocks in."""

CORPUS = Corpus()
PEERS = ("mem0", "langmem", "simplemem")


class KnownVectors(Embeddings):
    """The corpus's vectors, which are made once for each text: what a model would compute is not measured."""

    def __init__(self) -> None:
        self._known: dict[str, list[float]] = {}

    def embed_query(self, text: str) -> list[float]:
        """Return a text's vector."""
        if text not in self._known:
            self._known[text] = CORPUS.vector(text).tolist()
        return self._known[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the texts' vectors."""
        return [self.embed_query(text) for text in texts]


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


def make_memory(user: str, number: int, text: str, turns: int) -> Memory:
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
        sources=(Source(turn_id=stable_id("turn", user, str(number % max(1, turns))), quote=text[:20]),),
        state="superseded" if number % 10 == 0 else "active",
        retired_at=START + timedelta(days=400) if number % 10 == 0 else None,
        links=links,
        position=number,
    )


def turn_points(user: str, seed: int, count: int) -> Iterator[Point]:
    """Yield a user's turns as they are stored."""
    texts = [text for some, _ in CORPUS.batches(count, words=14, seed=(2, seed)) for text in some]
    known: dict[str, list[str]] = {}
    place = 0
    for some, vectors in CORPUS.batches(count, words=14, seed=(2, seed)):
        first = max(0, place - NEIGHBOURS)
        said = [
            make_turn(user, first + step, text)
            for step, text in enumerate(texts[first : place + len(some) + NEIGHBOURS])
        ]
        known = {turn.id: known[turn.id] for turn in said if turn.id in known}
        for at, vector in enumerate(vectors, place - first):
            turn = said[at]
            words = turn_sparse(turn, said[max(0, at - NEIGHBOURS) : at], said[at + 1 : at + 1 + NEIGHBOURS], known)
            vectors_of = {"semantic": vector.tolist(), "lexical": words}
            yield Point(turn.id, {**turn_payload(turn), "indexed": "yes"}, vectors_of)
        place += len(some)


def memory_points(user: str, seed: int, count: int, turns: int) -> Iterator[Point]:
    """Yield a user's memories as they are stored."""
    numbered = enumerate(
        pair for some in CORPUS.batches(count, words=11, seed=(1, seed)) for pair in zip(*some, strict=True)
    )
    for number, (text, vector) in numbered:
        memory = make_memory(user, number, text, turns)
        yield Point(memory.id, memory_payload(memory), {"semantic": vector.tolist(), **memory_sparse(memory)})


async def fill(backend: Any, *, users: int, memories: int, turns: int) -> None:
    """Write the points as the store does, in batches."""
    await backend.open(specs(DIMENSION), create=True)
    names = [f"user-{number}" for number in range(users)]
    said = chain.from_iterable(turn_points(user, number, turns) for number, user in enumerate(names))
    known = chain.from_iterable(memory_points(user, number, memories, turns) for number, user in enumerate(names))
    for collection, points in ((TURNS, said), (MEMORIES, known)):
        while batch := list(islice(points, BATCH)):
            await backend.upsert(collection, batch)


def resources_at(store: Path) -> Resources:
    """Return resources over a store, with vectors that cost nothing."""
    return Resources(load_settings(store=str(store), gate="never"), embeddings=KnownVectors())


def resident() -> dict[str, int]:
    """Return the bytes of this process that are in memory, and of them those that no file holds."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {name: int(status[field].split()[0]) * 1024 for name, field in (("resident", "VmRSS"), ("own", "RssAnon"))}


def on_disk(folder: Path) -> int:
    """Return the bytes of all blocks that a folder's files take."""
    return sum(file.stat().st_blocks * BLOCK for file in folder.rglob("*") if file.is_file())


async def filled(options: argparse.Namespace, store: Path) -> dict[str, Any]:
    """Fill a store that does not exist yet."""
    resources = resources_at(store)
    started, computed = time.perf_counter(), time.process_time()
    await fill(resources.store._backend, users=options.users, memories=options.memories, turns=options.turns)
    # The identity of the store is written once.
    await resources.store.open(create=True)
    await resources.close()
    return {
        "fill_seconds": round(time.perf_counter() - started, 1),
        "fill_cpu_seconds": round(time.process_time() - computed, 1),
        "disk": on_disk(store),
        **resident(),
    }


def scanned(options: argparse.Namespace, questions: list[str]) -> float:
    """Return the median milliseconds in which NumPy compares one user's memories with a question."""
    rows = CORPUS.batches(options.memories, words=11, seed=(1, 0))
    vectors = np.concatenate([vectors for _, vectors in rows])
    wall = []
    for question in questions:
        vector = CORPUS.vector(question)
        begun = time.perf_counter()
        nearest(vectors, vector)
        wall.append(time.perf_counter() - begun)
    return round(statistics.median(wall[WARM:]) * 1000, 2)


async def measure(options: argparse.Namespace, store: Path) -> dict[str, Any]:
    """Search a filled store."""
    resources = resources_at(store)
    context = Context(resources.settings, resources)
    backend = context.store._backend
    started = time.perf_counter()
    await context.store.open(create=False)
    opened = time.perf_counter() - started
    questions = CORPUS.questions(options.repeats + WARM)
    wall: list[float] = []
    engine: list[dict[str, float]] = []
    computed: list[float] = []
    spent = {"rank": 0.0, "retrieve": 0.0, "scroll": 0.0}
    own = {name: getattr(type(backend), name) for name in spent}

    def timed(name: str) -> Any:
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await own[name](self, *args, **kwargs)
            finally:
                spent[name] += time.perf_counter() - begun

        return call

    for name in spent:
        setattr(type(backend), name, timed(name))
    try:
        for number, question in enumerate(questions):
            user = f"user-{number * 7919 % options.users}"
            await context.embedder.query(question)
            spent.update(dict.fromkeys(spent, 0.0))
            begun, busy = time.perf_counter(), time.process_time()
            found = await search(context, user, question)
            wall.append(time.perf_counter() - begun)
            computed.append(time.process_time() - busy)
            engine.append(dict(spent))
            assert found.units
        used = resident()
    finally:
        for name, method in own.items():
            setattr(type(backend), name, method)
        await resources.close()
    wall, engine, computed = wall[WARM:], engine[WARM:], computed[WARM:]
    return {
        "library": "dualmem",
        "users": options.users,
        "memories_of_each": options.memories,
        "turns_of_each": options.turns,
        "searches": len(wall),
        "found": len(found.units),
        "p10_ms": round(statistics.quantiles(wall, n=10)[0] * 1000, 2),
        "median_ms": round(statistics.median(wall) * 1000, 2),
        "p95_ms": round(statistics.quantiles(wall, n=20)[-1] * 1000, 2),
        "cpu_ms": round(statistics.median(computed) * 1000, 2),
        "engine_median_ms": round(statistics.median(one["rank"] for one in engine) * 1000, 2),
        "reading_median_ms": round(statistics.median(one["retrieve"] + one["scroll"] for one in engine) * 1000, 2),
        "numpy_scan_ms": scanned(options, questions),
        "open_seconds": round(opened, 2),
        "disk": on_disk(store),
        **used,
    }


def with_peer(options: argparse.Namespace, library: str, folder: Path) -> None:
    """Have another library search, in its own environment."""
    script = Path(__file__).with_name("peer_search.py")
    command = [options.peers, str(script), "--library", library, "--memories", str(options.memories)]
    command += ["--folder", str(folder), "--repeats", str(options.repeats), *(["--fill"] if options.fill else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{library}: {done.stderr[-2000:]}")
    print(done.stdout.splitlines()[-1], flush=True)


def main() -> None:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--memories", type=int, default=10_000, help="of each user")
    parser.add_argument("--turns", type=int, default=10_000, help="of each user")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="where the filled stores stay")
    parser.add_argument("--fill", action="store_true", help="fill what --keep does not hold yet, and search nothing")
    parser.add_argument("--peers", help="Python of an environment with peers.txt")
    parser.add_argument("--libraries", nargs="+", choices=PEERS, default=PEERS, help="other libraries to search with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dualmem-search-") as temporary:
        folder = options.keep or Path(temporary)
        store = folder / f"dualmem-{options.users}-{options.memories}-{options.turns}"
        if not store.exists():
            try:
                row = asyncio.run(filled(options, store))
            except BaseException:
                shutil.rmtree(store, ignore_errors=True)
                raise
            print(json.dumps({"library": "dualmem", "store": store.name, **row}), flush=True)
        if not options.fill:
            print(json.dumps(asyncio.run(measure(options, store))), flush=True)
        for library in options.libraries if options.peers else ():
            with_peer(options, library, folder)


if __name__ == "__main__":
    main()
