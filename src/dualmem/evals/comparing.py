"""Compare two runs sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dualmem.errors import InputError
from dualmem.evals.run_files import SampleRecord
from dualmem.evals.statistics import difference
from dualmem.evals.summary import METRICS


def compare(first: Mapping[str, SampleRecord], second: Mapping[str, SampleRecord]) -> dict[str, Any]:
    """Return how far `second` is above `first`, metric by metric, over the samples both have a score for.

    Tokens and seconds are compared too: there, below is better.

    Raises:
        InputError: The runs have no sample in common.
    """
    common = [key for key in first if key in second]
    if not common:
        message = "the two runs have no sample in common; compare runs over the same benchmark and selection"
        raise InputError(message)
    both = [key for key in common if not first[key].failed and not second[key].failed]
    values: dict[str, list[tuple[float, float]]] = {
        metric: [
            (first[key].scores[metric], second[key].scores[metric])
            for key in common
            if metric in first[key].scores and metric in second[key].scores
        ]
        for metric in METRICS
    }
    values["tokens"] = [(_tokens(first[key]), _tokens(second[key])) for key in both]
    values["seconds"] = [(first[key].seconds, second[key].seconds) for key in both]
    return {
        "common": len(common),
        "only_first": len(first) - len(common),
        "only_second": len(second) - len(common),
        "rows": {name: _row(pairs) for name, pairs in values.items() if pairs},
    }


def _tokens(record: SampleRecord) -> float:
    return float(record.usage.tokens_in + record.usage.tokens_out)


def _row(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    found = difference(pairs)
    assert found is not None  # noqa: S101 - there are pairs
    means = {
        "first": sum(left for left, _ in pairs) / len(pairs),
        "second": sum(right for _, right in pairs) / len(pairs),
    }
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in {**means, **asdict(found)}.items()
    }
