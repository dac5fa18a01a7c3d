"""Evidence recall without a chat model: the product's own search, side by side with plain rankings.

A question's recall at k is the share of its evidence turns among the first k turns that are presented. Search
presents turns in the order of its units: the turns a unit's memories come from, then the turns shown with them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langgraph.runtime import Runtime

from dualmem.context import Context, Resources
from dualmem.errors import InputError
from dualmem.evals.rankings import Bm25, Entry, dense_ranking, evidence_in_order, fused, recall_at
from dualmem.evals.samples import Benchmark, Observation, Sample
from dualmem.evals.statistics import estimate
from dualmem.identity import memory_id
from dualmem.nodes.ingestion.index import index
from dualmem.nodes.ingestion.record import record
from dualmem.records import EvidenceUnit, Memory, Source, Turn
from dualmem.searching.search import search
from dualmem.state import IngestionState
from dualmem.stores.commit import Commit
from dualmem.stores.payload import memory_text, of_user, turn_text

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from dualmem.config import Settings

SourceName = Literal["turns", "observations", "both", "memories"]
Method = Literal["dualmem", "dense", "bm25", "fusion"]
METHODS: tuple[Method, ...] = ("dualmem", "dense", "bm25", "fusion")

NO_EVIDENCE = "question without usable evidence"

Progress = Callable[[int, int], None]
"""Told the number of questions done and of all."""


@dataclass(frozen=True, slots=True)
class RecallRow:
    """Mean recall of one method at one k, with its 95% interval and the number of questions."""

    method: Method
    k: int
    recall: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What `dualmem bench retrieval` reports."""

    dataset: str
    source: SourceName
    rows: tuple[RecallRow, ...]
    skipped: Mapping[str, int]
    recalls: Mapping[tuple[Method, int], tuple[float, ...]]
    """Recall of each question, in the order of the samples."""


async def measure_recall(
    benchmark: Benchmark,
    *,
    source: SourceName,
    ks: Sequence[int],
    settings: Settings,
    embeddings: Embeddings,
    folder: Path,
    progress: Progress | None = None,
) -> RetrievalResult:
    """Fill one store with the conversations, each a user's, and measure every method over it.

    Args:
        benchmark: Questions without usable evidence are left out and counted.
        source: What can be found. `memories`: what an earlier run extracted; `folder` is that run's store.
        ks: At how many turns recall is measured.
        settings: Options of the search.
        embeddings: The embedding model.
        folder: Where the store is made (empty), or the store of a run.
        progress: Told after each question.

    Raises:
        InputError: The benchmark has no observations, or no question has evidence.
    """
    asked = [sample for sample in benchmark.samples if sample.evidence]
    skipped = Counter(benchmark.skipped)
    skipped[NO_EVIDENCE] += len(benchmark.samples) - len(asked)
    if source in {"observations", "both"} and not benchmark.observations:
        message = f"{benchmark.name} comes without observations; measure --source turns"
        raise InputError(message)
    if not asked:
        message = f"no question of {benchmark.name} has usable evidence"
        raise InputError(message)
    recalls: dict[tuple[Method, int], list[float]] = {(method, k): [] for method in METHODS for k in ks}
    done = 0
    for key in dict.fromkeys(sample.conversation for sample in asked):
        resources = _resources(settings, source, embeddings, folder)
        context = Context(resources.settings, resources)
        try:
            if source == "memories":
                entries, names = await _remembered(context, key)
            else:
                entries, names = await _filled(context, key, source, benchmark)
            plain = await PlainRankings.of(entries, context)
            for sample in (sample for sample in asked if sample.conversation == key):
                found = await _all_methods(context, sample, plain, names)
                for (method, k), values in recalls.items():
                    values.append(recall_at(found[method], sample.evidence, k))
                done += 1
                if progress is not None:
                    progress(done, len(asked))
        finally:
            await resources.close()
    return RetrievalResult(
        benchmark.name,
        source,
        tuple(_row(method, k, values) for (method, k), values in recalls.items()),
        {reason: count for reason, count in skipped.items() if count},
        {place: tuple(values) for place, values in recalls.items()},
    )


def _row(method: Method, k: int, values: Sequence[float]) -> RecallRow:
    found = estimate(values)
    assert found is not None  # noqa: S101 - there is a question
    return RecallRow(method, k, round(found.mean, 4), round(found.low, 4), round(found.high, 4), found.n)


def _resources(settings: Settings, source: SourceName, embeddings: Embeddings, folder: Path) -> Resources:
    options: dict[str, Any] = {"store": str(folder)}
    if source == "observations":
        options["rankings"] = tuple(name for name in settings.rankings if name != "turns")
    return Resources(settings.override(options), embeddings=embeddings)


async def fill(
    context: Context, key: str, benchmark: Benchmark, *, source: SourceName = "both"
) -> tuple[list[Turn], list[Memory]]:
    """Store a conversation as the user `key`'s, as the product does, with the benchmark's observations as memories.

    Returns:
        The turns, and the memories that were made (none for the source `turns`).
    """
    state: IngestionState = {"user_id": key, "transcript": benchmark.transcripts[key]}
    runtime = Runtime(context=context)
    # There are no windows to read: the model is not asked.
    await index({**await record(state, runtime), "windows": []}, runtime)
    turns = await context.store.turns(key)
    memories: dict[str, Memory] = {}
    if source != "turns":
        sources = {turn.source_id: turn for turn in turns if turn.source_id}
        made = [_memory(observation, sources, turns[0]) for observation in benchmark.observations.get(key, ())]
        memories = {memory.id: memory for memory in made}
        async with context.store.writer(key):
            await context.store.commit(Commit(key, tuple(memories.values())))
    return turns, list(memories.values())


async def _filled(
    context: Context, key: str, source: SourceName, benchmark: Benchmark
) -> tuple[list[Entry], dict[str, str]]:
    """Fill the store, and return what can be found with the names of its turns."""
    turns, memories = await fill(context, key, benchmark, source=source)
    names = {turn.id: turn.source_id or turn.id for turn in turns}
    entries = [Entry(turn_text(turn), (names[turn.id],)) for turn in turns] if source != "observations" else []
    return entries + _entries(memories, names), names


def _memory(observation: Observation, turns: Mapping[str, Turn], first: Turn) -> Memory:
    """Return an observation as a stored memory, with nothing that the benchmark does not say."""
    sources = [turns[each] for each in observation.evidence if each in turns]
    told = sources[0] if sources else first
    return Memory(
        id=memory_id(first.user_id, observation.text, [turn.id for turn in sources]),
        user_id=first.user_id,
        conversation_id=first.conversation_id,
        text=observation.text,
        kind="fact",
        speaker=observation.speaker,
        subject=observation.speaker,
        known_at=told.said_at or told.recorded_at,
        recorded_at=datetime.now(UTC),
        sources=tuple(Source(turn_id=turn.id, quote="") for turn in sources),
        origin="import",
        position=told.position,
    )


async def _remembered(context: Context, key: str) -> tuple[list[Entry], dict[str, str]]:
    """Return the memories that an earlier run extracted.

    Raises:
        InputError: The run has none of this conversation.
    """
    if not await context.store.open(create=False):
        message = f"the run has no store of the conversation {key!r}; give --run the folder of a finished run"
        raise InputError(message)
    names = {turn.id: turn.source_id or turn.id for turn in await context.store.turns(key)}
    return _entries(await context.store.memories(of_user(key)), names), names


def _entries(memories: Sequence[Memory], names: Mapping[str, str]) -> list[Entry]:
    return [
        Entry(memory_text(memory), tuple(names[each] for each in memory.turn_ids if each in names))
        for memory in memories
        if memory.active
    ]


@dataclass(frozen=True)
class PlainRankings:
    """The entries of one conversation, ready for the plain rankings."""

    entries: Sequence[Entry]
    vectors: Any
    bm25: Bm25

    @classmethod
    async def of(cls, entries: Sequence[Entry], context: Context) -> PlainRankings:
        """Embed and index `entries`."""
        import numpy as np  # noqa: PLC0415 - heavy

        texts = [entry.text for entry in entries]
        vectors = np.asarray(await context.embedder.documents(texts), dtype=np.float32)
        return cls(entries, vectors, await asyncio.to_thread(Bm25, texts))

    async def found(self, context: Context, question: str) -> dict[Method, list[str]]:
        """Return the evidence ids in the order of each plain method."""
        import numpy as np  # noqa: PLC0415 - slow to import

        if not self.entries:
            return {"dense": [], "bm25": [], "fusion": []}
        query = np.asarray(await context.embedder.query(question), dtype=np.float32)
        dense, sparse = dense_ranking(self.vectors, query), self.bm25.ranking(question)
        orders: dict[Method, list[int]] = {"dense": dense, "bm25": sparse, "fusion": fused([dense, sparse])}
        return {method: evidence_in_order(self.entries[place] for place in order) for method, order in orders.items()}


async def _all_methods(
    context: Context, sample: Sample, plain: PlainRankings, names: Mapping[str, str]
) -> dict[Method, list[str]]:
    found = await search(context, sample.conversation, sample.question, asked_at=sample.asked_at)
    return {"dualmem": presented(found.units, names), **await plain.found(context, sample.question)}


def presented(units: Sequence[EvidenceUnit], names: Mapping[str, str]) -> list[str]:
    """Return the turns that units present, each once, by the names of `names`."""
    ids = [
        turn_id
        for unit in units
        for turn_id in (
            *(each for member in unit.members for each in member.memory.turn_ids),
            *(turn.id for turn in unit.turns),
        )
    ]
    return list(dict.fromkeys(names[turn_id] for turn_id in ids if turn_id in names))
