"""Extract the memories of one window."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError, ReplyTruncated, UnreadableReply
from dualmem.ingestion.grounding import OVERLAP, ground
from dualmem.ingestion.windows import halves
from dualmem.prompts import extraction
from dualmem.records import Draft, ModelCall
from dualmem.state import IngestionState, Window, WindowReading, WindowTask


async def extract(state: WindowTask, runtime: Runtime[Context]) -> IngestionState:
    """Read a window; one whose reply is cut off or unreadable is divided and read again.

    A failure is part of the reading: its turns stay pending, and other windows are not held up.
    """
    readings, calls = await _read(state["window"], runtime.context)
    reading = WindowReading(
        number=state["window"].number,
        drafts=tuple(draft for part in readings for draft in part.drafts),
        read_turn_ids=_fully_read(state["window"], readings),
        rejected=tuple(reason for part in readings for reason in part.rejected),
        failures=tuple(failure for part in readings for failure in part.failures),
        repeated=sum(part.repeated for part in readings),
    )
    return {"readings": [reading], "calls": calls}


async def _read(window: Window, context: Context) -> tuple[list[WindowReading], list[ModelCall]]:
    prompt = extraction.render(window.earlier, window.turns, most=context.settings.window_memories)
    try:
        reply = await context.chat.ask(prompt)
    except (ReplyTruncated, UnreadableReply) as error:
        divided = halves(window)
        if divided is None:
            return [WindowReading(window.number, failures=(str(error),))], []
        readings: list[WindowReading] = []
        calls: list[ModelCall] = []
        for half in divided:
            more, cost = await _read(half, context)
            readings += more
            calls += cost
        return readings, calls
    except ModelError as error:
        return [WindowReading(window.number, failures=(str(error),))], []
    shown = (*window.earlier, *window.turns)
    drafts: list[Draft] = []
    rejected = ["malformed"] * reply.value.malformed
    repeated = 0
    for item in reply.value.memories:
        draft = ground(item, shown, len(window.earlier))
        if isinstance(draft, Draft):
            drafts.append(draft)
        elif draft == OVERLAP:
            repeated += 1
        else:
            rejected.append(draft)
    reading = WindowReading(
        number=window.number,
        drafts=tuple(drafts),
        read_turn_ids=tuple(dict.fromkeys(turn.id for turn in window.turns)),
        rejected=tuple(rejected),
        repeated=repeated,
    )
    return [reading], list(reply.calls)


def _fully_read(window: Window, readings: list[WindowReading]) -> tuple[str, ...]:
    """Return the turns all of whose parts were read."""
    if not any(part.failures for part in readings):
        return tuple(dict.fromkeys(turn.id for turn in window.turns))
    read = [turn_id for part in readings for turn_id in part.read_turn_ids]
    pieces = [turn.id for turn in window.turns]
    return tuple(turn_id for turn_id in dict.fromkeys(read) if pieces.count(turn_id) == 1)
