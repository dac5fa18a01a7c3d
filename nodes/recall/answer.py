"""Answer from the evidence."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.gating import SAMPLED, Case, sample
from dualmem.recollecting import answer_from, token_stream
from dualmem.records import Answer
from dualmem.state import RecallState

NOTHING_STORED = "I have no memories of this user yet."
NOTHING_FOUND = "I found nothing about that in memory."
SHORT_NOTHING = "NONE"


async def answer(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Answer with citations; without evidence, say so, and ask no model.

    Where the gate compares several answers, they are sampled here, in parallel; the first stands until then.

    Raises:
        ModelError: No usable reply came. There is no answer to fall back on yet.
    """
    context = runtime.context
    packed = state["packed"]
    if not packed.units:
        text = NOTHING_FOUND if state["stored"] else NOTHING_STORED
        short = context.settings.answer_style == "short"
        return {"drafted": Answer(text=SHORT_NOTHING if short else text, abstained=True)}
    if context.settings.gate in SAMPLED:
        case = Case(
            question=state["question"],
            answer=Answer(text=""),
            packed=packed,
            asked_at=state.get("asked_at"),
            standing=state.get("standing", []),
        )
        candidates, calls = await sample(case, context, context.settings.gate)
        return {"drafted": candidates[0], "candidates": candidates, "calls": list(calls)}
    drafted, reply = await answer_from(
        context,
        packed,
        state["question"],
        asked_at=state.get("asked_at"),
        standing=state.get("standing", []),
        on_text=token_stream(runtime.stream_writer, "answer", on=context.settings.stream_tokens),
    )
    return {"drafted": drafted, "calls": list(reply.calls)}
