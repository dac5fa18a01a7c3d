"""Embed texts in batches, through a bounded cache, with a known model name and size."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dualmem.errors import DualmemError, ModelUnavailable
from dualmem.retrieval.text import count_tokens

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

CACHE_SIZE = 20_000
"""Texts whose vectors are kept in memory (30 MB at 384 dimensions)."""

BATCH = 256

LONGEST = 4_500
"""Estimated tokens of a text that are embedded: 8,191, which OpenAI's models take, by the worst of the estimates."""

SHORT = 250
"""Estimated tokens that any model takes: to those, a batch is cut that a model with a smaller window refuses."""

_TOO_LONG = re.compile(
    r"context (length|size|window)|maximum (input|sequence) length|(input|text|prompt)\b.{0,40}too l(ong|arge)",
    re.IGNORECASE,
)


class Embedder:
    """A LangChain embeddings object that knows its name and size.

    Args:
        embeddings: The object that embeds; or leave it out and give `make`.
        make: Makes the object when it is first needed, in a thread, since importing its library blocks.
        name: The model's name, stored with the collections it fills.
        dimension: The vectors' size where it is known; else found out with the first text.
    """

    def __init__(
        self,
        embeddings: Embeddings | None = None,
        *,
        make: Callable[[], Embeddings] | None = None,
        name: str,
        dimension: int | None = None,
    ) -> None:
        assert (embeddings is None) is not (make is None)  # noqa: S101 - one of them
        self._embeddings = embeddings
        self._make = make
        self._making = threading.Lock()
        self.name = name
        self.known_dimension = dimension
        self._cache: OrderedDict[tuple[bool, str], tuple[float, ...]] = OrderedDict()

    async def dimension(self) -> int:
        """Return the size of a vector.

        Raises:
            ModelUnavailable: It is not known yet, and the model could not be asked.
        """
        if self.known_dimension is None:
            await self.query("size")
        assert self.known_dimension is not None  # noqa: S101 - set by the first vector
        return self.known_dimension

    async def documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed `texts`, each distinct one once; of one that is longer than a model's window, its beginning.

        Raises:
            ModelUnavailable: The model could not be reached.
        """
        texts = [_beginning(text, LONGEST) for text in texts]
        missing = [text for text in dict.fromkeys(texts) if (False, text) not in self._cache]
        fresh: dict[str, tuple[float, ...]] = {}
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            vectors = await self._embed(batch)
            if len(vectors) != len(batch):
                message = f"embedding with {self.name!r} gave {len(vectors)} vectors for {len(batch)} texts"
                raise ModelUnavailable(message)
            fresh.update({text: tuple(vector) for text, vector in zip(batch, vectors, strict=True)})
        result = [fresh[text] if text in fresh else self._cache[False, text] for text in texts]
        for text, vector in fresh.items():
            self._keep(False, text, vector)
        return result

    async def _embed(self, batch: list[str]) -> list[list[float]]:
        embeddings = await self._load()
        try:
            return await embeddings.aembed_documents(batch)
        except DualmemError:
            raise
        except Exception as error:  # each provider's client has errors of its own
            shorter = [_beginning(text, SHORT) for text in batch]
            if shorter == batch or not _TOO_LONG.search(str(error)):
                raise self._failed(error) from error
        try:
            return await embeddings.aembed_documents(shorter)
        except Exception as error:  # as above
            raise self._failed(error) from error

    async def query(self, text: str) -> tuple[float, ...]:
        """Embed a question.

        Raises:
            ModelUnavailable: The model could not be reached.
        """
        text = _beginning(text, LONGEST)
        cached = self._cache.get((True, text))
        if cached is not None:
            return cached
        try:
            vector = tuple(await (await self._load()).aembed_query(text))
        except DualmemError:
            raise
        except Exception as error:  # each provider's client has errors of its own
            raise self._failed(error) from error
        self._keep(True, text, vector)
        return vector

    async def _load(self) -> Embeddings:
        embeddings = self._embeddings
        return embeddings if embeddings is not None else await asyncio.to_thread(self._made)

    def _made(self) -> Embeddings:
        with self._making:
            embeddings = self._embeddings
            if embeddings is None:
                assert self._make is not None  # noqa: S101 - checked when this object was made
                embeddings = self._embeddings = self._make()
            return embeddings

    def _keep(self, query: bool, text: str, vector: tuple[float, ...]) -> None:  # noqa: FBT001 - part of the key
        if self.known_dimension is None:
            self.known_dimension = len(vector)
        self._cache[query, text] = vector
        while len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)

    def forget(self) -> None:
        """Drop every cached text."""
        self._cache.clear()

    def _failed(self, error: Exception) -> ModelUnavailable:
        detail = " ".join(str(error).split())[:300]
        return ModelUnavailable(f"embedding with {self.name!r} failed: {type(error).__name__}: {detail}")


def _beginning(text: str, most_tokens: int) -> str:
    """Return as much of a text as is estimated at `most_tokens`."""
    while len(text) > most_tokens:  # a token has a character at least, in nearly every text
        tokens = count_tokens(text)
        if tokens <= most_tokens:
            break
        text = text[: min(len(text) - 1, len(text) * most_tokens // tokens)]
    return text
