"""What a run says on the whole: means with their errors, by category and by scenario, costs and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from dualmem.evals.prices import PriceTable
from dualmem.evals.run_files import Ingested, SampleRecord
from dualmem.evals.statistics import estimate
from dualmem.records import Usage

METRICS: Final = ("judge", "rubric", "f1", "f1_locomo", "bleu1", "rouge_l", "evidence_recall")
"""In the order in which they are shown."""


def summarise(
    run: Mapping[str, Any],
    records: Sequence[SampleRecord],
    ingested: Sequence[Ingested],
    prices: PriceTable,
) -> dict[str, Any]:
    """Return the figures of a run as JSON values.

    Every mean stands with its standard error, its 95% interval and its count; unscored samples are in no mean, and
    are counted with their reasons.
    """
    answered = [record for record in records if not record.failed]
    usage = total(record.usage for record in records)
    judging = total(record.judge_usage for record in records)
    construct = total(each.usage for each in ingested)
    model, judge = str(run.get("model", "")), str(run.get("judge") or "")
    return {
        "dataset": run.get("dataset"),
        "task": run.get("task"),
        "preset": run.get("preset"),
        "system": run.get("system"),
        "samples": len(records),
        "answered": len(answered),
        "unscored": unscored(records),
        "metrics": {name: of_metric(records, name) for name in METRICS if of_metric(records, name)},
        "by_category": by_category(records),
        "scenarios": scenarios(records),
        "routes": dict(Counter(record.route for record in answered)),
        "fallback_rate": _mean([float(record.route == "deliberate") for record in answered]),
        "degraded": sum(record.route == "degraded" for record in answered),
        "unreadable_verdicts": sum(not record.verdict.get("readable", True) for record in answered),
        "per_question": {
            "calls": _mean([float(record.usage.calls) for record in answered]),
            "tokens_in": _mean([float(record.usage.tokens_in) for record in answered]),
            "tokens_cached": _mean([float(record.usage.tokens_cached) for record in answered]),
            "tokens_out": _mean([float(record.usage.tokens_out) for record in answered]),
            "seconds": _mean([record.seconds for record in answered]),
        },
        "phases": _phases(answered, ingested),
        "construct": {
            "conversations": len(ingested),
            "turns": sum(each.turns for each in ingested),
            "memories": sum(each.memories for each in ingested),
            "pending": sum(each.pending for each in ingested),
            **construct.model_dump(include={"calls", "tokens_in", "tokens_cached", "tokens_out"}),
            "seconds": round(sum(each.seconds for each in ingested), 2),
        },
        "totals": usage.model_dump(),
        "judge_totals": judging.model_dump(include={"calls", "tokens_in", "tokens_cached", "tokens_out"}),
        "cost": {
            "questions": prices.cost(model, usage),
            "construct": prices.cost(model, construct),
            "judge": prices.cost(judge, judging),
        },
    }


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    sums: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for usage in usages:
        sums.update(usage.model_dump(exclude={"by_step"}))
        steps.update(usage.by_step)
    return Usage(**sums, by_step=dict(steps))


def unscored(records: Sequence[SampleRecord]) -> dict[str, dict[str, int]]:
    """Return how many samples are unscored, by metric and reason."""
    found: dict[str, Counter[str]] = {}
    for record in records:
        for metric, reason in record.unscored.items():
            found.setdefault(metric, Counter())[reason[:200]] += 1
    return {metric: dict(reasons) for metric, reasons in found.items()}


def of_metric(records: Sequence[SampleRecord], metric: str) -> dict[str, Any] | None:
    """Return the estimate of a metric over the samples that have it, or None where none has."""
    return _mean([record.scores[metric] for record in records if metric in record.scores])


def by_category(records: Sequence[SampleRecord]) -> dict[str, dict[str, Any]]:
    """Return every metric's estimate and the share of deliberated answers, by category."""
    found: dict[str, dict[str, Any]] = {}
    for category in dict.fromkeys(record.category for record in records):
        of_it = [record for record in records if record.category == category]
        metrics = {name: estimated for name in METRICS if (estimated := of_metric(of_it, name))}
        routes = [float(record.route == "deliberate") for record in of_it if not record.failed]
        found[category] = {"samples": len(of_it), **metrics, "fallback_rate": _mean(routes)}
    return found


def scenarios(records: Sequence[SampleRecord]) -> dict[str, Any]:
    """Return how many scenarios were solved, all and by category (StructMemEval).

    A scenario is solved when all of its questions were judged right. One with an unscored question and no wrong one
    is unscored itself.
    """
    groups: dict[tuple[str, str], list[SampleRecord]] = {}
    for record in records:
        if record.scenario:
            groups.setdefault((record.category, record.scenario), []).append(record)
    solved: dict[str, list[float]] = {}
    open_ones = 0
    for (category, _), members in groups.items():
        scores = [member.scores.get("judge") for member in members]
        if 0.0 in scores or None not in scores:
            solved.setdefault(category, []).append(float(all(score == 1.0 for score in scores)))
        else:
            open_ones += 1
    if not groups:
        return {}
    return {
        "solved": _mean([value for values in solved.values() for value in values]),
        "by_category": {category: _mean(values) for category, values in solved.items()},
        "macro": sum(sum(values) / len(values) for values in solved.values()) / len(solved) if solved else None,
        "unscored": open_ones,
    }


def _phases(answered: Sequence[SampleRecord], ingested: Sequence[Ingested]) -> dict[str, Any]:
    """Return mean seconds of each phase for a question, and of construction for a conversation."""
    names = dict.fromkeys(name for record in answered for name in record.phases)
    found = {name: _mean([record.phases.get(name, 0.0) for record in answered]) for name in names}
    return {"construct": _mean([each.seconds for each in ingested]), **found}


def _mean(values: Sequence[float]) -> dict[str, Any] | None:
    found = estimate(values)
    if found is None:
        return None
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(found).items()}


def latest(lines: Sequence[Ingested]) -> list[Ingested]:
    """Return one account for each conversation: what all its parts cost, and the last state."""
    found: dict[str, Ingested] = {}
    for each in lines:
        before = found.get(each.conversation)
        if before is not None:
            each = each.model_copy(  # noqa: PLW2901 - the same account, continued
                update={
                    "memories": before.memories + each.memories,
                    "seconds": before.seconds + each.seconds,
                    "usage": total([before.usage, each.usage]),
                }
            )
        found[each.conversation] = each
    return list(found.values())
