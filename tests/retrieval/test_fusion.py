"""Fusing rankings: what each gives, by scores and by ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.retrieval.fusion import Fusion, Ranked, fuse


def total(shares: dict[str, dict[str, float]]) -> dict[str, float]:
    return {key: sum(share.values()) for key, share in shares.items()}


def test_scores_are_scaled_by_the_best_and_by_what_means_nothing() -> None:
    words = Ranked("words", [("a", 8.0), ("b", 2.0)], dense=False)
    sense = Ranked("sense", [("b", 0.9), ("a", 0.6), ("c", 0.5)], dense=True)
    shares = fuse([words, sense], fusion="scores", k=10, weights={"words": 2.0})
    assert shares["a"] == pytest.approx({"words": 2.0, "sense": 0.25})
    assert shares["b"] == pytest.approx({"words": 0.5, "sense": 1.0})
    assert shares["c"] == pytest.approx({"sense": 0.0})


def test_ranks_alone_count_in_reciprocal_rank_fusion() -> None:
    words = Ranked("words", [("a", 8.0), ("b", 7.9)], dense=False)
    sense = Ranked("sense", [("b", 0.9)], dense=True)
    found = total(fuse([words, sense], fusion="rrf", k=10))
    assert found == pytest.approx({"a": 1 / 11, "b": 1 / 12 + 1 / 11})


@pytest.mark.parametrize("fusion", ["scores", "rrf"])
def test_one_hit_and_equal_hits_are_as_good_as_the_best(fusion: Fusion) -> None:
    alone = fuse([Ranked("sense", [("a", 0.3)], dense=True)], fusion=fusion, k=0)
    alike = fuse([Ranked("sense", [("a", 0.3), ("b", 0.3)], dense=True)], fusion="scores", k=0)
    assert (total(alone), total(alike)) == ({"a": 1.0}, {"a": 1.0, "b": 1.0})


ROWS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.0, 50.0)).map(
    lambda found: sorted(found.items(), key=lambda row: -row[1])
)


@given(ROWS, ROWS, st.sampled_from(["scores", "rrf"]))
def test_who_is_ahead_in_every_ranking_is_ahead(
    one: list[tuple[str, float]], other: list[tuple[str, float]], fusion: Fusion
) -> None:
    found = total(fuse([Ranked("one", one, dense=False), Ranked("two", other, dense=True)], fusion=fusion, k=10))
    assert set(found) == {key for key, _ in (*one, *other)}
    places = [{key: place for place, (key, _) in enumerate(rows)} for rows in (one, other)]
    for left in found:
        for right in found:
            if all(place.get(left, 99) < place.get(right, 99) for place in places):
                assert found[left] >= found[right] - 1e-9
