from __future__ import annotations

import math

import pytest

from dualmem.evals.metrics import bleu1, evidence_recall, locomo_f1, nltk_words, rouge_l, text_scores, token_f1

pytest.importorskip("nltk")
pytest.importorskip("rouge_score")


@pytest.mark.parametrize(
    ("answer", "target", "expected"),
    [
        ("7 May 2023", "7 May 2023", 1.0),
        # said {she, went, on, may, 7, 2023}, wanted {7, may, 2023}: 2 * 3 / (6 + 3)
        ("She went on May 7, 2023.", "7 May 2023", 2 / 3),
        # repeats count once: said {very, good}, wanted {good}
        ("very very very good!", "good", 2 / 3),
        # a stem is not taken: "dogs" is not "dog"
        ("dogs", "dog", 0.0),
        ("", "dog", 0.0),
    ],
)
def test_token_f1_is_that_of_the_two_sets(answer: str, target: str, expected: float) -> None:
    assert token_f1(answer, target) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "target", "category", "expected"),
    [
        # stems and articles: {dog} against {dog}
        ("The dogs", "a dog", "single-hop", 1.0),
        # repeats count: 2 * 1 / (3 + 1)
        ("good good good", "good", "single-hop", 0.5),
        # parts: "cats" is matched in full; "dog" best by "dogs": both 1
        ("dogs, cats", "cats, a dog", "multi-hop", 1.0),
        # as one text without parts, "dogs cats" against "cats dog" is 1 too, but a missing part costs its share
        ("cats", "cats, a dog", "multi-hop", 0.5),
        # only what stands before the semicolon counts
        ("yes", "Yes; because she said so", "open-domain", 1.0),
    ],
)
def test_locomos_own_f1(answer: str, target: str, category: str, expected: float) -> None:
    assert locomo_f1(answer, target, category) == pytest.approx(expected)


def test_bleu1_is_precision_times_brevity_by_hand() -> None:
    # said: she went on may 7 , 2023 . (8 words), of which 7, may and 2023 are wanted; longer, so no brevity penalty
    assert bleu1("She went on May 7, 2023.", "7 May 2023") == pytest.approx(3 / 8)
    # said: may 2023 (2 words, both wanted), wanted 3 words: penalty exp(1 - 3/2)
    assert bleu1("May 2023", "7 May 2023") == pytest.approx(math.exp(1 - 3 / 2))
    # a word counts as often as it is wanted: 1 of 3
    assert bleu1("dog dog dog", "dog") == pytest.approx(1 / 3)
    assert bleu1("", "dog") == 0.0


def test_nltks_words_need_no_download() -> None:
    assert nltk_words("It's Ida's rye-bread, isn't it?") == [
        "it", "'s", "ida", "'s", "rye-bread", ",", "is", "n't", "it", "?",
    ]  # fmt: skip


def test_rouge_l_is_the_longest_common_subsequence() -> None:
    # said: she bought red bikes; wanted: she bought a red bike: common of length 4 (stemmed), precision 1, recall 4/5
    assert rouge_l("She bought red bikes", "She bought a red bike") == pytest.approx(2 * 1 * 0.8 / 1.8)


def test_all_text_scores_come_together() -> None:
    assert text_scores("Ida", "Ida") == {"f1": 1.0, "f1_locomo": 1.0, "bleu1": 1.0, "rouge_l": 1.0}


def test_evidence_recall_is_a_share_or_nothing() -> None:
    assert evidence_recall({"a", "x"}, ("a", "b")) == 0.5
    assert evidence_recall({"a"}, ()) is None
