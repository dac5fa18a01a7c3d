"""Measure what a memory takes on disk and in a process, in the embedded store.

Usage: python benchmarks/footprint.py [--sizes 1000 10000]

For each size a store is filled as search_latency.py fills it, one turn of 14 words to each memory of 11, vectors of 384
numbers. Then a new process opens it and searches 20 times. Prints JSON for each size: bytes on disk (blocks that are
taken, not the length of files, which a log is given ahead), and the resident memory of that process; then the growth
from the smallest size to the largest, divided by the memories between them. `vector_bytes` is what the vectors of a
memory and its turn take as 32-bit numbers: an index that keeps them as they are takes no less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from corpus import DIMENSION
from search_latency import CORPUS, fill, on_disk, resident, resources_at

from dualmem.context import Context
from dualmem.searching.search import search


async def filled(store: Path, size: int) -> None:
    """Fill a store with as many turns as memories."""
    resources = resources_at(store)
    await fill(resources.store._backend, users=1, memories=size, turns=size)
    await resources.store.open(create=True)
    await resources.close()


async def searched(store: Path) -> None:
    """Search a store 20 times, and print the resident memory of this process in bytes."""
    resources = resources_at(store)
    context = Context(resources.settings, resources)
    for question in CORPUS.questions(20):
        found = await search(context, "user-0", question)
        assert found.units
    print(resident()["resident"])
    await resources.close()


def measure(sizes: list[int]) -> None:
    """Fill, search and print."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dualmem-footprint-") as folder:
        for size in sizes:
            store = Path(folder) / str(size)
            for step in ("fill", "search"):
                command = [sys.executable, __file__, "--step", step, "--store", str(store), "--sizes", str(size)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append({"memories": size, "turns": size, "disk": on_disk(store), "resident": int(done.stdout)})
            print(json.dumps(rows[-1]), flush=True)
    first, last = rows[0], rows[-1]
    if last["memories"] > first["memories"]:
        more = last["memories"] - first["memories"]
        growth = {f"{name}_bytes": round((last[name] - first[name]) / more) for name in ("disk", "resident")}
        print(json.dumps({"of_each_memory_and_turn": growth, "vector_bytes": 2 * DIMENSION * 4}))


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--step", choices=("fill", "search"), help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "fill":
        asyncio.run(filled(options.store, options.sizes[0]))
    elif options.step == "search":
        asyncio.run(searched(options.store))
    else:
        measure(options.sizes)


if __name__ == "__main__":
    main()
