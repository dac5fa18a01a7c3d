"""Run a benchmark: take in the conversations, answer the samples, score the answers, and keep it all in files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dualmem.errors import DualmemError, ModelError
from dualmem.evals.judging import judge_answer
from dualmem.evals.metrics import evidence_recall, text_scores
from dualmem.evals.prices import PriceTable
from dualmem.evals.run_files import (
    ANSWERS,
    INGESTION,
    SAMPLES,
    SampleRecord,
    append_line,
    read_lines,
    read_samples,
)
from dualmem.evals.samples import Benchmark, Sample
from dualmem.evals.systems import Answered, System
from dualmem.records import Usage

if TYPE_CHECKING:
    from dualmem.chat import Chat

_PHASES: Final = ("retrieve", "filter", "answer", "gate")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend, and how much of it at once."""

    concurrency: int = 4
    tokens: int | None = None
    """Most tokens in and out, the judge's not counted."""
    cost: float | None = None


@dataclass(slots=True)
class Tally:
    """What a run has done and spent so far; what it only read from an earlier part of the run is done, not spent."""

    total: int
    done: int = 0
    failed: int = 0
    tokens: int = 0
    judge_tokens: int = 0
    cost: float | None = None
    doing: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """The model that judges, and its name."""

    chat: Chat
    name: str


class Run:
    """One run of one system over chosen samples, in a folder.

    Args:
        folder: Where its files are.
        ingestion: The file that says what was taken in already, beside the store.
        benchmark: The conversations.
        samples: What is asked.
        system: What answers.
        judge: Who judges; None for text metrics alone.
        model: Name of the answering model, for the price table.
        prices: What tokens cost.
        limits: When to stop.
        update: Told after everything that happens.
    """

    def __init__(
        self,
        folder: Path,
        ingestion: Path,
        benchmark: Benchmark,
        samples: Sequence[Sample],
        system: System,
        *,
        judge: Judge | None,
        model: str,
        prices: PriceTable,
        limits: Limits,
        update: Callable[[Tally], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._ingestion = ingestion / INGESTION
        self._benchmark = benchmark
        self._samples = samples
        self._system = system
        self._judge = judge
        self._model = model
        self._prices = prices
        self._limits = limits
        self._update = update
        self.tally = Tally(total=len(samples))

    async def run(self, *, retry: bool = False) -> bool:
        """Do what is not done yet.

        Args:
            retry: Also do again what stayed unscored before; an answer that is there is only judged again.

        Returns:
            False when a limit stopped it before the end.

        Raises:
            ConfigurationError: The models are not configured.
            StoreError: The store cannot be used.
        """
        finished = read_samples(self._folder)
        answered = {key: each for key, each in read_samples(self._folder, ANSWERS).items() if not each.failed}
        if retry:
            finished = {key: each for key, each in finished.items() if not each.unscored}
        todo = [sample for sample in self._samples if sample.id not in finished]
        self.tally.done = len(self._samples) - len(todo)
        self.tally.failed = sum(finished[each.id].failed for each in self._samples if each.id in finished)
        self._update(self.tally)
        slots = asyncio.Semaphore(self._limits.concurrency)
        # Few conversations are open at once, so that a limit is reached with questions answered, not with all taken in.
        open_ones = asyncio.Semaphore(self._limits.concurrency)

        async def about(key: str) -> None:
            asked = [sample for sample in todo if sample.conversation == key]
            failure = ""
            async with open_ones:
                if any(sample.id not in answered for sample in asked):
                    async with slots:
                        if self._spent:
                            return
                        failure = await self._take_in(key)
                await asyncio.gather(*(self._one(each, answered.get(each.id), failure, slots) for each in asked))

        keys = dict.fromkeys(sample.conversation for sample in todo)
        conversations = [asyncio.create_task(about(key)) for key in keys]
        try:
            await asyncio.gather(*conversations)
        finally:
            # After an error the others must not go on asking a memory that is being closed.
            for each in conversations:
                each.cancel()
        return self.tally.done >= self.tally.total

    @property
    def _spent(self) -> bool:
        tokens, cost = self._limits.tokens, self._limits.cost
        return (tokens is not None and self.tally.tokens >= tokens) or (
            cost is not None and (self.tally.cost or 0.0) >= cost
        )

    async def _take_in(self, key: str) -> str:
        """Take in a conversation; return why it could not be, or ""."""
        self._say(f"reading {key}")
        known = {each["conversation"]: each for each in read_lines(self._ingestion)}
        remembered = key in known and not known[key]["pending"]
        if remembered and self._system.durable:
            return ""
        try:
            ingested = await self._system.take_in(key, self._benchmark.transcripts[key])
        except ModelError as error:
            return f"the conversation could not be taken in: {error}"
        append_line(self._ingestion, ingested)
        self._spend(ingested.usage)
        return ""

    async def _one(self, sample: Sample, before: SampleRecord | None, failure: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            if before is None and self._spent:
                return
            self._say(f"answering {sample.id}")
            record = before or await self._answered(sample, failure)
            if before is None:
                append_line(self._folder / ANSWERS, record)
                self._spend(record.usage)
            if not record.failed:
                record = await self._scored(sample, record)
            append_line(self._folder / SAMPLES, record)
            self.tally.done += 1
            self.tally.failed += record.failed
            self._update(self.tally)

    async def _answered(self, sample: Sample, failure: str) -> SampleRecord:
        empty = SampleRecord(
            id=sample.id,
            conversation=sample.conversation,
            scenario=sample.scenario,
            category=sample.category,
            question=sample.question,
            target=sample.target,
            wanted=sample.evidence,
        )
        if failure:
            return empty.model_copy(update={"unscored": {"answer": failure}})
        started = time.perf_counter()
        try:
            found = await self._system.answer(sample, self._benchmark.transcripts[sample.conversation])
        except DualmemError as error:
            reason = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - a fault met by one sample must not cost the others, which are paid
            reason = f"unexpected {type(error).__name__}: {error}"
        else:
            return empty.model_copy(update=_of_answer(found, time.perf_counter() - started))
        return empty.model_copy(
            update={"unscored": {"answer": reason}, "seconds": round(time.perf_counter() - started, 4)}
        )

    async def _scored(self, sample: Sample, record: SampleRecord) -> SampleRecord:
        scores = text_scores(record.answer, sample.target, sample.category)
        recall = None if record.evidence is None else evidence_recall(set(record.evidence), sample.evidence)
        if recall is not None:
            scores["evidence_recall"] = recall
        if self._judge is None:
            return record.model_copy(update={"scores": scores})
        judged = await judge_answer(self._judge.chat, sample, record.answer)
        usage = Usage.of(judged.calls)
        self.tally.judge_tokens += usage.tokens_in + usage.tokens_out
        update = {"judgement": judged.reason, "judge_usage": usage, "scores": scores, "unscored": {}}
        if judged.value is None:
            update["unscored"] = {judged.metric: judged.reason}
        else:
            scores[judged.metric] = judged.value
        return record.model_copy(update=update)

    def _spend(self, usage: Usage) -> None:
        self.tally.tokens += usage.tokens_in + usage.tokens_out
        cost = self._prices.cost(self._model, usage)
        if cost is not None:
            self.tally.cost = (self.tally.cost or 0.0) + cost
        self._update(self.tally)

    def _say(self, doing: str) -> None:
        self.tally.doing = doing
        self._update(self.tally)


def _of_answer(found: Answered, seconds: float) -> dict[str, object]:
    return {
        "answer": found.text,
        "route": found.route,
        "outcome": found.outcome,
        "verdict": dict(found.verdict),
        "degraded_reason": found.degraded_reason,
        "evidence": found.evidence,
        "memory_ids": found.memory_ids,
        "usage": found.usage,
        "seconds": round(seconds, 4),
        "timings": dict(found.timings),
        "phases": phases(found.timings),
    }


def phases(timings: Mapping[str, float]) -> dict[str, float]:
    """Return seconds by phase: the steps of the fast route, and all steps of deliberation as one."""
    split = {name: timings[name] for name in _PHASES if name in timings}
    deliberated = [seconds for step, seconds in timings.items() if step.startswith("deliberate.")]
    if deliberated:
        split["deliberate"] = sum(deliberated)
    return {name: round(seconds, 4) for name, seconds in split.items()}
