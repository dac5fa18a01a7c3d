"""One self-contained page about several runs: tables, plots, and the papers' figures marked as theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from dualmem.errors import InputError
from dualmem.evals import plots
from dualmem.evals.published import NOTES, PUBLISHED
from dualmem.evals.run_files import SUMMARY, read_run

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #fff; margin: 2rem auto; max-width: 72rem;
       padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid #d8dee6; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #e6eaf0; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { background: #f4f6f9; }
tr.theirs td { color: #8a6508; font-style: italic; } small, .dim { color: #5a6675; }
img { max-width: 100%; height: auto; } code { background: #f4f6f9; padding: .1rem .3rem; }
pre { background: #f4f6f9; padding: .7rem; overflow-x: auto; }
"""

_SHOWN: Final = ("judge", "rubric", "f1", "f1_locomo", "bleu1", "rouge_l", "evidence_recall")

Row = tuple[str, Mapping[str, Any]]


def write_report(folders: Sequence[Path], target: Path) -> None:
    """Write the page about the runs in `folders`.

    Raises:
        InputError: A folder holds no finished or interrupted run.
        ConfigurationError: matplotlib is not installed.
    """
    runs = [_read(folder) for folder in folders]
    datasets = list(dict.fromkeys(str(run["dataset"]) for run, _ in runs))
    sections = "".join(
        _section(dataset, [each for each in runs if each[0]["dataset"] == dataset]) for dataset in datasets
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>dualmem bench</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>dualmem bench</h1>"
        "<p>Means stand with their standard error; intervals in plots are 95% by bootstrap. Unscored samples are in no "
        'mean. Rows in <em style="color:#8a6508">italics</em> are figures of the papers, not measured here: other '
        "models, other selections.</p>"
        f"{sections}</body></html>\n"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, "utf-8")


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    run = read_run(folder)
    try:
        summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"the run in {str(folder)!r} has no summary yet; let it end, or go on with --resume"
        raise InputError(message) from error
    return run, summary


def _section(dataset: str, runs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    rows = _labelled(runs)
    published = [row for row in PUBLISHED if row.dataset == dataset]
    main = next((name for name in _SHOWN if any(name in summary["metrics"] for _, summary in rows)), "f1")
    figures = [
        ("Quality against tokens", plots.quality_against_tokens(rows, main, published)),
        ("F1 by category", plots.by_category(rows, "f1")),
        (f"{main} by category", plots.by_category(rows, main) if main != "f1" else None),
        ("Fallback rate", plots.fallback_rates(rows)),
        ("Where the time goes", plots.latency_split(rows)),
    ]
    drawn = "".join(
        f'<h3>{escape(title)}</h3><img alt="{escape(title)}" src="{plots.data_uri(figure)}">'
        for title, figure in figures
        if figure is not None
    )
    notes = "".join(f"<p><small>Theirs: {escape(note)}</small></p>" for note in NOTES.get(dataset, ()))
    return (
        f"<h2>{escape(dataset)}</h2>{_quality_table(rows, dataset)}{notes}{_cost_table(rows)}"
        f"{_scenario_table(rows)}{_unscored(rows)}{drawn}{_provenance(runs)}"
    )


def _labelled(runs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Row]:
    """Return a label for each run: its preset, and whatever else tells it from the others."""
    names = [str(run["preset"]) for run, _ in runs]
    labels: list[str] = []
    for name, (run, _) in zip(names, runs, strict=True):
        more = []
        if names.count(name) > 1:
            more = [str(run.get("model")), str(run.get("task") or "all tasks"), str(run["options"].get("gate"))]
        label = " · ".join([name, *more])
        labels.append(f"{label} ({labels.count(label) + 1})" if label in labels else label)
    return [(label, summary) for label, (_, summary) in zip(labels, runs, strict=True)]


def _table(headings: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _cells(values: Sequence[str], style: str = "") -> str:
    mark = f' class="{style}"' if style else ""
    return f"<tr{mark}>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"


def _mean(value: Mapping[str, Any] | None, digits: int = 3) -> str:
    return "" if value is None else f"{value['mean']:.{digits}f} ± {value['error']:.{digits}f}"


def _quality_table(rows: Sequence[Row], dataset: str) -> str:
    metrics = [name for name in _SHOWN if any(name in summary["metrics"] for _, summary in rows)]
    body = [
        _cells(
            [
                label,
                f"{summary['answered']}/{summary['samples']}",
                *(_mean(summary["metrics"].get(name)) for name in metrics),
                _mean(summary["fallback_rate"]),
            ]
        )
        for label, summary in rows
    ]
    for row in PUBLISHED:
        if row.dataset == dataset:
            scores = {"f1": row.f1, "judge": row.judge, "bleu1": row.bleu1}
            shown = [f"{score / 100:.3f}" if (score := scores.get(name)) is not None else "" for name in metrics]
            body.append(_cells([f"{row.row}, {row.model}: {row.paper}", "", *shown, ""], "theirs"))
    return _table(["run", "answered", *metrics, "fallback rate"], body)


def _cost_table(rows: Sequence[Row]) -> str:
    body = []
    for label, summary in rows:
        each, construct, cost = summary["per_question"], summary["construct"], summary["cost"]
        spent = [value for value in cost.values() if value is not None]
        body.append(
            _cells(
                [
                    label,
                    _mean(each["calls"], 2),
                    _mean(each["tokens_in"], 0),
                    _mean(each["tokens_cached"], 0),
                    _mean(each["tokens_out"], 0),
                    _mean(each["seconds"], 2),
                    f"{construct['tokens_in'] + construct['tokens_out']:,}",
                    f"{construct['seconds']:.1f}",
                    f"{sum(spent):.4f}" if spent else "",
                ]
            )
        )
    headings = ["per question", "calls", "tokens in", "cached", "tokens out", "seconds"]
    return _table([*headings, "construction: tokens", "construction: seconds", "cost in all"], body)


def _scenario_table(rows: Sequence[Row]) -> str:
    body = []
    for label, summary in rows:
        found = summary["scenarios"]
        if found:
            split = ", ".join(f"{name} {_mean(value)}" for name, value in found["by_category"].items())
            body.append(_cells([label, _mean(found["solved"]), split, str(found["unscored"])]))
    return _table(["scenarios", "solved", "by task", "unscored"], body) if body else ""


def _unscored(rows: Sequence[Row]) -> str:
    items = [
        f"<li>{escape(label)}, {escape(metric)}: {count} × {escape(reason)}</li>"
        for label, summary in rows
        for metric, reasons in summary["unscored"].items()
        for reason, count in reasons.items()
    ]
    return f"<h3>Unscored</h3><ul>{''.join(items)}</ul>" if items else ""


def _provenance(runs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    parts = []
    for run, summary in runs:
        machine = run.get("machine", {})
        facts = {
            "preset": run["preset"],
            "command": run.get("command"),
            "commit": run.get("commit"),
            "model": run.get("model"),
            "judge": run.get("judge"),
            "embedding": run.get("embedding"),
            "machine": f"{machine.get('cores')} cores, {machine.get('memory_gib')} GiB, {machine.get('architecture')}",
            "started": run.get("started"),
            "finished": summary.get("finished"),
            "left out or repaired": summary.get("skipped"),
        }
        parts.append(f"<pre>{escape(json.dumps(facts, ensure_ascii=False, indent=1))}</pre>")
    return f"<details><summary>How this was run</summary>{''.join(parts)}</details>"
