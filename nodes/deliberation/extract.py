"""Read one chunk for the facts that help to answer."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.deliberation.chunks import halves
from dualmem.errors import ModelError, ModelUnavailable, ReplyTruncated, UnreadableReply
from dualmem.prompts import chunk_extraction
from dualmem.prompts.chunk_extraction import ChunkReply
from dualmem.records import Fact, ModelCall
from dualmem.retrieval.times import find
from dualmem.state import Chunk, ChunkReading, ChunkTask, DeliberationState


async def extract(state: ChunkTask, runtime: Runtime[Context]) -> DeliberationState:
    """Return the facts of a chunk, or why it could not be read; a failure does not hold up other chunks.

    A chunk whose reply is cut off or unreadable is divided, one whose call fails is tried once more.
    """
    chunk = state["chunk"]
    facts, calls, failures, failed = await _read(chunk, state, runtime.context)
    reading = ChunkReading(
        number=chunk.number,
        turns=len({turn.id for turn in chunk.turns}),
        failed_turns=failed,
        facts=tuple(facts),
        failure="; ".join(dict.fromkeys(failures)),
    )
    runtime.stream_writer({"event": "chunk", "number": chunk.number, "facts": len(facts), "failed": failed})
    return {"readings": [reading], "calls": calls}


async def _read(chunk: Chunk, task: ChunkTask, context: Context) -> tuple[list[Fact], list[ModelCall], list[str], int]:
    """Return facts, calls, failures and the number of turns that could not be read."""
    prompt = chunk_extraction.render(
        chunk.earlier,
        chunk.turns,
        task["question"],
        least=context.settings.extraction_score,
        asked_at=task["asked_at"],
        missing=task["missing"],
    )
    try:
        try:
            reply = await context.chat.ask(prompt)
        except ModelUnavailable:
            reply = await context.chat.ask(prompt)
    except (ReplyTruncated, UnreadableReply) as error:
        divided = halves(chunk)
        if divided is None:
            return [], [], [str(error)], 1
        left = await _read(divided[0], task, context)
        right = await _read(divided[1], task, context)
        return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]
    except ModelError as error:
        return [], [], [str(error)], len({turn.id for turn in chunk.turns})
    return _facts(chunk, reply.value, context.settings.extraction_score), list(reply.calls), [], 0


def _facts(chunk: Chunk, reply: ChunkReply, least: float) -> list[Fact]:
    """Return the facts that cite turns of the chunk and score enough."""
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
            )
        )
    return facts
