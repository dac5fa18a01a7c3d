"""Fuse several rankings into one, as a pure function.

Two ways: by scores, which says how much better the first is than the second, and by ranks alone (reciprocal rank
fusion, which MemoryLACE uses).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Fusion = Literal["scores", "rrf"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """What one ranking found."""

    name: str
    rows: Sequence[tuple[str, float]]
    """Ids and scores, best first."""
    dense: bool
    """Whether the scores are cosines, of which the lowest found means nothing; else a score of 0 means nothing."""


def fuse(
    rankings: Sequence[Ranked], *, fusion: Fusion, k: int, weights: Mapping[str, float] | None = None
) -> dict[str, dict[str, float]]:
    """Return what each ranking gives to the score of each id; ids are in the order in which they were found.

    Args:
        rankings: Several of one name add up.
        fusion: `scores` gives `weight * score`, scaled so that a ranking's best has 1 and what means nothing 0;
            `rrf` gives `weight / (k + rank)`.
        k: For `rrf`; the larger, the less the first ranks count.
        weights: Weight by name; 1 where not given.
    """
    weights = weights or {}
    shares: dict[str, dict[str, float]] = {}
    for ranking in rankings:
        weight = weights.get(ranking.name, 1.0)
        values = _scaled(ranking) if fusion == "scores" else [1.0 / (k + rank + 1) for rank in range(len(ranking.rows))]
        for (key, _), value in zip(ranking.rows, values, strict=True):
            share = shares.setdefault(key, {})
            share[ranking.name] = share.get(ranking.name, 0.0) + weight * value
    return shares


def _scaled(ranking: Ranked) -> list[float]:
    if not ranking.rows:
        return []
    best, least = ranking.rows[0][1], ranking.rows[-1][1] if ranking.dense and len(ranking.rows) > 1 else 0.0
    span = best - least
    # All alike: each is as good as the best.
    return [(score - least) / span if span > 0 else 1.0 for _, score in ranking.rows]
