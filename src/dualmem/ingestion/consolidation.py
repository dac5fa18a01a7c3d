"""Relate new memories to what is known: candidates, one decision call, and the rules of the lifecycle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dualmem.chat import HEAD_START
from dualmem.config import SuspiciousMode
from dualmem.context import Context
from dualmem.errors import ReplyTruncated, UnreadableReply
from dualmem.ingestion.candidates import cosine, find_candidates
from dualmem.ingestion.decisions import Outcome, Proposal, Strategy, carry_out, same_attribute
from dualmem.ingestion.rereading import Rereading
from dualmem.labels import letters
from dualmem.lifecycle import WorkingSet
from dualmem.prompts import consolidation, mem0star_update, pair_comparison
from dualmem.prompts.consolidation import LATER, Decided
from dualmem.prompts.pair_comparison import PairReply
from dualmem.records import Memory, ModelCall
from dualmem.retrieval.text import find_quote, tokens
from dualmem.stores.payload import memory_text

Case = tuple[Memory, list[Memory]]

STRICTER = 0.25
"""How much more alike, in cosine, two states must be whose attributes differ, before one retires the other."""

_REASONS: Mapping[Strategy, str] = {"merge": "says the same", "contradict": "both cannot be true"}
"""What a pair's relation rests on where no word of the new statement says so."""

NOT_OFFERED = "decision on a memory that was not offered"


@dataclass(frozen=True, slots=True)
class Consolidated:
    """New memories, related to what is known; nothing is stored yet."""

    working: WorkingSet
    new: tuple[Memory, ...]
    """Those that were not stored before, as they came in."""
    group: tuple[str, ...]
    """Ids of the new memories that had candidates, and of those."""
    outcome: Outcome
    rejected: tuple[str, ...]
    calls: tuple[ModelCall, ...]


async def consolidate_memories(
    memories: Sequence[Memory], context: Context, *, at: datetime, rereading: Rereading | None = None
) -> Consolidated:
    """Relate `memories` of one user, given in time order, to what is stored and to each other.

    What is stored already is left out, and what reads like an instruction is marked or held back, as it is set.

    Args:
        memories: In time order.
        context: Store and models.
        at: When it is decided.
        rereading: What they take the place of, where their turns are read again.

    Raises:
        ModelUnavailable: A model could not be reached; nothing was decided.
    """
    distinct = list({memory.id: memory for memory in memories}.values())
    user_id = distinct[0].user_id if distinct else ""
    known = await context.store.memories_by_id(user_id, [memory.id for memory in distinct])
    there = known.keys() - (rereading.working.removed.keys() if rereading is not None else ())
    new = [_held_back(memory, context.settings.suspicious) for memory in distinct if memory.id not in there]
    return await relate(new, context, at=at, rereading=rereading)


async def relate(
    new: Sequence[Memory], context: Context, *, at: datetime, rereading: Rereading | None = None
) -> Consolidated:
    """Relate distinct new memories of one user, given in time order, to what is stored and to each other.

    Only memories that have candidates cost a call, and all of them share one, up to `decision_drafts` (MemoryLACE,
    stage I, step 2); where one call is not enough, all are made at the same time. When the model's reply cannot be
    read, the memories are kept as independent, and that is counted. What is quarantined is related to nothing.

    Raises:
        ModelUnavailable: A model could not be reached; nothing was decided.
    """
    rereading = rereading or Rereading()
    working = rereading.working
    cases = []
    if context.settings.strategy != "verbatim":
        in_force = [memory for memory in new if memory.active]
        cases = [case for case in await find_candidates(in_force, context, rereading) if case[1]]
    for memory in new:
        working.add(memory)
    size = context.settings.decision_drafts
    proposals: list[Proposal] = []
    rejected: list[str] = []
    calls: list[ModelCall] = []
    decide = _decide
    if context.settings.strategy == "mem0star":
        decide = _update
    elif context.settings.extraction == "lean":
        decide = _compare
    asked = [
        asyncio.ensure_future(decide(cases[start : start + size], context)) for start in range(0, len(cases), size)
    ]
    try:
        await _prepare(cases, asked, context)
        decided = await asyncio.gather(*asked)
    finally:
        for asking in asked:
            asking.cancel()  # where one failed, the others' decisions are worth nothing
    for more, refused, cost in decided:
        proposals += more
        rejected += refused
        calls += cost
    proposals = [_as_set(proposal, context) for proposal in proposals]
    outcome = carry_out(proposals, working, at=at, retirements=context.settings.retirements)
    group = dict.fromkeys(
        memory.id for case in cases for memory in (case[0], *case[1]) if memory.id in working.memories
    )
    new = [memory for memory in new if memory.id in working.memories]
    rejected += outcome.refused
    return Consolidated(working, tuple(new), tuple(group), outcome, tuple(rejected), tuple(calls))


async def _prepare(cases: Sequence[Case], asked: Sequence[asyncio.Future[Any]], context: Context) -> None:
    """Make the points of the new memories that a model is just asked about; what it decides changes few of them."""
    if asked and (await asyncio.wait(asked, timeout=HEAD_START))[1]:
        memories = [memory for memory, _ in cases]
        await context.store.prepare(memories[0].user_id, memories)


def _held_back(memory: Memory, mode: SuspiciousMode) -> Memory:
    """Return a new memory as the settings have it that reads like an instruction: unmarked, marked, or out of force."""
    if not memory.suspicion or mode == "flag":
        return memory
    return memory.model_copy(update={"suspicion": ""} if mode == "keep" else {"state": "quarantined"})


def _as_set(proposal: Proposal, context: Context) -> Proposal:
    """Return a proposal with the kind of merge that is in force."""
    compact = proposal.strategy == "merge" and context.settings.merge == "compact"
    return replace(proposal, strategy="compact") if compact else proposal


async def _decide(cases: Sequence[Case], context: Context) -> tuple[list[Proposal], list[str], list[ModelCall]]:
    """Ask for the decisions on some cases; what does not fit what was offered is dropped and counted."""
    labels = letters(old.id for _, offered in cases for old in offered)
    ids = {label: memory_id for memory_id, label in labels.items()}
    settings = context.settings
    compact = settings.merge == "compact"
    prompt = consolidation.render(cases, labels, dates=settings.temporal, compact=compact)
    try:
        reply = await context.chat.ask(prompt)
    except (UnreadableReply, ReplyTruncated):
        return [], ["unreadable decisions"] * len(cases), []
    rejected = ["malformed decision"] * reply.value.malformed
    proposals: dict[str, Proposal] = {}
    for decided in reply.value.decisions:
        if decided.target == "none":
            continue
        target = ids.get(decided.target)
        offered = cases[decided.new - 1][1] if 1 <= decided.new <= len(cases) else []
        if target not in {old.id for old in offered}:
            rejected.append(NOT_OFFERED)
            continue
        memory = cases[decided.new - 1][0]
        strategy = strategy_of(decided, memory)
        if strategy is None:
            continue
        if memory.id in proposals:
            rejected.append("second decision on one memory")
            continue
        proposals[memory.id] = Proposal(memory.id, str(target), strategy, decided.reason, decided.merged)
    ordered = [proposals[memory.id] for memory, _ in cases if memory.id in proposals]
    return ordered, rejected, list(reply.calls)


async def _compare(cases: Sequence[Case], context: Context) -> tuple[list[Proposal], list[str], list[ModelCall]]:
    """Ask about one pair after the other, nearest first, until one of them is related: for small models."""
    proposals: list[Proposal] = []
    rejected: list[str] = []
    calls: list[ModelCall] = []
    least = context.settings.compete_similarity
    for memory, offered in cases:
        for old in offered:
            if not same_attribute(old, memory) and await _likeness(old, memory, context) < least:
                continue  # whatever was said of this pair, it would not be taken
            try:
                reply = await context.chat.ask(pair_comparison.render(old, memory))
            except (UnreadableReply, ReplyTruncated):
                rejected.append("unreadable decisions")
                continue
            calls += reply.calls
            strategy = pair_strategy(reply.value, old, memory)
            if strategy in {"supersede", "contradict"} and not await _compete(reply.value, old, memory, context):
                rejected.append(f"{strategy}: another attribute")
            elif strategy is not None:
                reason = f"{reply.value.old_about}: {reply.value.sign or _REASONS[strategy]}"
                proposals.append(Proposal(memory.id, old.id, strategy, reason))
                break
    return proposals, rejected, calls


def pair_strategy(reply: PairReply, old: Memory, new: Memory) -> Strategy | None:
    """Return the relation that follows from what was said of a pair; None for independent.

    A change counts where a word of the new statement says so. The old one must lack it, unless both are about one
    attribute and what was seen is a change: who moves twice says "moving" twice. Else it is a conflict.
    """
    if reply.relation == "same":
        return "merge"
    if reply.relation not in {"changed", "impossible"}:
        return None
    again = reply.relation == "changed" and same_attribute(old, new)
    changed = _says(new.text, reply.sign) and (again or not _says(old.text, reply.sign))
    return "supersede" if changed else "contradict"


def _says(text: str, sign: str) -> bool:
    """Whether the words of `sign` stand in a text, in whatever form of theirs ("moved" in "is moving")."""
    words = set(tokens(sign))
    return find_quote(sign.strip(), text) is not None if not words else words <= set(tokens(text))


async def _compete(reply: PairReply, old: Memory, new: Memory, context: Context) -> bool:
    """Whether two memories are about the same attribute.

    By the attribute found at extraction; else by a word that both texts share beside the names of whom they are
    about (what a small model says a text is about is no evidence), and then only if they are similar: two claims as
    much as `compete_similarity`, an old and a new state more, since a wrong retirement hides a memory.
    """
    if same_attribute(old, new):
        return True
    names = set(tokens(" ".join((old.subject, old.speaker, new.subject, new.speaker))))
    if not (set(tokens(old.text)) & set(tokens(new.text))) - names:
        return False
    least = context.settings.compete_similarity
    return await _likeness(old, new, context) >= (least + STRICTER if reply.relation == "changed" else least)


async def _likeness(left: Memory, right: Memory, context: Context) -> float:
    return cosine(*await context.embedder.documents([memory_text(left), memory_text(right)]))


def strategy_of(decided: Decided, memory: Memory) -> Strategy | None:
    """Return the relation that follows from what was said of a new memory; None for independent.

    What cannot both be true is a change where words of the new memory, or of the turn it comes from, say so, and a
    conflict where none do.
    """
    if decided.same:
        return "merge"
    if decided.both:
        return None
    sign = decided.sign.strip()
    said = " ".join([memory.text, *(source.quote for source in memory.sources)])
    if sign and (sign.casefold() == LATER or find_quote(sign, said)):
        return "supersede"
    return "contradict"


async def _update(cases: Sequence[Case], context: Context) -> tuple[list[Proposal], list[str], list[ModelCall]]:
    """Ask for mem0's operations and read them as relations, so that nothing is ever deleted.

    UPDATE and DELETE both let the new memory take the place of the old one; NOOP adds its turns to the old one.
    """
    labels = letters(old.id for _, offered in cases for old in offered)
    ids = {label: memory_id for memory_id, label in labels.items()}
    try:
        reply = await context.chat.ask(mem0star_update.render(cases, labels))
    except (UnreadableReply, ReplyTruncated):
        return [], ["unreadable decisions"] * len(cases), []
    rejected = ["malformed decision"] * reply.value.malformed
    proposals: list[Proposal] = []
    for updated in reply.value.operations:
        if updated.operation == "ADD":
            continue
        target = ids.get(updated.target.strip("[] "))
        offered = cases[updated.new - 1][1] if 1 <= updated.new <= len(cases) else []
        if target not in {old.id for old in offered}:
            rejected.append(NOT_OFFERED)
            continue
        strategy: Strategy = "absorb" if updated.operation == "NOOP" else "supersede"
        proposals.append(Proposal(cases[updated.new - 1][0].id, str(target), strategy, updated.reason))
    return proposals, rejected, list(reply.calls)
