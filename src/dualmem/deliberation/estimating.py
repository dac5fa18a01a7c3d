"""What a question would cost at most: the dry run. Prompts are rendered and counted; no chat model is called."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

from dualmem.chat import Prompt
from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.deliberation.budget import Budget
from dualmem.deliberation.ledger import MOST_LINES
from dualmem.deliberation.planning import waves_of, within
from dualmem.deliberation.questions import needs_everything, needs_ledger
from dualmem.errors import InputError
from dualmem.gating import SAMPLED
from dualmem.prompts import agreement, answer, chunk_extraction, fact_filter, gate, memory_filter
from dualmem.prompts.evidence import evidence_part, facts_part
from dualmem.records import Estimate, Fact, PackedContext, Scope, StepCost, Usage
from dualmem.retrieval.packing import pack
from dualmem.retrieval.text import count_tokens
from dualmem.searching.search import search
from dualmem.state import Chunk

_LONGEST_ANSWER: Final = "word " * 120
"""An answer of the 600 characters that the schema allows."""

_LONGEST_FACT: Final = "word " * 48
"""A fact of the 240 characters that the schema allows."""

_CITED: Final = 8
"""Labels that an answer can cite at most, each a fact to be written back."""

_PAIR_TOKENS: Final = 1_500
"""Prompt of one decision on a memory that is written back, about."""


async def estimate(
    question: str,
    user_id: str,
    context: Context,
    *,
    scope: Scope | None = None,
    asked_at: datetime | None = None,
) -> Estimate:
    """Return the least and the most that `question` would cost.

    Raises:
        InputError: There is no question, or the user is missing or blank.
        ModelUnavailable: The embedding model failed.
        StoreError: The store cannot be read.
        ConfigurationError: A limit of money is set, and no price.
    """
    settings = context.settings
    user_id, question = clean_user_id(user_id), clean_text(question)
    if not question:
        message = "there is no question"
        raise InputError(message)
    question = await context.redacted(question)
    budget = Budget.of(settings)
    found = await search(context, user_id, question, scope=scope, asked_at=asked_at)
    packed = pack(found.units, budget=settings.context_tokens, dates=settings.temporal)
    standing = await context.store.standing(user_id) if found.stored else []
    fast = _fast(question, packed, context, asked_at, [memory.text for memory in standing])
    turns = within(await context.store.turns(user_id), scope) if found.stored else []
    waves: list[list[Chunk]] = []
    if settings.gate != "never":
        seen = [t for unit in packed.units for member in unit.members for t in member.memory.turn_ids]
        waves = await waves_of(turns, user_id, question, context, scope=scope, seen=seen)
    deliberation = _deliberation(question, waves, context, asked_at)
    steps = [*fast, *deliberation]
    most = Usage(
        calls=sum(step.calls for step in steps),
        tokens_in=sum(step.tokens_in for step in steps),
        tokens_out=sum(step.tokens_out for step in steps),
    )
    # Samples that are the same word for word need not be compared.
    certain = [step for step in fast if not (settings.gate in SAMPLED and step.step == "gate")]
    return Estimate(
        question=question,
        policy=settings.gate,
        turns=len({turn.id for wave in waves for chunk in wave for turn in chunk.turns}),
        chunks=sum(len(wave) for wave in waves),
        waves=len(waves),
        everything=bool(waves) and needs_everything(question),
        fast=tuple(fast),
        deliberation=tuple(deliberation),
        least_calls=sum(step.calls for step in certain),
        least_tokens=sum(step.tokens_in for step in certain),
        most_calls=most.calls,
        most_tokens_in=most.tokens_in,
        most_tokens_out=most.tokens_out,
        most_cost=budget.price(most) if settings.price_input is not None else None,
        limited_by=budget.exceeded(most),
    )


def _cost(step: str, prompts: Sequence[Prompt[Any]], *, reply: int, times: int = 1) -> StepCost:
    tokens = sum(count_tokens(message.text) for prompt in prompts for message in prompt.messages)
    calls = len(prompts) * times
    return StepCost(step=step, calls=calls, tokens_in=tokens * times, tokens_out=calls * reply)


def _fast(
    question: str, packed: PackedContext, context: Context, asked_at: datetime | None, standing: Sequence[str]
) -> list[StepCost]:
    settings = context.settings
    if not packed.units:
        return []
    evidence = evidence_part(packed.units, packed.labels, dates=settings.temporal)
    labels = list(packed.labels.values())
    reply = settings.max_output_tokens
    steps = []
    if settings.memory_filter == "model":
        chosen = memory_filter.render(evidence, question, labels=labels, asked_at=asked_at)
        steps.append(_cost("filter", [chosen], reply=reply))
    asked = answer.render(
        evidence, question, labels=labels, asked_at=asked_at, style=settings.answer_style, standing=standing
    )
    sampled = settings.gate in SAMPLED
    steps.append(_cost("answer", [asked], reply=reply, times=settings.candidates if sampled else 1))
    if settings.gate == "quality":
        graded = gate.render(evidence, question, _LONGEST_ANSWER, asked_at=asked_at)
        steps.append(_cost("gate", [graded], reply=reply))
    elif settings.gate in {"majority", "consensus"}:
        policy: Literal["majority", "consensus"] = "majority" if settings.gate == "majority" else "consensus"
        compared = agreement.render([_LONGEST_ANSWER] * settings.candidates, question, policy=policy)
        steps.append(_cost("gate", [compared], reply=reply))
    return steps


def _deliberation(
    question: str, waves: Sequence[Sequence[Chunk]], context: Context, asked_at: datetime | None
) -> list[StepCost]:
    if not waves:
        return []
    settings = context.settings
    reply = settings.max_output_tokens
    ledger = settings.ledger and needs_ledger(question)
    reading = [
        chunk_extraction.render(
            chunk.earlier,
            chunk.turns,
            question,
            least=settings.extraction_score,
            asked_at=asked_at,
            missing=_LONGEST_ANSWER[:80],
            ledger=ledger,
        )
        for wave in waves
        for chunk in wave
    ]
    facts = [Fact(text=_LONGEST_FACT, score=9, when=chunk.turns[0].said_at) for wave in waves for chunk in wave[:1]]
    facts = (facts * settings.max_facts)[: settings.max_facts]
    computed = [_LONGEST_FACT] * MOST_LINES if settings.ledger else []
    evidence = facts_part(facts, computed)
    labels = [f"F{number}" for number in range(1, len(facts) + 1)]
    selected = fact_filter.render(facts, question, asked_at=asked_at)
    asked = answer.render(evidence, question, labels=labels, asked_at=asked_at, style=settings.answer_style)
    graded = gate.render(evidence, question, _LONGEST_ANSWER, asked_at=asked_at)
    each = len(waves)
    steps = [_cost("deliberate.extract", reading, reply=reply)]
    if not ledger and len(facts) > settings.fact_filter_above:
        steps.append(_cost("deliberate.filter", [selected], reply=reply, times=each))
    steps.append(_cost("deliberate.answer", [asked], reply=reply, times=each))
    grades = each if settings.check_support else each - 1
    if grades:
        steps.append(_cost("deliberate.gate", [graded], reply=reply, times=grades))
    if settings.write_back and settings.strategy != "verbatim":
        steps.append(_writing(context, reply))
    return steps


def _writing(context: Context, reply: int) -> StepCost:
    settings = context.settings
    calls = -(-_CITED // settings.decision_drafts)
    if settings.strategy == "lifecycle" and settings.extraction == "lean":
        calls = _CITED * settings.similar_memories
    return StepCost(step="deliberate.remember", calls=calls, tokens_in=calls * _PAIR_TOKENS, tokens_out=calls * reply)
