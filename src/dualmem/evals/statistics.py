"""Means with their errors, intervals by bootstrap, and tests of paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

RESAMPLES: Final = 2000
SEED: Final = 20240508
"""The bootstrap's seed: the same figures give the same interval."""

_BATCH: Final = 1_000_000
"""Drawn values held in memory at once."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over samples, its standard error, its 95% bootstrap interval, and its count."""

    mean: float
    error: float
    low: float
    high: float
    n: int


def estimate(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED) -> Estimate | None:
    """Return the mean of `values` with its errors, or None where there are no values.

    The interval is the percentile bootstrap's (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979), over
    samples as if they were independent; questions about one conversation are not quite that.
    """
    if not values:
        return None
    import numpy as np  # noqa: PLC0415 - heavy

    array = np.asarray(values, dtype=float)
    means = _resampled(array, resamples, seed)
    low, high = (float(value) for value in np.quantile(means, (0.025, 0.975)))
    return Estimate(float(array.mean()), standard_error(values), low, high, len(array))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; 0 where a single value says nothing about the spread."""
    count = len(values)
    if count < 2:  # noqa: PLR2004 - a spread needs two
        return 0.0
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return math.sqrt(variance / count)


def _resampled(values: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Return the means of `resamples` samples drawn with replacement."""
    import numpy as np  # noqa: PLC0415 - slow to import

    generator = np.random.default_rng(seed)
    rows = max(1, _BATCH // len(values))
    means = [
        values[generator.integers(0, len(values), (min(rows, resamples - start), len(values)))].mean(axis=1)
        for start in range(0, resamples, rows)
    ]
    return np.concatenate(means)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much a second run is above a first on the same samples, and how sure that is."""

    mean: float
    low: float
    high: float
    p_bootstrap: float
    """Two-sided, from the paired bootstrap."""
    p_sign: float
    """Two-sided exact sign test over the samples that differ; for right or wrong this is McNemar's exact test."""
    better: int
    worse: int
    equal: int
    n: int


def difference(
    pairs: Sequence[tuple[float, float]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Difference | None:
    """Return the mean of second minus first over `pairs`, or None where there are none."""
    if not pairs:
        return None
    import numpy as np  # noqa: PLC0415 - slow to import

    deltas = np.asarray([second - first for first, second in pairs], dtype=float)
    means = _resampled(deltas, resamples, seed)
    low, high = (float(value) for value in np.quantile(means, (0.025, 0.975)))
    better, worse = int((deltas > 0).sum()), int((deltas < 0).sum())
    # One resample is added on each side, so that no p is 0 which 2,000 resamples could not show.
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Difference(
        mean=float(deltas.mean()),
        low=low,
        high=high,
        p_bootstrap=min(1.0, 2 * (tail + 1) / (resamples + 1)),
        p_sign=sign_test(better, worse),
        better=better,
        worse=worse,
        equal=len(deltas) - better - worse,
        n=len(deltas),
    )


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided exact p of as uneven a split under even odds (McNemar, exact form)."""
    count = better + worse
    if not count:
        return 1.0
    tail: int = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / float(2**count))
