"""Answer from packed evidence, and make the public result of a recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from dualmem.chat import Reply
from dualmem.context import Context, Span, wall_times
from dualmem.prompts import answer as answer_prompt
from dualmem.prompts.answer import AnswerReply
from dualmem.prompts.evidence import evidence_part
from dualmem.records import (
    Answer,
    Coverage,
    EvidenceItem,
    Fact,
    ModelCall,
    Outcome,
    PackedContext,
    Recollection,
    Route,
    SourceTurn,
    Turn,
    Usage,
    Verdict,
)
from dualmem.reply import partial_text


async def answer_from(
    context: Context,
    packed: PackedContext,
    question: str,
    *,
    asked_at: datetime | None,
    standing: Sequence[str],
    temperature: float | None = None,
    step: str = "answer",
    on_text: Callable[[str], None] | None = None,
) -> tuple[Answer, Reply[AnswerReply]]:
    """Ask for an answer from packed evidence.

    Args:
        context: Settings and model.
        packed: The evidence.
        question: As asked.
        asked_at: When it is asked.
        standing: The user's standing instructions.
        temperature: In place of the settings'.
        step: The step the call is counted under.
        on_text: Is given the reply as far as it is written.

    Raises:
        ModelError: No usable reply came.
    """
    prompt = answer_prompt.render(
        evidence_part(packed.units, packed.labels, dates=context.settings.temporal),
        question,
        labels=list(packed.labels.values()),
        asked_at=asked_at,
        style=context.settings.answer_style,
        standing=standing,
        step=step,
    )
    reply = await context.chat.ask(prompt, temperature=temperature, on_text=on_text)
    return cited(reply.value, packed), reply


def token_stream(writer: Callable[[Any], None], step: str, *, on: bool) -> Callable[[str], None] | None:
    """Return what turns a reply that is being written into events with the answer's new words; None where it is off.

    Args:
        writer: LangGraph's, for custom events.
        step: The step that answers. A fast answer can still be replaced, when its verdict comes.
        on: Whether the settings ask for it.
    """
    if not on:
        return None
    shown = ""

    def on_text(text: str) -> None:
        nonlocal shown
        there = partial_text(text, "answer")
        if there != shown and there.startswith(shown):
            writer({"event": "token", "step": step, "text": there[len(shown) :]})
            shown = there

    return on_text


def cited(reply: AnswerReply, packed: PackedContext) -> Answer:
    """Return the answer with labels turned back into ids; labels that were not offered are dropped."""
    ids = {label: identifier for identifier, label in packed.labels.items()}
    known = [ids[label] for label in dict.fromkeys(reply.cites) if label in ids]
    memories = {member.memory.id for unit in packed.units for member in unit.members}
    return Answer(
        text=reply.answer.strip(),
        abstained=not reply.found,
        memory_ids=tuple(identifier for identifier in known if identifier in memories),
        turn_ids=tuple(identifier for identifier in known if identifier not in memories),
    )


def evidence_of(packed: PackedContext, answer: Answer) -> tuple[EvidenceItem, ...]:
    """Return the evidence of a fast answer, unit by unit."""
    cited_ids = {*answer.memory_ids, *answer.turn_ids}
    items: list[EvidenceItem] = []
    for number, unit in enumerate(packed.units, start=1):
        turns = {turn.id: turn for turn in unit.turns}
        for member in unit.members:
            memory = member.memory
            items.append(
                EvidenceItem(
                    memory_id=memory.id,
                    text=memory.text,
                    status=member.status,
                    kind=memory.kind,
                    valid=memory.valid,
                    known_at=memory.known_at,
                    source_turn_ids=memory.turn_ids,
                    sources=tuple(_source(turns[turn_id]) for turn_id in memory.turn_ids if turn_id in turns),
                    cited=memory.id in cited_ids or bool(cited_ids & set(memory.turn_ids)),
                    rankings=unit.rankings,
                    unit=number,
                )
            )
        if not unit.members:
            items += [
                EvidenceItem(
                    memory_id=None,
                    text=turn.text,
                    status="current",
                    known_at=turn.said_at,
                    source_turn_ids=(turn.id,),
                    sources=(_source(turn),),
                    cited=turn.id in cited_ids,
                    rankings=unit.rankings,
                    unit=number,
                )
                for turn in unit.turns
            ]
    return tuple(items)


def evidence_of_facts(
    facts: Sequence[Fact], turns: dict[str, Turn], cited_numbers: set[int]
) -> tuple[EvidenceItem, ...]:
    """Return the facts of a deliberation as evidence; they are numbered from 1."""
    return tuple(
        EvidenceItem(
            memory_id=None,
            text=fact.text,
            status="current",
            valid=fact.valid,
            known_at=fact.when,
            source_turn_ids=fact.turn_ids,
            sources=tuple(_source(turns[turn_id]) for turn_id in fact.turn_ids if turn_id in turns),
            cited=number in cited_numbers,
            rankings=("deliberation",),
            unit=number,
        )
        for number, fact in enumerate(facts, start=1)
    )


def _source(turn: Turn) -> SourceTurn:
    return SourceTurn(turn_id=turn.id, speaker=turn.speaker, text=turn.text, said_at=turn.said_at)


def recollect(
    *,
    question: str,
    user_id: str,
    answer: Answer,
    stored: bool,
    route: Route,
    verdict: Verdict,
    evidence: tuple[EvidenceItem, ...],
    calls: Sequence[ModelCall],
    spans: Sequence[Span],
    coverage: Coverage | None = None,
    fast_answer: str | None = None,
    degraded_reason: str = "",
    dropped: tuple[str, ...] = (),
    final: Verdict | None = None,
    computed: tuple[str, ...] = (),
) -> Recollection:
    """Return the public result."""
    return Recollection(
        question=question,
        user_id=user_id,
        answer=answer.text,
        outcome=_outcome(answer, stored=stored, evidence=evidence),
        route=route,
        verdict=verdict,
        evidence=evidence,
        coverage=coverage,
        fast_answer=fast_answer,
        degraded_reason=degraded_reason,
        dropped=dropped,
        final=final,
        computed=computed,
        usage=Usage.of(calls),
        timings=wall_times(list(spans)),
    )


def evidence_ids(recollection: Recollection) -> list[str]:
    """Return the ids of the memories and turns an answer was made from."""
    ids = [item.memory_id or item.source_turn_ids[0] for item in recollection.evidence if item.source_turn_ids]
    return list(dict.fromkeys(ids))


def _outcome(answer: Answer, *, stored: bool, evidence: tuple[EvidenceItem, ...]) -> Outcome:
    if not stored:
        return "nothing_stored"
    if not answer.abstained:
        return "answered"
    return "not_answerable" if evidence else "nothing_relevant"
