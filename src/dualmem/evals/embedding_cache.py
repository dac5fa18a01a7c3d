"""Embeddings kept in a file by text, so that a benchmark run again embeds nothing again."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from dualmem.embedding import Embedder

_BATCH = 256


class CachedEmbeddings(Embeddings):
    """The vectors of an `Embedder`, through a file in `folder` that holds those of one model.

    Interrupted runs keep what they had embedded.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self.model_name = embedder.name
        self.dimension = embedder.known_dimension
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", embedder.name)
        self._lock = threading.Lock()
        self._file = sqlite3.connect(folder / f"embeddings-{name}.sqlite", check_same_thread=False)
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that are searched."""
        found = await asyncio.to_thread(self._look_up, "document", texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            vectors = {
                text: list(vector) for text, vector in zip(batch, await self._embedder.documents(batch), strict=True)
            }
            await asyncio.to_thread(self._keep, "document", vectors)
            found.update(vectors)
        return [found[text] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a question."""
        found = await asyncio.to_thread(self._look_up, "query", [text])
        if text not in found:
            found[text] = list(await self._embedder.query(text))
            await asyncio.to_thread(self._keep, "query", found)
        return found[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that are searched, outside of an event loop."""
        return asyncio.run(self.aembed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        """Embed a question, outside of an event loop."""
        return asyncio.run(self.aembed_query(text))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _look_up(self, kind: str, texts: Sequence[str]) -> dict[str, list[float]]:
        keys = {_key(kind, text): text for text in texts}
        found: dict[str, list[float]] = {}
        with self._lock:
            for key, text in keys.items():
                row = self._file.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[text] = array("f", row[0]).tolist()
        return found

    def _keep(self, kind: str, vectors: dict[str, list[float]]) -> None:
        rows = [(_key(kind, text), array("f", vector).tobytes()) for text, vector in vectors.items()]
        with self._lock, self._file:
            self._file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)


def _key(kind: str, text: str) -> bytes:
    return hashlib.blake2b(f"{kind}\x1f{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
