"""Relate new memories to what is known: candidates, one decision call, and the rules of the lifecycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dualmem.context import Context
from dualmem.errors import ReplyTruncated, UnreadableReply
from dualmem.ingestion.candidates import find_candidates
from dualmem.ingestion.decisions import Outcome, Proposal, Strategy, carry_out
from dualmem.labels import letters
from dualmem.lifecycle import WorkingSet
from dualmem.prompts import consolidation
from dualmem.records import Memory, ModelCall

Case = tuple[Memory, list[Memory]]

_STRATEGIES: dict[str, Strategy] = {"same": "merge", "changed": "supersede", "conflict": "contradict"}


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


async def consolidate_memories(memories: Sequence[Memory], context: Context, *, at: datetime) -> Consolidated:
    """Relate `memories` of one user, given in time order, to what is stored and to each other.

    Only memories that have candidates cost a call, and all of them share one, up to `decision_drafts` (MemoryLACE,
    stage I, step 2). When the model's reply cannot be read, the memories are kept as independent, and that is
    counted.

    Raises:
        ModelUnavailable: A model could not be reached; nothing was decided.
    """
    distinct = list({memory.id: memory for memory in memories}.values())
    user_id = distinct[0].user_id if distinct else ""
    known = await context.store.memories_by_id(user_id, [memory.id for memory in distinct])
    new = [memory for memory in distinct if memory.id not in known]
    working = WorkingSet()
    cases = [case for case in await find_candidates(new, working, context) if case[1]]
    for memory in new:
        working.add(memory)
    size = context.settings.decision_drafts
    proposals: list[Proposal] = []
    rejected: list[str] = []
    calls: list[ModelCall] = []
    for start in range(0, len(cases), size):
        more, refused, cost = await _decide(cases[start : start + size], context)
        proposals += more
        rejected += refused
        calls += cost
    outcome = carry_out(proposals, working, at=at, retirements=context.settings.retirements)
    group = dict.fromkeys(memory.id for case in cases for memory in (case[0], *case[1]))
    return Consolidated(working, tuple(new), tuple(group), outcome, (*rejected, *outcome.refused), tuple(calls))


async def _decide(cases: Sequence[Case], context: Context) -> tuple[list[Proposal], list[str], list[ModelCall]]:
    """Ask for the decisions on some cases; what does not fit what was offered is dropped and counted."""
    labels = letters(old.id for _, offered in cases for old in offered)
    ids = {label: memory_id for memory_id, label in labels.items()}
    prompt = consolidation.render(cases, labels, dates=context.settings.temporal)
    try:
        reply = await context.chat.ask(prompt)
    except (UnreadableReply, ReplyTruncated):
        return [], ["unreadable decisions"] * len(cases), []
    rejected = ["malformed decision"] * reply.value.malformed
    proposals: dict[str, Proposal] = {}
    for decided in reply.value.decisions:
        if decided.decision == "independent":
            continue
        target = ids.get(decided.target.strip("[] "))
        offered = cases[decided.new - 1][1] if 1 <= decided.new <= len(cases) else []
        if target not in {old.id for old in offered}:
            rejected.append("decision on a memory that was not offered")
            continue
        memory = cases[decided.new - 1][0]
        if memory.id in proposals:
            rejected.append("second decision on one memory")
            continue
        proposals[memory.id] = Proposal(memory.id, str(target), _STRATEGIES[decided.decision], decided.reason)
    ordered = [proposals[memory.id] for memory, _ in cases if memory.id in proposals]
    return ordered, rejected, list(reply.calls)
