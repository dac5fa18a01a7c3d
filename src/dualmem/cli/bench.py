"""`dualmem bench`: measure memory on public benchmarks, from their official files."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualmem.cli.bench_views import (
    RunProgress,
    show_comparison,
    show_prompt_costs,
    show_recall,
    show_summary,
    simple_progress,
)
from dualmem.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from dualmem.config import Settings
    from dualmem.evals.embedding_cache import CachedEmbeddings
    from dualmem.evals.samples import Benchmark

bench_app = typer.Typer(help="Measure memory on public benchmarks, from their official files.", no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="locomo, realtalk, beam, structmemeval or longmemeval.")]
Data = Annotated[Path, typer.Option(help="The benchmark's file, or a folder that holds its files.")]
Task = Annotated[str | None, typer.Option(help="One task of StructMemEval, one ability or category of the others.")]
Adversarial = Annotated[bool, typer.Option("--adversarial", help="Take LoCoMo's category 5 too.")]
Conversations = Annotated[int | None, typer.Option(min=1, help="Only the first N conversations.")]
Draw = Annotated[int | None, typer.Option("--sample", min=1, help="Draw N samples, stratified by category.")]
Seed = Annotated[int, typer.Option(help="The same seed draws the same samples.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N samples of what is left.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting as NAME=VALUE; may be given several times.")]
Cache = Annotated[Path | None, typer.Option(help="Where embeddings are kept; by default below DUALMEM_CACHE_DIR.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


@bench_app.command()
def retrieval(
    dataset: Dataset,
    data: Data,
    source: Annotated[str, typer.Option(help="turns, observations, both, or memories (of an earlier run).")] = "turns",
    k: Annotated[str, typer.Option(help="Turns at which recall is measured, by commas.")] = "5,10,30",
    run: Annotated[Path | None, typer.Option(help="For --source memories: the folder of that run.")] = None,
    task: Task = None,
    conversations: Conversations = None,
    options: Set = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Measure evidence recall beside plain dense, BM25 and fused rankings; no chat model is called.

    Example: dualmem bench retrieval --dataset locomo --data locomo10.json --source turns --k 5,10,30 --json
    """
    from dualmem.evals.retrieval import measure_recall
    from dualmem.evals.samples import Benchmark

    if source not in {"turns", "observations", "both", "memories"}:
        message = f"no source is named {source!r}; there are turns, observations, both and memories"
        raise InputError(message)
    ks = _counts(k)
    benchmark = _benchmark(dataset, data, task=task)
    samples = _selected(benchmark, conversations=conversations)
    benchmark = Benchmark(
        benchmark.name, tuple(samples), benchmark.transcripts, benchmark.skipped, benchmark.observations
    )
    settings = _model_free_settings(options)
    with tempfile.TemporaryDirectory(prefix="dualmem-bench-") as folder:
        place = _store_of(run) if source == "memories" else Path(folder) / "store"
        embeddings = _embeddings(settings, cache)
        with simple_progress("questions", quiet=as_json) as advance:
            result = asyncio.run(
                measure_recall(
                    benchmark,
                    source=source,  # type: ignore[arg-type] # checked above
                    ks=ks,
                    settings=settings,
                    embeddings=embeddings,
                    folder=place,
                    progress=advance,
                )
            )
        embeddings.close()
    report = {
        "dataset": result.dataset,
        "source": result.source,
        "rows": [asdict(row) for row in result.rows],
        "skipped": dict(result.skipped),
    }
    _say(report, as_json=as_json, show=lambda: show_recall(report))


@bench_app.command("run")
def run_benchmark(
    dataset: Dataset,
    data: Data,
    preset: Annotated[
        str, typer.Option(help="A preset, a baseline (full-context, rag), or mem0, langmem.")
    ] = "default",
    task: Task = None,
    policy: Annotated[str | None, typer.Option(help="Gate policy, over the preset's.")] = None,
    ablate: Annotated[list[str] | None, typer.Option(help="A part to take away; may be given several times.")] = None,
    adversarial: Adversarial = False,
    conversations: Conversations = None,
    sessions: Annotated[int | None, typer.Option(min=1, help="Only their first N sessions.")] = None,
    sample: Draw = None,
    seed: Seed = 0,
    limit: Limit = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations, and samples, at once.")] = 4,
    budget: Annotated[int | None, typer.Option(min=1, help="Stop after so many tokens in and out.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Stop at this cost; needs --prices.")] = None,
    prices: Annotated[Path | None, typer.Option(help="Price table, JSON or TOML: {MODEL: {input, output}}.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="Who judges; by default the answering model.")] = None,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Text metrics only.")] = False,
    options: Set = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    stores: Annotated[Path | None, typer.Option(help="Where filled stores are kept; by default in the run.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="With --resume: also what stayed unscored.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark and keep it in a folder; status 1 when a limit stopped it.

    Example: dualmem bench run --dataset structmemeval --task state_tracking --data DIR --preset quality --out run1
    """
    from dualmem.evals.execution import RunOptions, execute

    chosen = RunOptions(
        dataset=dataset,
        preset=preset,
        task=task,
        policy=policy,
        ablate=tuple(ablate or ()),
        options=_pairs(options),
        conversations=conversations,
        sessions=sessions,
        sample=sample,
        seed=seed,
        limit=limit,
        adversarial=adversarial,
        concurrency=concurrency,
        budget=budget,
        max_cost=max_cost,
        prices=prices,
        judge_model=judge_model,
        judged=not no_judge,
        out=out or Path("runs") / f"{dataset}-{task or 'all'}-{preset}",
        stores=stores,
        resume=resume,
        retry=retry,
    )
    benchmark = _benchmark(dataset, data, task=task, adversarial=adversarial)
    with RunProgress(quiet=as_json) as progress:
        summary, finished = asyncio.run(execute(chosen, benchmark, update=progress.update))
    _say(summary, as_json=as_json, show=lambda: show_summary(summary, chosen.out))
    if not finished:
        sys.stderr.write(f"stopped at a limit; go on with --resume --out {chosen.out}\n")
        raise typer.Exit(1)


@bench_app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a run.")],
    second: Annotated[Path, typer.Argument(help="Folder of another run over the same samples.")],
    as_json: AsJson = False,
) -> None:
    """Compare two runs sample by sample, with significance.

    Example: dualmem bench compare runs/mem0star runs/quality
    """
    from dualmem.evals.comparing import compare as compared
    from dualmem.evals.run_files import read_run, read_samples

    runs = [read_run(folder) for folder in (first, second)]
    found = compared(read_samples(first), read_samples(second))
    report = {"first": runs[0]["preset"], "second": runs[1]["preset"], **found}
    _say(report, as_json=as_json, show=lambda: show_comparison(report))


@bench_app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one self-contained page about several runs, with plots and the papers' own figures.

    Example: dualmem bench report runs/* --out report.html
    """
    from dualmem.evals.reporting import write_report

    write_report(runs, out)
    typer.echo(f"wrote {out}")


@bench_app.command()
def prompts(
    dataset: Dataset,
    data: Data,
    task: Task = None,
    conversations: Conversations = 1,
    sample: Draw = 20,
    seed: Seed = 0,
    limit: Limit = None,
    preset: Annotated[str, typer.Option(help="Settings of recall.")] = "default",
    options: Set = None,
    fallback: Annotated[float, typer.Option(min=0, max=1, help="Fallback rate for the expected cost.")] = 0.241,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Count the tokens of every gate policy, and what a prompt cache would save; no chat model is called.

    Example: dualmem bench prompts --dataset locomo --data locomo10.json --json
    """
    from dualmem.evals.planning import run_settings
    from dualmem.evals.prompt_costs import expected, measure_prompts, ratios, shares_by_step

    benchmark = _benchmark(dataset, data, task=task)
    samples = _selected(benchmark, conversations=conversations, sample=sample, seed=seed, limit=limit)
    settings = run_settings(dataset, preset, options={**_defaults(), **_pairs(options)})
    with tempfile.TemporaryDirectory(prefix="dualmem-bench-") as folder:
        embeddings = _embeddings(settings, cache)
        costs, sent = asyncio.run(
            measure_prompts(benchmark, samples, settings=settings, embeddings=embeddings, folder=Path(folder) / "store")
        )
        embeddings.close()
    rates = dict.fromkeys(("quality", "majority", "consensus"), fallback)
    found = {
        "dataset": benchmark.name,
        "preset": preset,
        "questions": len(samples),
        "policies": [asdict(cost) for cost in costs],
        "expected_tokens_in": {"fallback_rate": fallback, **expected(costs, rates)},
        "ratios": ratios(costs, fallback),
        "prompts": {policy: shares_by_step(each) for policy, each in sent.items()},
    }
    _say(found, as_json=as_json, show=lambda: show_prompt_costs(found))


def _benchmark(dataset: str, data: Path, *, task: str | None, adversarial: bool = False) -> Benchmark:
    from dualmem.evals.datasets import load_benchmark

    return load_benchmark(dataset, data, task=task, adversarial=adversarial)


def _selected(benchmark: Benchmark, **given: Any) -> list[Any]:
    from dualmem.evals.selection import select

    return select(benchmark.samples, **given)


def _counts(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        message = f"--k {text!r} is no list of numbers; write it like 5,10,30"
        raise InputError(message) from error
    if not found or min(found) < 1:
        message = f"--k {text!r} must hold numbers from 1 on"
        raise InputError(message)
    return found


def _pairs(options: list[str] | None) -> dict[str, Any]:
    """Return `NAME=VALUE` options; a value is read as JSON where it is JSON, else as text."""
    import json

    found: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            message = f"--set {option!r} is not of the form NAME=VALUE"
            raise ConfigurationError(message)
        try:
            found[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[name.strip()] = value
    return found


def _defaults() -> dict[str, Any]:
    """Return the embedding model to measure with where none is configured: the one that runs here."""
    from dualmem.config import load_settings
    from dualmem.errors import ModelNotConfigured
    from dualmem.models import embedding_name

    try:
        return {"embedding_model": embedding_name(load_settings())}
    except ModelNotConfigured:
        return {"embedding_model": "local"}


def _model_free_settings(options: list[str] | None) -> Settings:
    from dualmem.config import load_settings

    return load_settings(**{**_defaults(), **_pairs(options)})


def _embeddings(settings: Settings, cache: Path | None) -> CachedEmbeddings:
    from dualmem.evals.embedding_cache import CachedEmbeddings
    from dualmem.models import make_embedder

    folder = cache or Path(settings.cache_dir).expanduser() / "bench"
    return CachedEmbeddings(make_embedder(settings), folder)


def _store_of(run: Path | None) -> Path:
    from dualmem.evals.run_files import read_run

    if run is None:
        message = "--source memories needs --run, the folder of a run whose memories are searched"
        raise InputError(message)
    return run / str(read_run(run).get("store", ""))


def _say(value: Any, *, as_json: bool, show: Any) -> None:
    from dualmem.cli.running import say_json

    if as_json:
        say_json(value)
    else:
        show()
