"""Reciprocal rank fusion, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dualmem.records import Candidate, Hit


def fuse(
    rankings: Mapping[str, Sequence[Hit]], *, k: int, weights: Mapping[str, float] | None = None
) -> list[Candidate]:
    """Return the memories of all `rankings`, best first.

    A memory scores the sum of `weight / (k + rank)` over the rankings it stands in. Equal scores are ordered by
    memory id, so that equal input gives equal output.

    Args:
        rankings: Hits in rank order, by the ranking's name.
        k: The larger, the less the first ranks count.
        weights: Weight by name; 1 where not given.
    """
    weights = weights or {}
    hits: dict[str, list[Hit]] = {}
    for row in rankings.values():
        for hit in row:
            hits.setdefault(hit.memory.id, []).append(hit)
    candidates = [
        Candidate(
            memory=found[0].memory,
            hits=tuple(found),
            score=sum(weights.get(hit.ranking, 1.0) / (k + hit.rank) for hit in found),
        )
        for found in hits.values()
    ]
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.memory.id))
