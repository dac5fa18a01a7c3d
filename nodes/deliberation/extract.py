"""Read one chunk for the facts that help to answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from langgraph.runtime import Runtime

from dualmem.chat import Prompt, Reply
from dualmem.context import Context
from dualmem.deliberation.chunks import halves
from dualmem.deliberation.records import record_of
from dualmem.errors import ModelError, ModelUnavailable, ReplyTruncated, UnreadableReply
from dualmem.prompts import chunk_extraction
from dualmem.prompts.chunk_extraction import ChunkReply
from dualmem.records import Fact, ModelCall
from dualmem.retrieval.times import find
from dualmem.state import Chunk, ChunkReading, ChunkTask, DeliberationState

MOST_LOST = 3
"""Turns without a readable reply, one after the other, after which the rest of a chunk is given up."""


@dataclass
class _Read:
    """What was read so far; it stands when time runs out."""

    facts: list[Fact] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    """Ids of the turns that could not be read."""
    pending: set[str] = field(default_factory=set)
    lost: int = 0
    """Turns that got no readable reply since one was read."""
    spare: int | None = None
    """Calls that the budget leaves to repair, to repeat or to divide; None without a limit."""

    def may(self, calls: int) -> bool:
        """Whether as many calls more are left; they are then taken."""
        if self.spare is None:
            return True
        if self.spare < calls:
            return False
        self.spare -= calls
        return True


async def extract(state: ChunkTask, runtime: Runtime[Context]) -> DeliberationState:
    """Return the facts of a chunk, or why it could not be read; a failure does not hold up other chunks.

    A chunk whose reply is cut off or unreadable is divided, one whose call fails is tried once more. When the budget
    of seconds is spent, a call under way is given up; where that of calls, tokens or money is, there is no second try.
    """
    chunk, deadline = state["chunk"], state.get("deadline")
    read = _Read(pending={turn.id for turn in chunk.turns}, spare=state.get("spare"))
    try:
        async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.time())):
            await _read(chunk, state, runtime.context, read)
    except TimeoutError:
        read.failures.append("the budget of seconds was spent")
        read.failed |= read.pending
    reading = ChunkReading(
        number=chunk.number,
        turns=len({turn.id for turn in chunk.turns}),
        failed_turns=len(read.failed),
        facts=tuple(read.facts),
        failure="; ".join(dict.fromkeys(read.failures)),
    )
    runtime.stream_writer(
        {"event": "chunk", "number": chunk.number, "facts": len(read.facts), "failed": len(read.failed)}
    )
    return {"readings": [reading], "calls": read.calls}


async def _read(chunk: Chunk, task: ChunkTask, context: Context, read: _Read) -> None:
    ledger = task.get("ledger", False)
    prompt = chunk_extraction.render(
        chunk.earlier,
        chunk.turns,
        task["question"],
        least=context.settings.extraction_score,
        asked_at=task["asked_at"],
        missing=task["missing"],
        ledger=ledger,
    )
    ids = {turn.id for turn in chunk.turns}
    try:
        try:
            reply = await _ask(prompt, context, read)
        except ModelUnavailable as error:
            # What was not paid for may be tried again at no cost.
            if error.calls and not read.may(1):
                raise
            reply = await _ask(prompt, context, read)
    except (ReplyTruncated, UnreadableReply) as error:
        divided = halves(chunk) if read.lost < MOST_LOST else None
        if divided is not None and read.may(len(divided)):
            for half in divided:
                await _read(half, task, context, read)
            return
        read.lost += 1
        read.failures.append(str(error))
        read.failed |= ids
    except ModelError as error:
        read.failures.append(str(error))
        read.failed |= ids
    else:
        read.lost = 0
        read.facts += facts_of(chunk, reply.value, least=context.settings.extraction_score, ledger=ledger)
    read.pending -= ids


async def _ask(prompt: Prompt[ChunkReply], context: Context, read: _Read) -> Reply[ChunkReply]:
    """Ask, with a correction where the budget leaves one, and count what it cost."""
    repair = read.may(1)
    calls: tuple[ModelCall, ...] = ()
    try:
        reply = await context.chat.ask(prompt, repair=repair)
        calls = reply.calls
    except ModelError as error:
        calls = error.calls
        raise
    finally:
        read.calls += calls
        if repair and read.spare is not None and len(calls) <= 1:  # the second would be the correction
            read.spare += 1
    return reply


def facts_of(chunk: Chunk, reply: ChunkReply, *, least: float, ledger: bool = False) -> list[Fact]:
    """Return the facts that cite turns of the chunk and score enough, with their records where a ledger is made."""
    facts = []
    for item in reply.facts:
        cited = [chunk.turns[number - 1] for number in item.turns if 1 <= number <= len(chunk.turns)]
        if not cited or item.score < least:
            continue
        found = find(item.fact, cited[0].said_at, prefer="nearest")
        facts.append(
            Fact(
                text=" ".join(item.fact.split()),
                score=item.score,
                turn_ids=tuple(dict.fromkeys(turn.id for turn in cited)),
                speaker=cited[0].speaker,
                when=cited[0].said_at,
                valid=found[0].interval if found else None,
                record=record_of(item, cited) if ledger else None,
            )
        )
    return facts
