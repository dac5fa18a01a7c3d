"""Made-up memories, turns and questions with their vectors, the same for every library that searches them.

Texts are made of words whose frequency falls with their rank, as that of a language does (Zipf). The vector of a text,
of length one, is the sum of its words' vectors and of one that all texts share, so that texts with words in common are
near each other, and no two are at right angles. Needs NumPy alone, and so runs in another library's environment too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
LIMIT = 30
"""Memories that a search is asked for."""

_WORDS = 20_000
_LETTERS = np.array(list("bcdfghklmnprstvz"))
_VOWELS = np.array(list("aeiou"))
_WORD = re.compile(r"\w+")


class Corpus:
    """Sentences and their vectors; equal seeds give equal sentences, and vectors follow from the words alone."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        letters, vowels = (chance.integers(0, len(kind), (3 * _WORDS, 4)) for kind in (_LETTERS, _VOWELS))
        syllables = np.char.add(_LETTERS[letters], _VOWELS[vowels])
        sizes = chance.integers(2, 5, len(syllables))
        made = dict.fromkeys("".join(row[:size]) for row, size in zip(syllables, sizes, strict=True))
        self._words = list(made)[:_WORDS]
        self._numbers = {word: number for number, word in enumerate(self._words)}
        self._vectors = chance.standard_normal((_WORDS, DIMENSION), dtype=np.float32)
        self._common = chance.standard_normal(DIMENSION, dtype=np.float32) * np.float32(1.5)
        shares = np.cumsum(1 / np.arange(1, _WORDS + 1))
        self._shares = shares / shares[-1]

    def batches(
        self, count: int, *, words: int, seed: int | tuple[int, ...], size: int = 500
    ) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """Yield `count` sentences of `words` words with their vectors, `size` at a time."""
        chance = np.random.default_rng(seed)
        for start in range(0, count, size):
            numbers = np.searchsorted(self._shares, chance.random((min(size, count - start), words)))
            texts = [" ".join(map(self._words.__getitem__, row)) for row in numbers.tolist()]
            yield texts, self._normed(self._vectors[numbers].sum(axis=1))

    def questions(self, count: int, *, seed: int | tuple[int, ...] = 4) -> list[str]:
        """Return questions about five words each."""
        return [
            f"What did Ana say about {text}?" for texts, _ in self.batches(count, words=5, seed=seed) for text in texts
        ]

    def vector(self, text: str) -> NDArray[np.float32]:
        """Return the vector of any text."""
        found = [self._word(word) for word in _WORD.findall(text.lower())]
        sums = np.sum([np.zeros(DIMENSION, np.float32), *found], axis=0, dtype=np.float32)
        vector: NDArray[np.float32] = self._normed(sums[None])[0]
        return vector

    def _word(self, word: str) -> NDArray[np.float32]:
        number = self._numbers.get(word)
        if number is not None:
            known: NDArray[np.float32] = self._vectors[number]
            return known
        seed = zlib.crc32(word.encode())
        return np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)

    def _normed(self, sums: NDArray[np.float32]) -> NDArray[np.float32]:
        shifted = sums + self._common
        normed: NDArray[np.float32] = shifted / np.linalg.norm(shifted, axis=1, keepdims=True)
        return normed


def nearest(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the places of the `LIMIT` vectors nearest to one, best first, by comparing all."""
    scores = vectors @ vector
    best: NDArray[np.intp] = np.argpartition(-scores, min(LIMIT, len(scores)) - 1)[:LIMIT]
    return best[np.argsort(-scores[best])]
