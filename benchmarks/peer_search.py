"""Search with another library, in its own environment (peers.txt); search_latency.py starts it.

Usage: PYTHON benchmarks/peer_search.py --library mem0 --memories 10000 [--repeats 50] [--folder DIR] [--fill]
                                        [--singly]

Each library's own store holds the memories of corpus.py as the library itself stores them, and is searched by the
library's own call; vectors of memories and questions are at hand, so that embedding costs nothing. They search one
ranking of memories; what dualmem does beside it, they do not. Stores are filled by the library's store in batches, with
the content that its own call for one memory writes; `--singly` fills by that call, to compare. With `--folder` they
stay there, and are filled once. Prints JSON: median and 95th percentile in milliseconds, the seconds of filling, and of
NumPy's 30 nearest memories the share that the library found.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from corpus import DIMENSION, LIMIT, Corpus, nearest
from numpy.typing import NDArray

USER = "user-0"
WARM = 3
"""Searches before those that count."""

Batches = Iterable[tuple[list[str], NDArray[np.float32]]]
Search = Callable[[str], list[str]]
"""Returns the texts found."""


class KnownVectors:
    """Vectors that are at hand, in the forms that the libraries ask for."""

    dimension = DIMENSION

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._known: dict[str, list[float]] = {}

    def batches(self, batches: Batches) -> Iterator[list[str]]:
        """Yield the texts of each batch, while their vectors are at hand."""
        for texts, vectors in batches:
            self._known = dict(zip(texts, vectors.tolist(), strict=True))
            yield texts
        self._known = {}

    def embed(self, text: str, _action: str | None = None, **_: Any) -> list[float]:
        """Return a text's vector."""
        if text not in self._known:
            self._known[text] = self._corpus.vector(text).tolist()
        return self._known[text]

    def embed_batch(self, texts: list[str], _action: str | None = None) -> list[list[float]]:
        """Return the texts' vectors."""
        return [self.embed(text) for text in texts]

    def __call__(self, texts: list[str]) -> list[list[float]]:
        """Return the texts' vectors."""
        return self.embed_batch(texts)

    def encode_single(self, text: str, *, is_query: bool = False) -> NDArray[np.float32]:
        """Return a text's vector."""
        return np.array(self.embed(text), np.float32)

    def encode_documents(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the texts' vectors."""
        return np.array(self.embed_batch(texts), np.float32)


def with_mem0(known: KnownVectors, batches: Batches | None, folder: Path, *, singly: bool) -> Search:
    """Open mem0's embedded Qdrant, filled with what there is, and return its search."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory
    from mem0.utils.lemmatization import lemmatize_for_bm25

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
    memory.embedding_model = known
    at = "2024-01-01T00:00:00+00:00"
    for texts in known.batches(batches or ()):
        if singly:
            for text in texts:
                memory.add(text, user_id=USER, infer=False)
            continue
        payloads = [
            {
                "user_id": USER,
                "role": "user",
                "data": text,
                "hash": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
                "created_at": at,
                "updated_at": at,
                "text_lemmatized": lemmatize_for_bm25(text),
            }
            for text in texts
        ]
        ids = [str(uuid.uuid4()) for _ in texts]
        memory.vector_store.insert(vectors=known(texts), payloads=payloads, ids=ids)

    def search(question: str) -> list[str]:
        found = memory.search(question, filters={"user_id": USER}, top_k=LIMIT)["results"]
        return [one["memory"] for one in found]

    return search


def with_langmem(known: KnownVectors, batches: Batches | None, folder: Path, *, singly: bool) -> Search:
    """Return the search of LangGraph's in-memory store, which LangMem's examples use, with what LangMem puts there."""
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore

    index: Any = {"dims": DIMENSION, "embed": known, "fields": ["content.content"]}
    store = InMemoryStore(index=index)
    space = ("memories", USER)
    for texts in known.batches(batches or ()):
        puts = [(space, str(uuid.uuid4()), {"kind": "Memory", "content": {"content": text}}) for text in texts]
        if singly:
            for put in puts:
                store.put(*put)
        else:
            store.batch([PutOp(*put) for put in puts])

    def search(question: str) -> list[str]:
        return [item.value["content"]["content"] for item in store.search(space, query=question, limit=LIMIT)]

    return search


def with_simplemem(known: KnownVectors, batches: Batches | None, folder: Path, *, singly: bool) -> Search:
    """Open SimpleMem's LanceDB, filled with what there is, and return its retrieval without planning."""
    from simplemem.core.hybrid_retriever import HybridRetriever
    from simplemem.database.vector_store import VectorStore
    from simplemem.models.memory_entry import MemoryEntry

    store = VectorStore(db_path=str(folder / "lancedb"), embedding_model=known)
    for texts in known.batches(batches or ()):
        entries = [MemoryEntry(lossless_restatement=text) for text in texts]
        for some in [[entry] for entry in entries] if singly else [entries]:
            store.add_entries(some)
    if batches is not None:
        store.optimize()
    retriever = HybridRetriever(None, store, semantic_top_k=LIMIT, enable_planning=False)

    def search(question: str) -> list[str]:
        return [entry.lossless_restatement for entry in retriever.retrieve(question)]

    return search


LIBRARIES = {"mem0": with_mem0, "langmem": with_langmem, "simplemem": with_simplemem}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill the library's store where there is none yet, and search it."""
    corpus = Corpus()
    known = KnownVectors(corpus)
    place = folder / f"{options.library}-{options.memories}{'-singly' if options.singly else ''}"
    done = place / "filled"
    place.mkdir(parents=True, exist_ok=True)
    # LangMem's store is in memory alone.
    kept = done.exists() and options.library != "langmem"
    batches = None if kept else corpus.batches(options.memories, words=11, seed=(1, 0))
    started = time.perf_counter()
    search = LIBRARIES[options.library](known, batches, place, singly=options.singly)
    filled = time.perf_counter() - started
    done.touch()
    row = {"library": options.library, "memories_of_each": options.memories}
    if options.fill:
        return {**row, "fill_seconds": round(filled, 1)}
    questions = corpus.questions(options.repeats + WARM)
    known.embed_batch(questions)
    wall, computed, results = [], [], []
    for question in questions:
        begun, busy = time.perf_counter(), time.process_time()
        results.append(search(question))
        wall.append(time.perf_counter() - begun)
        computed.append(time.process_time() - busy)
    texts: list[str] = []
    parts = []
    for some, vectors in corpus.batches(options.memories, words=11, seed=(1, 0)):
        texts += some
        parts.append(vectors)
    matrix = np.concatenate(parts)
    exact = [{texts[place] for place in nearest(matrix, corpus.vector(question))} for question in questions]
    shares = [len(best.intersection(found)) / len(best) for best, found in zip(exact, results, strict=True)]
    return {
        **row,
        "searches": options.repeats,
        "found": statistics.median(map(len, results)),
        "nearest_found": round(statistics.mean(shares), 3),
        "median_ms": round(statistics.median(wall[WARM:]) * 1000, 2),
        "p95_ms": round(statistics.quantiles(wall[WARM:], n=20)[-1] * 1000, 2),
        "cpu_ms": round(statistics.median(computed[WARM:]) * 1000, 2),
        "open_seconds" if batches is None else "fill_seconds": round(filled, 1),
    }


def main() -> None:
    """Read the options, fill, search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES, required=True)
    parser.add_argument("--memories", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where the filled stores stay")
    parser.add_argument("--fill", action="store_true", help="fill the store, and search nothing")
    parser.add_argument("--singly", action="store_true", help="fill by the library's call for one memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peer-") as temporary, contextlib.redirect_stdout(sys.stderr):
        found = measure(options, options.folder or Path(temporary))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
