"""Search with another library, in its own environment (peers.txt); search_latency.py starts it.

Usage: PYTHON benchmarks/peer_search.py --library mem0 --memories 10000 --repeats 50

Each library's own store is filled with memories as it stores them, vectors given, and is searched by its own call, the
embedding costing nothing. They search one ranking of memories; what dualmem does beside it, they do not. Prints JSON:
median and 95th percentile in milliseconds, and the seconds of filling.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER = "user-0"
DIMENSION = 384
BATCH = 500
LIMIT = 20


def sentences(count: int, seed: int) -> list[str]:
    """Return sentences of made-up words whose frequency falls with their rank."""
    chance = random.Random(seed)
    letters = "bcdfghklmnprstvz"
    words = ["".join(chance.choice(letters) + chance.choice("aeiou") for _ in range(3)) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(chance.choices(words, weights, k=11)) for _ in range(count)]


class RandomVectors:
    """Embeddings that cost nothing, in the forms that the libraries ask for."""

    def __init__(self) -> None:
        self._random = random.Random(2)

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        """Return a random vector."""
        return [self._random.gauss(0, 1) for _ in range(DIMENSION)]

    def embed_batch(self, texts: list[str], _action: str | None = None) -> list[list[float]]:
        """Return random vectors."""
        return [self.embed(text) for text in texts]

    def __call__(self, texts: list[str]) -> list[list[float]]:
        """Return random vectors."""
        return self.embed_batch(texts)


def with_mem0(texts: list[str], folder: Path) -> Callable[[str], Any]:
    """Fill mem0's embedded Qdrant, and return its search."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory

    model = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSION, "on_disk": True},
            },
            "llm": {"provider": "openai", "config": {"model": "none", **model}},
            "embedder": {"provider": "openai", "config": {"model": "none", "embedding_dims": DIMENSION, **model}},
            "history_db_path": str(folder / "history.db"),
        }
    )
    vectors = memory.embedding_model = RandomVectors()
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        memory.vector_store.insert(
            vectors=vectors(part),
            payloads=[{"data": text, "user_id": USER, "created_at": "2024-01-01T00:00:00+00:00"} for text in part],
            ids=[str(uuid.UUID(int=start + place + 1)) for place in range(len(part))],
        )

    def search(question: str) -> Any:
        return memory.search(question, filters={"user_id": USER}, top_k=LIMIT)["results"]

    return search


def with_langmem(texts: list[str], _folder: Path) -> Callable[[str], Any]:
    """Fill LangGraph's in-memory store, which LangMem's examples use, and return its search."""
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore(index={"dims": DIMENSION, "embed": RandomVectors()})
    for start in range(0, len(texts), BATCH):
        part = enumerate(texts[start : start + BATCH], start)
        store.batch([PutOp(("memories", USER), str(number), {"content": text}) for number, text in part])

    def search(question: str) -> Any:
        return store.search(("memories", USER), query=question, limit=LIMIT)

    return search


LIBRARIES = {"mem0": with_mem0, "langmem": with_langmem}


def main() -> None:
    """Read the options, fill, search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES, required=True)
    parser.add_argument("--memories", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    texts = sentences(options.memories, 1)
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        started = time.perf_counter()
        search = LIBRARIES[options.library](texts, Path(folder))
        filled = time.perf_counter() - started
        wall = []
        for question in sentences(options.repeats + 3, 4):
            begun = time.perf_counter()
            found = search(f"What did Ana say about {question}?")
            wall.append(time.perf_counter() - begun)
            assert found
    wall = wall[3:]
    print(
        json.dumps(
            {
                "library": options.library,
                "memories_of_each": options.memories,
                "searches": len(wall),
                "median_ms": round(statistics.median(wall) * 1000, 2),
                "p95_ms": round(statistics.quantiles(wall, n=20)[-1] * 1000, 2),
                "fill_seconds": round(filled, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
