"""Carry out one run from its options to its summary."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualmem.context import Context
from dualmem.errors import ConfigurationError
from dualmem.evals.planning import options_of, peer_folder, run_settings, system_of, with_store
from dualmem.evals.prices import read_prices
from dualmem.evals.run_files import (
    INGESTION,
    SUMMARY,
    Ingested,
    command,
    commit,
    machine,
    open_run,
    prompt_hashes,
    read_lines,
    read_run,
    read_samples,
    versions,
)
from dualmem.evals.runs import Judge, Limits, Run, Tally
from dualmem.evals.samples import Benchmark, Sample
from dualmem.evals.selection import first_sessions, select
from dualmem.evals.summary import latest, summarise
from dualmem.evals.systems import BASELINES, PEERS, Baseline, DualMemSystem, System
from dualmem.memory import DualMem
from dualmem.models import chat_name, embedding_name, make_chat

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    from dualmem.config import Settings


@dataclass(frozen=True)
class RunOptions:
    """The options of `dualmem bench run`."""

    dataset: str
    preset: str
    out: Path
    task: str | None = None
    policy: str | None = None
    ablate: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    conversations: int | None = None
    sample: int | None = None
    seed: int = 0
    limit: int | None = None
    sessions: int | None = None
    adversarial: bool = False
    concurrency: int = 4
    budget: int | None = None
    max_cost: float | None = None
    prices: Path | None = None
    judge_model: str | None = None
    judged: bool = True
    stores: Path | None = None
    resume: bool = False
    retry: bool = False


async def execute(
    options: RunOptions,
    benchmark: Benchmark,
    *,
    update: Callable[[Tally], None] = lambda _: None,
    chat_model: BaseChatModel | None = None,
    judge_model: BaseChatModel | None = None,
    embeddings: Embeddings | None = None,
) -> tuple[dict[str, Any], bool]:
    """Run, and write the summary.

    Args:
        options: What to run.
        benchmark: As it was read.
        update: Told after everything that happens.
        chat_model: In place of the model the settings name.
        judge_model: In place of the judge the options name.
        embeddings: In place of the embeddings the settings name.

    Returns:
        The summary, and whether the run came to its end.

    Raises:
        ConfigurationError: The options cannot be met.
    """
    prices = read_prices(options.prices)
    if options.max_cost is not None and options.prices is None:
        message = "--max-cost needs --prices, the table that says what tokens cost"
        raise ConfigurationError(message)
    settings = run_settings(
        options.dataset, options.preset, policy=options.policy, ablate=options.ablate, options=options.options
    )
    settings = with_store(settings, options.stores or options.out / "stores", sessions=options.sessions)
    if options.sessions is not None:
        benchmark = first_sessions(benchmark, options.sessions)
    samples = _chosen(benchmark, options)
    run = _description(options, settings, benchmark, samples)
    open_run(options.out, run, resume=options.resume)
    async with DualMem(settings, chat_model=chat_model, embeddings=embeddings) as memory, AsyncExitStack() as stack:
        context = Context(memory.settings, memory.resources)
        system, home = _system(options, memory, context)
        stack.push_async_callback(system.close)
        judge = _judge(options, settings, context, chat_model, judge_model)
        work = Run(
            options.out,
            home,
            benchmark,
            samples,
            system,
            judge=judge,
            model=run["model"],
            prices=prices,
            limits=Limits(options.concurrency, options.budget, options.max_cost),
            update=update,
        )
        finished = await work.run(retry=options.retry)
    keys = {sample.conversation for sample in samples}
    accounts = [Ingested.model_validate(line) for line in read_lines(home / INGESTION)]
    records = read_samples(options.out)
    summary = summarise(
        read_run(options.out),
        [records[sample.id] for sample in samples if sample.id in records],
        latest([each for each in accounts if each.conversation in keys]),
        prices,
    )
    summary["finished"] = finished
    summary["skipped"] = {reason: count for reason, count in benchmark.skipped.items() if count}
    (options.out / SUMMARY).write_text(json.dumps(summary, ensure_ascii=False, indent=2) + "\n", "utf-8")
    return summary, finished


def _system(options: RunOptions, memory: DualMem, context: Context) -> tuple[System, Path]:
    """Return what is measured, and the folder for the account of what it takes in: beside that itself."""
    if options.preset in PEERS:
        from dualmem.evals.peers import Peer  # noqa: PLC0415 - only where it is measured

        stores = options.stores or options.out / "stores"
        folder = peer_folder(memory.settings, options.preset, stores, sessions=options.sessions)
        return Peer(context, options.preset, folder), folder
    if options.preset in BASELINES:
        return Baseline(context, options.preset), options.out
    return DualMemSystem(memory), Path(memory.settings.store).parent


def _chosen(benchmark: Benchmark, options: RunOptions) -> list[Sample]:
    return select(
        benchmark.samples,
        conversations=options.conversations,
        sample=options.sample,
        seed=options.seed,
        limit=options.limit,
    )


def _judge(
    options: RunOptions,
    settings: Settings,
    context: Context,
    chat_model: BaseChatModel | None,
    judge_model: BaseChatModel | None,
) -> Judge | None:
    if not options.judged:
        return None
    if judge_model is not None:
        return Judge(make_chat(settings, judge_model), options.judge_model or "given")
    if options.judge_model is None or chat_model is not None:
        # The judge asks at temperature 0, as every call does that names none.
        return Judge(context.chat, chat_name(settings))
    return Judge(make_chat(settings.override({"chat_model": options.judge_model})), options.judge_model)


def _description(
    options: RunOptions, settings: Settings, benchmark: Benchmark, samples: Sequence[Sample]
) -> dict[str, Any]:
    """Return what the run's figures depend on, as it stands in `run.json`."""
    model = chat_name(settings)
    return {
        "dataset": benchmark.name,
        "task": options.task,
        "system": system_of(options.preset),
        "preset": options.preset,
        "model": model,
        "embedding": embedding_name(settings),
        "judge": (options.judge_model or model) if options.judged else None,
        "options": options_of(settings),
        "selection": {
            "conversations": options.conversations,
            "sessions": options.sessions,
            "sample": options.sample,
            "seed": options.seed,
            "limit": options.limit,
            "adversarial": options.adversarial,
            "samples": len(samples),
        },
        "store": os.path.relpath(settings.store, options.out),
        "prompts": prompt_hashes(),
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "command": command(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
