"""The rankings that search is measured against: dense alone, BM25 alone, and their plain fusion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dualmem.retrieval.text import tokens

if TYPE_CHECKING:
    import numpy as np

RRF_K: Final = 60
"""Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet", 2009."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A text that can be found, and the evidence it stands for."""

    text: str
    evidence: tuple[str, ...]


def dense_ranking(vectors: np.ndarray, query: np.ndarray) -> list[int]:
    """Return the places of all vectors, nearest by cosine first.

    Args:
        vectors: One row an entry, not normalised.
        query: One vector.
    """
    import numpy as np  # noqa: PLC0415 - heavy

    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    scores = vectors @ query / np.maximum(lengths, 1e-12)
    return [int(place) for place in np.argsort(-scores, kind="stable")]


class Bm25:
    """BM25 over the stemmed tokens that keyword search uses too (Robertson and Zaragoza, 2009)."""

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        counts = [Counter(tokens(text)) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        average = sum(lengths) / max(1, len(lengths)) or 1.0
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for place, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            for token, times in count.items():
                weight = times * (k1 + 1) / (times + k1 * (1 - b + b * length / average))
                self._postings.setdefault(token, []).append((place, weight))
        self._size = len(texts)

    def ranking(self, question: str) -> list[int]:
        """Return the places of the texts that share a token with `question`, best first."""
        scores: dict[int, float] = {}
        for token in set(tokens(question)):
            postings = self._postings.get(token, [])
            rarity = math.log(1 + (self._size - len(postings) + 0.5) / (len(postings) + 0.5))
            for place, weight in postings:
                scores[place] = scores.get(place, 0.0) + rarity * weight
        return sorted(scores, key=lambda place: (-scores[place], place))


def fused(rankings: Iterable[Sequence[int]], *, k: int = RRF_K) -> list[int]:
    """Return the reciprocal rank fusion of `rankings`, best first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking, start=1):
            scores[place] = scores.get(place, 0.0) + 1.0 / (k + rank)
    return sorted(scores, key=lambda place: (-scores[place], place))


def evidence_in_order(entries: Iterable[Entry]) -> list[str]:
    """Return the evidence of ranked entries, each id once, where it first stands."""
    return list(dict.fromkeys(each for entry in entries for each in entry.evidence))


def recall_at(found: Sequence[str], evidence: Sequence[str], k: int) -> float:
    """Return the share of `evidence` among the first `k` ids found."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))
