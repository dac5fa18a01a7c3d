"""Extract the memories of one window."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from dualmem.chat import Prompt
from dualmem.context import Context
from dualmem.errors import ModelError, ReplyTruncated, UnreadableReply
from dualmem.ingestion.candidates import MOST_HIDDEN
from dualmem.ingestion.grounding import OVERLAP, ground
from dualmem.ingestion.rejections import MALFORMED, rejection_of
from dualmem.ingestion.suspicion import suspicion_in
from dualmem.ingestion.windows import halves
from dualmem.prompts import extraction, lean_extraction, mem0star_extraction
from dualmem.prompts.extraction import ExtractionReply
from dualmem.records import Draft, Memory, ModelCall, Source
from dualmem.retrieval.times import find
from dualmem.state import IngestionState, Window, WindowReading, WindowTask
from dualmem.stores.backend import Ranking
from dualmem.stores.payload import active_memories

MOST_LOST = 3
"""Turns without a readable reply, one after the other, after which the rest of a window is given up: then it is the
model, not the text, and every further call would be one for nothing."""


async def extract(state: WindowTask, runtime: Runtime[Context]) -> IngestionState:
    """Read a window; one whose reply is cut off or unreadable is divided and read again.

    A failure is part of the reading: its turns stay pending, and other windows are not held up.
    """
    readings, calls = await _read(state["window"], runtime.context, [])
    unread = dict.fromkeys(turn_id for part in readings for turn_id in part.unread_turn_ids)
    reading = WindowReading(
        number=state["window"].number,
        drafts=tuple(draft for part in readings for draft in part.drafts),
        read_turn_ids=tuple(turn_id for turn_id in _turn_ids(state["window"]) if turn_id not in unread),
        unread_turn_ids=tuple(unread),
        rejected=tuple(one for part in readings for one in part.rejected),
        failures=tuple(failure for part in readings for failure in part.failures),
        repeated=sum(part.repeated for part in readings),
    )
    return {"readings": [reading], "calls": calls}


async def _read(window: Window, context: Context, lost: list[Window]) -> tuple[list[WindowReading], list[ModelCall]]:
    """Read a window, or its halves; `lost` are the last ones that could not be divided, since one was read."""
    if context.settings.strategy == "verbatim":
        return [verbatim(window)], []
    try:
        known = await _known(window, context)
        reply = await context.chat.ask(_prompt(window, known, context))
    except (ReplyTruncated, UnreadableReply) as error:
        divided = halves(window)
        calls = list(error.calls)
        if divided is None:
            lost.append(window)
            return [_failed(window, error)], calls
        readings: list[WindowReading] = []
        for half in divided:
            if len(lost) >= MOST_LOST:
                readings.append(_failed(half, error))
                continue
            more, cost = await _read(half, context, lost)
            readings += more
            calls += cost
        return readings, calls
    except ModelError as error:
        return [_failed(window, error)], list(error.calls)
    lost.clear()
    shown = (*window.earlier, *window.turns)
    drafts: list[Draft] = []
    sources = [turn_id for memory in known for turn_id in memory.turn_ids]
    rejected = [rejection_of(item, MALFORMED, shown, known=sources) for item in reply.value.malformed_items]
    repeated = 0
    for item in reply.value.memories:
        draft = ground(item, shown, len(window.earlier))
        if isinstance(draft, Draft):
            drafts.append(draft)
        elif draft == OVERLAP:
            repeated += 1
        else:
            rejected.append(rejection_of(item, draft, shown, known=sources))
    reading = WindowReading(
        number=window.number,
        drafts=tuple(drafts),
        read_turn_ids=_turn_ids(window),
        rejected=tuple(rejected),
        repeated=repeated,
    )
    return [reading], list(reply.calls)


def _prompt(window: Window, known: Sequence[Memory], context: Context) -> Prompt[ExtractionReply]:
    """Return the prompt of the strategy in force."""
    settings = context.settings
    if settings.strategy != "mem0star":
        lean = settings.extraction == "lean"
        render = lean_extraction.render if lean else extraction.render
        return render(window.earlier, window.turns, most=settings.window_memories)
    return mem0star_extraction.render(known, window.earlier, window.turns, most=settings.window_memories)


async def _known(window: Window, context: Context) -> list[Memory]:
    """Return the memories that are shown with a window, where the strategy in force shows any.

    Raises:
        ModelUnavailable: The embedding model failed.
    """
    settings = context.settings
    if settings.strategy != "mem0star":
        return []
    text = "\n".join(turn.text for turn in window.turns)
    user_id = window.turns[0].user_id
    where = active_memories(user_id)
    vector = (await context.embedder.documents([text]))[0]
    most = settings.extraction_context_memories
    if not most:
        return []
    # What turns that are read again gave before would be taken for known.
    outdated = set(await context.store.outdated(user_id))
    ranking = Ranking("similar", most + min(len(outdated), MOST_HIDDEN), where, "semantic", vector)
    (row,) = await context.store.rank_memories([ranking])
    return [memory for memory, _ in row if memory.id not in outdated][:most]


def verbatim(window: Window) -> WindowReading:
    """Return a draft for each turn as it stands; no model is called."""
    drafts = []
    for turn in window.turns:
        found = find(turn.text, turn.said_at, prefer="nearest")
        drafts.append(
            Draft(
                text=turn.text,
                kind="fact",
                speaker=turn.speaker,
                role=turn.role,
                subject=turn.speaker,
                valid=found[0].interval if found else None,
                agent_id=turn.agent_id,
                suspicion=suspicion_in(turn.text, turn.text, turn),
                sources=(Source(turn_id=turn.id, quote=turn.text),),
                position=turn.position,
                said_at=turn.said_at,
            )
        )
    return WindowReading(number=window.number, drafts=tuple(drafts), read_turn_ids=_turn_ids(window))


def _turn_ids(window: Window) -> tuple[str, ...]:
    """Return the turns a window is to read; a long one may be there in several parts."""
    return tuple(dict.fromkeys(turn.id for turn in window.turns))


def _failed(window: Window, error: ModelError) -> WindowReading:
    return WindowReading(window.number, failures=(str(error),), unread_turn_ids=_turn_ids(window))
