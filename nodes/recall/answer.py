"""Answer from the evidence."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.recollecting import answer_from
from dualmem.records import Answer
from dualmem.state import RecallState

NOTHING_STORED = "I have no memories of this user yet."
NOTHING_FOUND = "I found nothing about that in memory."
SHORT_NOTHING = "NONE"


async def answer(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Answer with citations; without evidence, say so, and ask no model.

    Raises:
        ModelError: No usable reply came. There is no answer to fall back on yet.
    """
    context = runtime.context
    packed = state["packed"]
    if not packed.units:
        text = NOTHING_FOUND if state["stored"] else NOTHING_STORED
        short = context.settings.answer_style == "short"
        return {"drafted": Answer(text=SHORT_NOTHING if short else text, abstained=True)}
    drafted, reply = await answer_from(
        context,
        packed,
        state["question"],
        asked_at=state.get("asked_at"),
        standing=state.get("standing", []),
    )
    return {"drafted": drafted, "calls": list(reply.calls)}
