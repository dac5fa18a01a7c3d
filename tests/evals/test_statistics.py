from __future__ import annotations

import math

import pytest

from dualmem.evals.statistics import difference, estimate, sign_test, standard_error


def test_an_estimate_has_mean_error_interval_and_count() -> None:
    found = estimate([0.0, 1.0, 1.0, 1.0])

    assert found is not None
    assert (found.mean, found.n) == (0.75, 4)
    # variance (3 * 0.25^2 + 0.75^2) / 3 = 0.25; its root over sqrt(4)
    assert found.error == pytest.approx(0.25)
    assert 0.0 <= found.low < 0.75 < found.high <= 1.0


def test_the_same_values_give_the_same_interval() -> None:
    values = [math.sin(place) for place in range(50)]

    assert estimate(values) == estimate(values)


def test_no_value_is_no_mean_and_one_value_has_no_spread() -> None:
    assert estimate([]) is None
    assert standard_error([3.0]) == 0.0


def test_a_difference_that_is_everywhere_is_significant() -> None:
    found = difference([(0.0, 1.0)] * 12)

    assert found is not None
    assert (found.mean, found.low, found.high) == (1.0, 1.0, 1.0)
    assert (found.better, found.worse, found.equal) == (12, 0, 0)
    assert found.p_sign == pytest.approx(2 / 2**12)
    assert found.p_bootstrap == pytest.approx(2 / 2001)


def test_a_difference_that_goes_both_ways_is_not() -> None:
    found = difference([(0.0, 1.0), (1.0, 0.0)] * 6 + [(1.0, 1.0)])

    assert found is not None
    assert found.mean == 0.0
    assert found.low < 0 < found.high
    assert (found.p_sign, found.equal) == (1.0, 1)
    assert found.p_bootstrap > 0.5
    assert difference([]) is None


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    # 1 of 6 by the binomial: 2 * (1 + 6) / 64
    [(5, 1, 14 / 64), (0, 0, 1.0), (3, 3, 1.0)],
)
def test_the_sign_test_is_exact(better: int, worse: int, p: float) -> None:
    assert sign_test(better, worse) == pytest.approx(p)
