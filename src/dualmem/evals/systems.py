"""What is measured: dualmem by its presets, and the two baselines every memory must beat.

All answer through the same prompt and the same model, so a difference is one of evidence.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from dualmem.context import Context
from dualmem.evals.rankings import dense_ranking
from dualmem.evals.run_files import Ingested
from dualmem.evals.samples import Sample
from dualmem.identity import turn_ids
from dualmem.prompting import fence, turn_lines
from dualmem.prompts import answer as answer_prompt
from dualmem.recollecting import evidence_ids
from dualmem.records import Recollection, Transcript, Turn, Usage
from dualmem.retrieval.text import count_tokens

if TYPE_CHECKING:
    from dualmem.memory import DualMem

BASELINES: Final = ("full-context", "rag")

PEERS: Final = ("mem0", "langmem")
"""Other libraries (`peers`)."""

CHUNK_TOKENS: Final = 4096
"""Size of a chunk of the plain RAG baseline (D-Mem's table)."""

CHUNKS: Final = 2
"""Chunks that plain RAG shows."""


@dataclass(frozen=True)
class Answered:
    """An answer with all that a run records of how it came about."""

    text: str
    route: str = "fast"
    outcome: str = "answered"
    verdict: Mapping[str, Any] = field(default_factory=dict)
    degraded_reason: str = ""
    evidence: tuple[str, ...] | None = ()
    """Ids of the benchmark's messages; None where it is not known which were shown."""
    memory_ids: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    timings: Mapping[str, float] = field(default_factory=dict)


class System(Protocol):
    """Something that takes in conversations and answers questions about them."""

    durable: bool
    """Whether what it took in is still there when it is made anew."""

    async def take_in(self, key: str, transcript: Transcript) -> Ingested:
        """Take in a conversation; what was taken in before costs nothing again."""

    async def answer(self, sample: Sample, transcript: Transcript) -> Answered:
        """Answer a sample's question.

        Raises:
            DualmemError: There is no answer.
        """

    async def close(self) -> None:
        """Release what it opened itself."""


class DualMemSystem:
    """dualmem, each conversation a user's."""

    durable = True

    def __init__(self, memory: DualMem) -> None:
        self._memory = memory

    async def take_in(self, key: str, transcript: Transcript) -> Ingested:
        """Remember a conversation; turns that were read before are not read again."""
        receipt = await self._memory.remember(transcript, user_id=key)
        return Ingested(
            conversation=key,
            turns=receipt.turns_stored + receipt.turns_known,
            memories=receipt.memories_made,
            pending=receipt.turns_pending,
            usage=receipt.usage,
            seconds=receipt.seconds,
            failures=receipt.failures,
        )

    async def answer(self, sample: Sample, transcript: Transcript) -> Answered:
        """Recall."""
        found = await self._memory.recall(sample.question, user_id=sample.conversation, asked_at=sample.asked_at)
        ids = turn_ids(sample.conversation, transcript.conversation_id, transcript.messages)
        names = {turn_id: message.id or turn_id for turn_id, message in zip(ids, transcript.messages, strict=True)}
        return Answered(
            text=found.answer,
            route=found.route,
            outcome=found.outcome,
            verdict=found.verdict.model_dump(mode="json"),
            degraded_reason=found.degraded_reason,
            evidence=_presented(found, names),
            memory_ids=tuple(evidence_ids(found)),
            usage=found.usage,
            timings=found.timings,
        )

    async def close(self) -> None:
        """Nothing: the memory is its owner's."""


def _presented(found: Recollection, names: Mapping[str, str]) -> tuple[str, ...]:
    ids = [turn_id for item in found.evidence for turn_id in item.source_turn_ids]
    return tuple(dict.fromkeys(names[turn_id] for turn_id in ids if turn_id in names))


@dataclass
class Baseline:
    """A baseline without a memory: it shows the model the conversation, or chunks of it.

    Args:
        context: Models and settings.
        kind: `full-context` or `rag`.
    """

    context: Context
    kind: str
    durable: bool = False
    _chunks: dict[str, list[list[Turn]]] = field(default_factory=dict)

    async def take_in(self, key: str, transcript: Transcript) -> Ingested:
        """Cut the conversation into chunks and embed those; no model is called."""
        started = time.perf_counter()
        turns = as_turns(key, transcript)
        chunks = [turns] if self.kind == "full-context" else cut(turns, CHUNK_TOKENS)
        self._chunks[key] = chunks
        if self.kind == "rag":
            await self.context.embedder.documents([_text(chunk) for chunk in chunks])
        return Ingested(conversation=key, turns=len(turns), seconds=time.perf_counter() - started)

    async def answer(self, sample: Sample, transcript: Transcript) -> Answered:  # noqa: ARG002 - the protocol's
        """Answer from what is shown."""
        started = time.perf_counter()
        chunks = await self._shown(self._chunks[sample.conversation], sample.question)
        turns = [turn for chunk in chunks for turn in chunk]
        evidence = tuple(turn.source_id for turn in turns if turn.source_id)
        return await answer_from(
            self.context, sample, turn_lines(turns, first=None), started=started, evidence=evidence
        )

    async def close(self) -> None:
        """Nothing was opened."""

    async def _shown(self, chunks: list[list[Turn]], question: str) -> list[list[Turn]]:
        if self.kind == "full-context":
            return chunks
        import numpy as np  # noqa: PLC0415 - heavy

        vectors = np.asarray(await self.context.embedder.documents([_text(chunk) for chunk in chunks]))
        query = np.asarray(await self.context.embedder.query(question))
        return [chunks[place] for place in sorted(dense_ranking(vectors, query)[:CHUNKS])]


async def answer_from(
    context: Context, sample: Sample, shown: Sequence[str], *, started: float, evidence: tuple[str, ...] | None = None
) -> Answered:
    """Answer a question from some lines, through the prompt that dualmem answers with.

    Args:
        context: Models and settings.
        sample: What is asked.
        shown: The lines that stand before the model.
        started: When the search for it began, by `time.perf_counter`.
        evidence: The benchmark's messages that are in it; None where that is not known.

    Raises:
        ModelError: There is no answer.
    """
    retrieved = time.perf_counter()
    prompt = answer_prompt.render(
        fence("evidence", shown),
        sample.question,
        labels=[],
        asked_at=sample.asked_at,
        style=context.settings.answer_style,
    )
    reply = await context.chat.ask(prompt)
    return Answered(
        text=reply.value.answer.strip(),
        outcome="answered" if reply.value.found else "not_answerable",
        verdict={"policy": "never", "passed": True},
        evidence=evidence,
        usage=Usage.of(reply.calls),
        timings={"retrieve": retrieved - started, "answer": time.perf_counter() - retrieved},
    )


def as_turns(key: str, transcript: Transcript) -> list[Turn]:
    """Return a transcript's messages as turns of the user `key`, as ingestion stores them."""
    now = datetime.now(UTC)
    ids = turn_ids(key, transcript.conversation_id, transcript.messages)
    return [
        Turn(
            id=turn_id,
            user_id=key,
            conversation_id=transcript.conversation_id,
            position=position,
            speaker=message.name or message.role,
            role=message.role,
            text=message.content,
            said_at=message.timestamp,
            session=message.session,
            source_id=message.id,
            recorded_at=now,
        )
        for position, (turn_id, message) in enumerate(zip(ids, transcript.messages, strict=True))
    ]


def cut(turns: list[Turn], most_tokens: int) -> list[list[Turn]]:
    """Cut turns into chunks of at most `most_tokens`, between turns; a longer turn is a chunk of its own."""
    chunks: list[list[Turn]] = []
    used = 0
    for turn in turns:
        tokens = count_tokens(f"{turn.speaker}: {turn.text}")
        if not chunks or used + tokens > most_tokens:
            chunks.append([])
            used = 0
        chunks[-1].append(turn)
        used += tokens
    return chunks


def _text(chunk: list[Turn]) -> str:
    return "\n".join(f"{turn.speaker}: {turn.text}" for turn in chunk)
