"""What a person sees: progress, tables and trees in the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from dualmem.errors import ModelNotConfigured
from dualmem.models import chat_name, embedding_name
from dualmem.prompting import describe_instant
from dualmem.records import Estimate, EvidenceItem, IngestReceipt, Memory, Recollection, Scope, Transcript, Turn
from dualmem.retrieval.times import describe

if TYPE_CHECKING:
    from dualmem.config import Settings
    from dualmem.memory import DualMem

_PIPED = 4000
"""Columns where nothing says how many there are: what is piped is not folded, so that it can be searched."""


def _width() -> int | None:
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED


console = Console(highlight=False, width=_width())

_STATUS_STYLE = {"current": "green", "superseded": "dim", "conflicting": "yellow", "supporting": "cyan"}
_ROUTE_STYLE = {"fast": "green", "deliberate": "magenta", "degraded": "red"}
_SHOWN = 8
"""Evidence lines without --explain."""


def _progress(*, quiet: bool) -> Progress:
    """Return a progress display; on stderr, so that output can be piped."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # Elsewhere than in a terminal the display leaves an empty line behind.
        disable=quiet or not console.is_terminal,
    )


async def ingest_with_progress(
    memory: DualMem, transcript: Transcript, user_id: str, *, quiet: bool = False
) -> IngestReceipt:
    """Remember a transcript, with a bar over its windows."""
    given = {"user_id": user_id, "transcript": transcript}
    receipt: IngestReceipt | None = None
    with _progress(quiet=quiet) as progress:
        bar = progress.add_task(f"storing {len(transcript.messages)} turns", total=None)
        async for update in memory.ingestion_graph.astream(given, context=memory.settings, stream_mode="updates"):
            for node, change in update.items():
                if node == "record":
                    progress.update(bar, description="reading windows", total=len(change["windows"]), completed=0)
                elif node == "extract":
                    progress.advance(bar)
                elif node in {"dedupe", "integrate"}:
                    progress.update(bar, description=f"{node} done")
                elif node == "receipt":
                    receipt = change["receipt"]
    assert receipt is not None  # noqa: S101 - the last node of the graph
    return receipt


async def ask_with_progress(
    memory: DualMem,
    question: str,
    user_id: str,
    asked_at: datetime | None,
    *,
    scope: Scope | None = None,
    quiet: bool = False,
) -> Recollection:
    """Recall, showing the step at hand."""
    given: dict[str, Any] = {"user_id": user_id, "question": question}
    if asked_at is not None:
        given["asked_at"] = asked_at
    if scope is not None:
        given["scope"] = scope
    recollection: Recollection | None = None
    with _progress(quiet=quiet) as progress:
        bar = progress.add_task("retrieve", total=None)
        following = {"retrieve": "filter", "filter": "answer", "answer": "gate", "gate": "deliberate"}
        async for mode, update in memory.recall_graph.astream(
            given, context=memory.settings, stream_mode=["updates", "values"]
        ):
            assert isinstance(update, dict)  # noqa: S101 - both modes give dicts
            if mode == "values":
                recollection = update.get("recollection", recollection)
                continue
            for node in update:
                progress.update(bar, description=following.get(node, node))
    assert recollection is not None  # noqa: S101 - set by the gate
    return recollection


def show_estimate(estimate: Estimate) -> None:
    """Print what a question would cost, step by step."""
    console.print(
        f"gate {estimate.policy}; at least {estimate.least_calls} calls and {estimate.least_tokens:,} tokens in"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("step")
    for heading in ("calls", "tokens in", "tokens out"):
        table.add_column(heading, justify="right")
    for step in (*estimate.fast, *estimate.deliberation):
        table.add_row(step.step, str(step.calls), f"{step.tokens_in:,}", f"{step.tokens_out:,}")
    most = (str(estimate.most_calls), f"{estimate.most_tokens_in:,}", f"{estimate.most_tokens_out:,}")
    table.add_row("[bold]at most[/bold]", *most)
    console.print(table)
    if estimate.turns:
        console.print(f"would read up to {estimate.turns} turns in {estimate.chunks} chunks and {estimate.waves} waves")
    if estimate.most_cost is not None:
        console.print(f"at most {estimate.most_cost:.4f} in money")
    if estimate.limited_by:
        console.print(f"stopped before by {estimate.limited_by}")


def show_receipt(receipt: IngestReceipt) -> None:
    """Print what an ingestion did."""
    table = Table.grid(padding=(0, 2))
    rows: list[tuple[str, Any]] = [
        ("turns stored", receipt.turns_stored),
        ("turns known before", receipt.turns_known),
        ("memories made", receipt.memories_made),
        ("merged", receipt.merged),
        ("superseded", receipt.superseded),
        ("contradicted", receipt.contradicted),
        ("repeated", receipt.repeated),
        *([("read like instructions", receipt.suspicious)] if receipt.suspicious else []),
        *([("quarantined", receipt.quarantined)] if receipt.quarantined else []),
        ("turns pending", receipt.turns_pending),
        ("model calls", receipt.usage.calls),
        ("tokens in / out", f"{receipt.usage.tokens_in} / {receipt.usage.tokens_out}"),
        ("seconds", f"{receipt.seconds:.1f}"),
    ]
    for name, value in rows:
        table.add_row(name, str(value))
    for reason, count in {**receipt.turns_skipped, **receipt.rejected}.items():
        table.add_row(f"[dim]left out: {escape(reason)}[/dim]", f"[dim]{count}[/dim]")
    console.print(f"[bold]{escape(receipt.conversation_id)}[/bold] for user {escape(receipt.user_id)}")
    console.print(table)
    for failure in receipt.failures:
        console.print(f"[red]pending because:[/red] {escape(failure)}")


def show_recollection(recollection: Recollection, *, explain: bool = False) -> None:
    """Print an answer with its route, verdict and evidence."""
    console.print(f"[bold]{escape(recollection.answer)}[/bold]")
    style = _ROUTE_STYLE[recollection.route]
    verdict = recollection.verdict
    said = "passed" if verdict.passed else "not passed"
    reason = f": {escape(verdict.reason)}" if verdict.reason else ""
    console.print(f"[{style}]{recollection.route}[/{style}] · gate {verdict.policy} {said}{reason}")
    if recollection.coverage is not None:
        coverage = recollection.coverage
        console.print(f"{coverage} in {coverage.chunks_total} chunks; {coverage.facts_used} facts used")
    if recollection.route == "deliberate" and recollection.fast_answer:
        console.print(f"[dim]the fast answer was: {escape(recollection.fast_answer)}[/dim]")
    if recollection.final is not None and not (recollection.final.passed and recollection.outcome == "answered"):
        console.print(f"last word: {escape(recollection.final.reason)}")
    for line in recollection.computed if explain else ():
        console.print(f"[cyan]computed:[/cyan] {escape(line)}")
    if recollection.remembered:
        console.print(f"[dim]wrote back {len(recollection.remembered)} memories[/dim]")
    if recollection.degraded_reason:
        console.print(f"[red]degraded:[/red] {escape(recollection.degraded_reason)}")
    chosen = recollection.evidence if explain else _cited_units(recollection.evidence)
    show_evidence(chosen)
    if explain:
        steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in recollection.timings.items())
        usage = recollection.usage
        console.print(f"[dim]{usage.calls} calls, {usage.tokens_in} tokens in ({usage.tokens_cached} cached), "
                      f"{usage.tokens_out} out; {steps}[/dim]")  # fmt: skip


def _cited_units(evidence: Sequence[EvidenceItem]) -> list[EvidenceItem]:
    """Return the cited evidence with what belongs to it; without citations the first lines."""
    units = {item.unit for item in evidence if item.cited}
    return [item for item in evidence if item.unit in units] or list(evidence[:3])


def show_evidence(items: Iterable[EvidenceItem]) -> None:
    """Print evidence, unit by unit: chains from earlier to newer, conflicts side by side."""
    table = Table.grid(padding=(0, 1))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for item in items:
        style = _STATUS_STYLE[item.status]
        when = f" ({describe(item.valid)})" if item.valid and item.valid.precision != "unknown" else ""
        said = f"said {describe_instant(item.known_at, day_only=True)}" if item.known_at else ""
        table.add_row(
            " *" if item.cited else "",
            f"[{style}]{item.status}[/{style}]",
            (item.memory_id or "turn")[:8],
            f"{escape(item.text)}{when}  [dim]{said}[/dim]",
        )
        for source in item.sources:
            table.add_row("", "", "", f'[dim]{escape(source.speaker)}: "{escape(source.text)}"[/dim]')
    console.print(table)


def show_memories(memories: Sequence[Memory]) -> None:
    """Print memories as a table: what is shortest first, so that the text gets the rest of the line."""
    if not memories:
        console.print("nothing is remembered for this user")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in ("id", "said", "kind", "memory"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "memory")
    for memory in memories:
        conflicting = memory.active and any(link.relation == "contradicts" for link in memory.links)
        marks: list[str] = ["conflicting"] if conflicting else [] if memory.active else [memory.state]
        if memory.valid and memory.valid.precision != "unknown":
            marks.append(describe(memory.valid))
        if memory.suspicion:
            marks.append(f"reads like an instruction: {memory.suspicion}")
        style = "yellow" if conflicting else "" if memory.active else "dim"
        note = f" [dim]({escape(', '.join(marks))})[/dim]" if marks else ""
        table.add_row(
            memory.id[:8], f"{memory.known_at:%Y-%m-%d}", memory.kind, f"{escape(memory.text)}{note}", style=style
        )
    console.print(table)


def show_memory(memory: Memory, turns: Sequence[Turn]) -> None:
    """Print one memory with its links and source turns."""
    console.print(f"[bold]{escape(memory.text)}[/bold]")
    console.print(f"{memory.kind} · {memory.state} · about {escape(memory.subject)} · {escape(memory.attribute)}")
    if memory.role != "user":
        console.print(f"said by {escape(memory.speaker)} ({memory.role}), not by the user")
    console.print(f"id {memory.id} · known since {describe_instant(memory.known_at)}")
    if memory.suspicion:
        console.print(f"[yellow]reads like an instruction:[/yellow] {escape(memory.suspicion)}")
    for link in memory.links:
        console.print(f"  {link.relation.replace('_', ' ')} {link.target[:8]}: {escape(link.reason)}")
    for turn in turns:
        console.print(Padding(f'[dim]{escape(turn.speaker)}: "{escape(turn.text)}"[/dim]', (0, 0, 0, 2), expand=False))


def show_chain(chain: Sequence[Memory]) -> None:
    """Print a chain from its earliest state to the one in force."""
    table = Table.grid(padding=(0, 1))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for place, memory in enumerate(chain):
        style = "green" if memory.active else "dim"
        table.add_row(
            "" if place == 0 else "→",
            f"[{style}]{memory.id[:8]}[/{style}]",
            f"[{style}]{escape(memory.text)}[/{style}]  said {describe_instant(memory.known_at, day_only=True)}",
        )
        for link in memory.links:
            if link.relation == "superseded_by":
                table.add_row("", "", f"[dim]replaced: {escape(link.reason)}[/dim]")
    console.print(table)


def show_models(settings: Settings) -> None:
    """Print which models are in force, or how to configure them."""
    for what, name_of in (("chat model", chat_name), ("embedding model", embedding_name)):
        try:
            console.print(f"{what}: [bold]{escape(name_of(settings))}[/bold]")
        except ModelNotConfigured as error:
            console.print(f"[yellow]{escape(str(error))}[/yellow]")
            break
    console.print()


def show_settings(rows: Iterable[tuple[str, Any, str, str]], *, explain: bool = False) -> None:
    """Print settings as a table; what is not a default stands out."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "setting")
    for name, value, origin, description in rows:
        shown = "" if value is None else ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        meaning = f"\n[dim]{escape(description)}[/dim]" if explain else ""
        style = "" if origin == "default" else "bold"
        table.add_row(f"[{style or 'none'}]{name}[/]", f"{escape(shown)}{meaning}", f"[dim]{escape(origin)}[/dim]")
    console.print(table)
