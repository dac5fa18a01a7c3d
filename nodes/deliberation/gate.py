"""Judge the answer made so far, to know whether more must be read."""

from __future__ import annotations

from langgraph.runtime import Runtime

from dualmem.context import Context
from dualmem.errors import ModelError
from dualmem.prompts import gate as gate_prompt
from dualmem.prompts.evidence import facts_part
from dualmem.state import DeliberationState


async def gate(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Grade the answer of a wave by quality; after the last wave there is nothing left to decide.

    An abstention, or a grade that cannot be had, reads on.
    """
    context = runtime.context
    wave = state["wave"] + 1
    last = wave >= len(state["waves"])
    if last or state["concluded"].abstained:
        return {"wave": wave, "satisfied": last}
    prompt = gate_prompt.render(
        facts_part(state["facts"], state.get("computed", [])),
        state["question"],
        state["concluded"].text,
        asked_at=state.get("asked_at"),
        step="deliberate.gate",
    )
    try:
        reply = await context.chat.ask(prompt)
    except ModelError:
        return {"wave": wave, "satisfied": False}
    grades = reply.value
    passed = grades.relevant and grades.faithful and grades.complete
    runtime.stream_writer({"event": "wave", "wave": wave, "passed": passed, "reason": grades.reason})
    return {"wave": wave, "satisfied": passed, "calls": list(reply.calls)}
