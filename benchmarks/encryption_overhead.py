"""Measure what encryption costs a search: the same questions to a plain and an encrypted store, in turns.

Usage: python benchmarks/encryption_overhead.py [--memories 10000] [--turns 10000] [--repeats 100]

Both embedded stores hold the same points (search_latency.py makes them). Each question goes to both, now to the one
first and now to the other, so that what else the machine does meets both alike. Prints JSON: the medians of each and of
the differences in milliseconds, the seconds of filling, and the megabytes on the disk.
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

from search_latency import CORPUS, KnownVectors, fill, on_disk

from dualmem.config import load_settings
from dualmem.context import Context, Resources
from dualmem.searching.search import search

KEY = "ab" * 32
WARM = 5
"""Questions that are not counted."""


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill two stores and search them."""
    contexts, filled = {}, {}
    for kind, key in (("plain", None), ("encrypted", KEY)):
        settings = load_settings(store=str(folder / kind), gate="never", encryption_key=key)
        resources = Resources(settings, embeddings=KnownVectors())
        contexts[kind] = Context(settings, resources)
        await contexts[kind].store.open(create=True)
        begun = time.perf_counter()
        await fill(contexts[kind].store._backend, users=1, memories=options.memories, turns=options.turns)
        filled[kind] = time.perf_counter() - begun
    took: dict[str, list[float]] = {kind: [] for kind in contexts}
    for number, question in enumerate(CORPUS.questions(options.repeats + WARM)):
        for kind in sorted(contexts, reverse=bool(number % 2)):
            await contexts[kind].embedder.query(question)
            begun = time.perf_counter()
            found = await search(contexts[kind], "user-0", question)
            took[kind].append(1000 * (time.perf_counter() - begun))
            assert found.units
    for context in contexts.values():
        await context.store.close()
    plain, encrypted = (took[kind][WARM:] for kind in ("plain", "encrypted"))
    return {
        "memories": options.memories,
        "turns": options.turns,
        "searches": len(plain),
        "plain_ms": round(statistics.median(plain), 2),
        "encrypted_ms": round(statistics.median(encrypted), 2),
        "difference_ms": round(statistics.median(b - a for a, b in zip(plain, encrypted, strict=True)), 2),
        "fill_seconds": {kind: round(seconds, 1) for kind, seconds in filled.items()},
        "megabytes": {kind: round(on_disk(folder / kind) / 1e6, 1) for kind in contexts},
    }


def main() -> None:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=100)
    with tempfile.TemporaryDirectory(prefix="dualmem-encryption-") as folder:
        print(json.dumps(asyncio.run(measure(parser.parse_args(), Path(folder)))))


if __name__ == "__main__":
    main()
