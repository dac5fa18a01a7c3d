"""Reorder evidence units: by words and dates, by a cross-encoder or any LangChain compressor, or by a model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from langchain_core.documents import Document

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.labels import numbered
from dualmem.prompting import evidence_lines
from dualmem.prompts import rerank as rerank_prompt
from dualmem.prompts.evidence import evidence_part
from dualmem.records import EvidenceUnit, Interval, ModelCall
from dualmem.retrieval.units import rerank

READ: Final = 40
"""Units that a reranker reads; those after them stay where they are."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """Evidence units in their new order."""

    units: tuple[EvidenceUnit, ...]
    calls: tuple[ModelCall, ...] = ()
    failure: str = ""
    """Why the order is that of words and dates instead."""


async def rerank_units(
    units: Sequence[EvidenceUnit],
    question: str,
    asked_for: Interval | None,
    context: Context,
    *,
    asked_at: datetime | None = None,
) -> Reranked:
    """Reorder `units` as the settings say; a reranker that fails costs its order, not the evidence."""
    how = context.settings.rerank
    if how == "none":
        return Reranked(tuple(units))
    lexical = rerank(units, question, asked_for)
    if how == "lexical" or not units:
        return Reranked(tuple(lexical))
    first, rest = lexical[:READ], lexical[READ:]
    try:
        if how == "model":
            return await _by_model(first, rest, question, context, asked_at)
        return Reranked((*await _by_compressor(first, question, context), *rest))
    except ModelError as error:
        return Reranked(tuple(lexical), tuple(error.calls), f"the reranker failed: {error}")
    except Exception as error:  # noqa: BLE001 - compressors of others raise what they like
        return Reranked(tuple(lexical), failure=f"the reranker failed: {type(error).__name__}: {error}")


async def _by_model(
    first: Sequence[EvidenceUnit],
    rest: Sequence[EvidenceUnit],
    question: str,
    context: Context,
    asked_at: datetime | None,
) -> Reranked:
    labels = _labels(first)
    prompt = rerank_prompt.render(
        evidence_part(first, labels, dates=context.settings.temporal),
        question,
        labels=list(labels.values()),
        asked_at=asked_at,
    )
    reply = await context.chat.ask(prompt)
    places: dict[str, int] = {}
    for place, unit in enumerate(first):
        for identifier in _ids(unit):
            places.setdefault(labels[identifier], place)
    chosen = list(dict.fromkeys(places[label] for label in reply.value.order if label in places))
    order = [*chosen, *(place for place in range(len(first)) if place not in set(chosen))]
    return Reranked((*(first[place] for place in order), *rest), reply.calls)


async def _by_compressor(first: Sequence[EvidenceUnit], question: str, context: Context) -> list[EvidenceUnit]:
    """Return the units in the order of a compressor, with its scores; those it leaves out come last."""
    labels = _labels(first)
    documents = [
        Document("\n".join(evidence_lines([unit], labels, dates=False)), metadata={"place": place})
        for place, unit in enumerate(first)
    ]
    compressor = context.resources.make_reranker(context.settings)
    kept = await compressor.acompress_documents(documents, question)
    scored: dict[int, Any] = {}
    for document in kept:
        scored.setdefault(int(document.metadata["place"]), document.metadata.get("relevance_score"))
    chosen = [
        replace(first[place], score=float(score)) if score is not None else first[place]
        for place, score in scored.items()
    ]
    # What a compressor leaves out is worth less to it than all it keeps, whatever its scores are.
    least = min((unit.score for unit in chosen), default=0.0) - 1.0
    return [*chosen, *(replace(unit, score=least) for place, unit in enumerate(first) if place not in scored)]


def _labels(units: Sequence[EvidenceUnit]) -> dict[str, str]:
    memories = [member.memory.id for unit in units for member in unit.members]
    turns = [turn.id for unit in units for turn in unit.turns]
    return {**numbered(memories, "M"), **numbered(turns, "T")}


def _ids(unit: EvidenceUnit) -> list[str]:
    return [*(member.memory.id for member in unit.members), *(turn.id for turn in unit.turns)]
