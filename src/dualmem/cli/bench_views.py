"""What a person sees of a benchmark: progress, and tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from types import TracebackType

    from dualmem.evals.runs import Tally

console = Console(highlight=False)


@contextmanager
def simple_progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr, and yield what moves it: (done, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        bar = progress.add_task(f"filling the store ({what} follow)", total=None)

        def advance(done: int, total: int) -> None:
            progress.update(bar, description=what, completed=done, total=total)

        yield advance


class RunProgress:
    """The bar of a run: what is done, what failed, tokens, cost, and the time left."""

    def __init__(self, *, quiet: bool) -> None:
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TextColumn("{task.fields[tokens]} tokens{task.fields[cost]}"),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("[dim]{task.description}[/dim]"),
            console=Console(stderr=True),
            disable=quiet,
        )
        self._bar = self._progress.add_task("", total=None, failed=0, tokens="0", cost="")

    def __enter__(self) -> Self:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()

    def update(self, tally: Tally) -> None:
        """Show a tally."""
        self._progress.update(
            self._bar,
            completed=tally.done,
            total=tally.total,
            failed=tally.failed,
            tokens=f"{tally.tokens + tally.judge_tokens:,}",
            cost="" if tally.cost is None else f", cost {tally.cost:.4f}",
            description=escape(tally.doing),
        )


def show_recall(report: Mapping[str, Any]) -> None:
    """Print recall by method and k, with intervals."""
    ks = list(dict.fromkeys(row["k"] for row in report["rows"]))
    methods = list(dict.fromkeys(row["method"] for row in report["rows"]))
    cells = {(row["method"], row["k"]): row for row in report["rows"]}
    table = Table(box=None, pad_edge=False, title=f"evidence recall, {report['dataset']}, {report['source']}")
    table.add_column("method")
    for k in ks:
        table.add_column(f"@{k} (95%)", justify="right")
    table.add_column("n", justify="right")
    for method in methods:
        rows = [cells[method, k] for k in ks]
        shown = [f"{row['recall']:.3f} ({row['low']:.3f}-{row['high']:.3f})" for row in rows]
        table.add_row(method, *shown, str(rows[0]["n"]))
    console.print(table)
    show_counts("left out or repaired", report["skipped"])


def show_counts(title: str, counts: Mapping[str, int]) -> None:
    """Print counts by reason."""
    for reason, count in counts.items():
        console.print(f"[dim]{title}: {escape(reason)}: {count}[/dim]")


def mean_text(value: Mapping[str, Any] | None, *, digits: int = 3) -> str:
    """Return a mean with its standard error and count."""
    return "-" if value is None else f"{value['mean']:.{digits}f} ± {value['error']:.{digits}f} (n={value['n']})"


def show_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the figures of a run."""
    console.print(
        f"[bold]{summary['dataset']} · {summary['preset']}[/bold] · {summary['answered']} of {summary['samples']} "
        f"samples answered · {escape(str(folder))}"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("all", justify="right")
    categories = summary["by_category"]
    for category in categories:
        table.add_column(category, justify="right")
    for metric, value in summary["metrics"].items():
        cells = [categories[name].get(metric) for name in categories]
        table.add_row(metric, mean_text(value), *("-" if cell is None else f"{cell['mean']:.3f}" for cell in cells))
    fallbacks = [categories[name]["fallback_rate"] for name in categories]
    table.add_row(
        "fallback rate",
        mean_text(summary["fallback_rate"]),
        *("-" if cell is None else f"{cell['mean']:.3f}" for cell in fallbacks),
    )
    console.print(table)
    if unreadable := summary.get("unreadable_verdicts"):
        console.print(f"verdicts that could not be read, and escalated: {unreadable}")
    if summary["scenarios"]:
        console.print(f"scenarios solved: {mean_text(summary['scenarios']['solved'])}")
    each = summary["per_question"]
    for name in ("calls", "tokens_in", "tokens_out", "seconds"):
        console.print(f"{name} per question: {mean_text(each[name], digits=2)}")
    phases = [f"{name} {value['mean']:.2f}" for name, value in summary["phases"].items() if value]
    console.print(f"seconds by phase: {', '.join(phases)}")
    costs = [f"{name} {value:.4f}" for name, value in summary["cost"].items() if value is not None]
    console.print(f"cost: {', '.join(costs) if costs else 'no prices given'}")
    for metric, reasons in summary["unscored"].items():
        show_counts(f"unscored ({metric})", reasons)
    show_counts("left out or repaired", summary["skipped"])


def show_comparison(report: Mapping[str, Any]) -> None:
    """Print how the second run differs from the first."""
    table = Table(box=None, pad_edge=False, title=f"{report['second']} against {report['first']}")
    for heading in ("", report["first"], report["second"], "difference (95%)", "p boot", "p sign", "+/=/-", "n"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, row in report["rows"].items():
        table.add_row(
            name,
            f"{row['first']:.3f}",
            f"{row['second']:.3f}",
            f"{row['mean']:+.3f} ({row['low']:+.3f}, {row['high']:+.3f})",
            f"{row['p_bootstrap']:.3f}",
            f"{row['p_sign']:.3f}",
            f"{row['better']}/{row['equal']}/{row['worse']}",
            str(row["n"]),
        )
    console.print(table)
    console.print(f"[dim]{report['common']} samples in both; only in the first {report['only_first']}, only in the "
                  f"second {report['only_second']}. Of tokens and seconds, less is better.[/dim]")  # fmt: skip


def show_prompt_costs(report: Mapping[str, Any]) -> None:
    """Print tokens by policy, and what a prompt cache would have held."""
    table = Table(box=None, pad_edge=False, title=f"tokens of one question, {report['dataset']}, {report['preset']}")
    for heading in ("policy", "route", "calls", "tokens in", "cached"):
        table.add_column(heading, justify="left" if heading in {"policy", "route"} else "right")
    for row in report["policies"]:
        route = "deliberate" if row["escalated"] else "fast"
        table.add_row(row["policy"], route, f"{row['calls']:.1f}", f"{row['tokens_in']:.0f}", f"{row['cached']:.0%}")
    console.print(table)
    beside = Table(box=None, pad_edge=False, title="tokens in against System 1")
    for heading in ("policy", "here", "paper", "fast", "deliberate", "rate for the paper's"):
        beside.add_column(heading, justify="left" if heading == "policy" else "right")
    for row in report["ratios"]:
        cells = (row["ratio"], row["paper_ratio"], row["fast_ratio"], row["deliberate_ratio"])
        shown = ["-" if cell is None else f"{cell:.2f}" for cell in cells]
        rate = row["rate_for_paper_ratio"]
        beside.add_row(row["policy"], *shown, "-" if rate is None else f"{rate:.0%}")
    console.print(beside)
    for policy, steps in report["prompts"].items():
        for step, row in steps.items():
            console.print(
                f"[dim]{policy} · {step}: {row['prompts']} prompts of {row['tokens']:.0f} tokens, "
                f"{row['cached_share']:.0%} held by an exact-prefix cache[/dim]"
            )
