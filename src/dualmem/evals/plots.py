"""Plots of runs as PNG images, drawn by matplotlib without a display."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dualmem.evals.optional import bench_module
from dualmem.evals.published import Published

Figure = Any
"""matplotlib's; the package is not there for most users."""

OURS: Final = "#1f5fa8"
THEIRS: Final = "#b8860b"
_PHASES: Final = ("retrieve", "filter", "answer", "gate", "deliberate")
_COLOURS: Final = (
    *("#4c9f70", "#8fbf9f", "#1f5fa8", "#b8860b", "#9b3d5f", "#777777"),
    *("#d9774a", "#6a51a3", "#2b2b2b", "#7fb3d5"),
)
_NEAR: Final = 0.02
"""Share of an axis within which two points bear one label."""


def data_uri(figure: Figure) -> str:
    """Return a figure as a PNG that stands in the page itself."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=130, bbox_inches="tight", metadata={"Software": None})
    return f"data:image/png;base64,{base64.b64encode(target.getvalue()).decode('ascii')}"


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    """Return an empty figure and its axes, without pyplot's state.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    figure = bench_module("matplotlib.figure", "matplotlib").Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def quality_against_tokens(
    rows: Sequence[tuple[str, Mapping[str, Any]]], metric: str, published: Sequence[Published]
) -> Figure | None:
    """Plot a metric against the tokens of a question, ours with their intervals, the papers' marked as theirs.

    Args:
        rows: Label and summary of each run.
        metric: Name of the metric.
        published: The papers' rows of the same benchmark.
    """
    figure, axes = _figure(8, 4.6)
    drawn = False
    points: dict[tuple[float, float], list[str]] = {}
    for label, summary in rows:
        value, tokens = summary["metrics"].get(metric), summary["per_question"]["tokens_in"]
        if value is None or tokens is None:
            continue
        spread = [[value["mean"] - value["low"]], [value["high"] - value["mean"]]]
        axes.errorbar(tokens["mean"], value["mean"], yerr=spread, fmt="o", color=OURS, capsize=3)
        point = (tokens["mean"], value["mean"])
        close = (known for known in points if all(abs(a - b) <= _NEAR * a for a, b in zip(known, point, strict=True)))
        points.setdefault(next(close, point), []).append(label)
        drawn = True
    for point, labels in points.items():
        axes.annotate(", ".join(labels), point, xytext=(6, 5), textcoords="offset points", fontsize=8)
    for row in published:
        score = getattr(row, metric, None)
        if score is None or row.tokens_in is None:
            continue
        axes.plot(row.tokens_in, score / 100, "D", color=THEIRS, markersize=5)
        label = f"{row.row} ({row.model}, theirs)"
        axes.annotate(
            label, (row.tokens_in, score / 100), xytext=(6, -10), textcoords="offset points", fontsize=7, color=THEIRS
        )
        drawn = True
    axes.set_xscale("log")
    axes.set_xlabel("tokens in per question (log)")
    axes.set_ylabel(metric)
    axes.grid(alpha=0.25)
    return figure if drawn else None


def by_category(rows: Sequence[tuple[str, Mapping[str, Any]]], metric: str) -> Figure | None:
    """Plot a metric by category, one group of bars a category and one bar a run, with standard errors."""
    categories = list(dict.fromkeys(name for _, summary in rows for name in summary["by_category"]))
    with_metric = [
        (label, summary)
        for label, summary in rows
        if any(metric in values for values in summary["by_category"].values())
    ]
    if not with_metric or not categories:
        return None
    figure, axes = _figure(max(7.0, 1.1 * len(categories) + 2), 4.2)
    width = 0.8 / len(with_metric)
    for place, (label, summary) in enumerate(with_metric):
        values = [summary["by_category"].get(name, {}).get(metric) for name in categories]
        axes.bar(
            [number + place * width for number in range(len(categories))],
            [value["mean"] if value else 0.0 for value in values],
            width,
            yerr=[value["error"] if value else 0.0 for value in values],
            label=label,
            color=_COLOURS[place % len(_COLOURS)],
            error_kw={"elinewidth": 0.8},
        )
    centre = (len(with_metric) - 1) * width / 2
    axes.set_xticks([number + centre for number in range(len(categories))], categories, rotation=20, ha="right")
    axes.set_ylabel(metric)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def fallback_rates(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Figure | None:
    """Plot the share of questions that went on to deliberation, by run, with standard errors."""
    found = [(label, summary["fallback_rate"]) for label, summary in rows if summary["fallback_rate"]]
    if not found:
        return None
    figure, axes = _figure(7, 0.5 * len(found) + 1.2)
    labels = [label for label, _ in found]
    axes.barh(
        labels,
        [value["mean"] for _, value in found],
        xerr=[value["error"] for _, value in found],
        color=OURS,
        height=0.6,
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of questions deliberated")
    return figure


def latency_split(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Figure | None:
    """Plot mean seconds of a question by phase, stacked."""
    if not rows:
        return None
    figure, axes = _figure(8, 0.5 * len(rows) + 1.4)
    labels = [label for label, _ in rows]
    left = [0.0] * len(rows)
    for place, phase in enumerate(_PHASES):
        seconds = [(summary["phases"].get(phase) or {}).get("mean", 0.0) for _, summary in rows]
        if any(seconds):
            axes.barh(labels, seconds, left=left, label=phase, color=_COLOURS[place], height=0.6)
        left = [before + more for before, more in zip(left, seconds, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("mean seconds per question (construction not included)")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(_PHASES), frameon=False)
    return figure
