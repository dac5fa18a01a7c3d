from __future__ import annotations

import numpy as np

from dualmem.evals.rankings import Bm25, Entry, dense_ranking, evidence_in_order, fused, recall_at


def test_dense_ranks_by_cosine_whatever_the_lengths() -> None:
    vectors = np.array([[10.0, 10.0], [0.0, 1.0], [1.0, 0.0]])

    assert dense_ranking(vectors, np.array([0.0, 3.0])) == [1, 0, 2]


def test_bm25_prefers_rare_words_and_leaves_out_what_shares_none() -> None:
    bm25 = Bm25(["Nora likes tea", "Nora likes kites", "Nora likes rain", "Theo sleeps"])

    assert bm25.ranking("Does Nora like kites?") == [1, 0, 2]
    assert bm25.ranking("Zanzibar") == []


def test_fusion_adds_reciprocal_ranks() -> None:
    # 7: 1/61 + 1/62, 8: 1/62 + 1/61, 9: 1/63; equal ones by place
    assert fused([[7, 8, 9], [8, 7]]) == [7, 8, 9]
    assert fused([[1, 2], [2]]) == [2, 1]


def test_recall_counts_each_turn_where_it_first_stands() -> None:
    order = evidence_in_order([Entry("x", ("a", "b")), Entry("y", ("a",)), Entry("z", ("c",))])

    assert order == ["a", "b", "c"]
    assert recall_at(order, ("c", "a", "d"), 2) == 1 / 3
    assert recall_at(order, ("c", "a"), 3) == 1.0
