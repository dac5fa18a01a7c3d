"""Answer from the facts that were read."""

from __future__ import annotations

import time

from langgraph.runtime import Runtime

from dualmem.context import Context, Span
from dualmem.deliberation.budget import repairable
from dualmem.deliberation.concluding import conclude, coverage_of
from dualmem.errors import ModelError, ModelUnavailable
from dualmem.prompts import answer as answer_prompt
from dualmem.prompts.evidence import facts_part
from dualmem.recollecting import evidence_ids, token_stream
from dualmem.records import Answer, Coverage, ModelCall
from dualmem.state import DeliberationState


async def answer(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Answer from the facts; they replace the memories in the prompt (D-Mem, step 3).

    Without facts a fast answer stands that was not graded wrong. Where the call fails, or no chunk could be read, the
    fast answer goes out on the route `degraded`.

    Raises:
        ModelError: The call failed, or no chunk could be read, and there is no fast answer to fall back on.
    """
    started = time.time()
    context = runtime.context
    facts = state.get("facts") or []
    coverage = coverage_of(state)
    calls: list[ModelCall] = []
    cited: set[int] = set()
    concluded: Answer | None = None
    failure = ""
    if facts:
        try:
            concluded, cited, calls = await _from_facts(state, runtime)
        except ModelError as error:
            if state.get("drafted") is None:
                raise
            failure, calls = str(error), list(error.calls)
    else:
        failure = _nothing_read(state, coverage)
        if coverage.chunks_failed and failure and state.get("drafted") is None:
            raise ModelUnavailable(failure)
    mine = Span("deliberate.answer", started, time.time())
    recollection = await conclude(state, context, concluded, cited=cited, failure=failure, calls=calls, spans=[mine])
    runtime.stream_writer(
        {
            "event": "coverage",
            "wave": state["wave"],
            "coverage": coverage.model_dump(),
            "answer": recollection.answer,
        }
    )
    return {
        "concluded": concluded or Answer(text=recollection.answer, abstained=True),
        "degraded_reason": failure,
        "answer": recollection.answer,
        "route": recollection.route,
        "verdict": recollection.verdict,
        "evidence_ids": evidence_ids(recollection),
        "recollection": recollection,
        "calls": calls,
    }


async def _from_facts(state: DeliberationState, runtime: Runtime[Context]) -> tuple[Answer, set[int], list[ModelCall]]:
    """Return the answer, the numbers of the facts it cites, from 1, and what it cost."""
    context = runtime.context
    facts, computed = state["facts"], state.get("computed") or []
    labels = [f"F{number}" for number in range(1, len(facts) + 1)]
    computed_labels = [f"C{number}" for number in range(1, len(computed) + 1)]
    prompt = answer_prompt.render(
        facts_part(facts, computed),
        state["question"],
        labels=[*labels, *computed_labels],
        asked_at=state.get("asked_at"),
        style=context.settings.answer_style,
        standing=state.get("standing") or [],
        step="deliberate.answer",
    )
    stream = token_stream(runtime.stream_writer, "deliberate.answer", on=context.settings.stream_tokens)
    # Its grade is still to come.
    repair = repairable(prompt, state.get("calls", []), context.settings, after=1)
    reply = await context.chat.ask(prompt, on_text=stream, repair=repair)
    cites = [label.strip() for label in reply.value.cites]
    cited = {labels.index(label) + 1 for label in cites if label in labels}
    if any(label in computed_labels for label in cites):
        # What was computed rests on every fact that has a record or a date.
        cited |= {
            number
            for number, fact in enumerate(facts, start=1)
            if fact.record is not None or (not state.get("ledger") and fact.valid is not None)
        }
    turn_ids = dict.fromkeys(t for number in sorted(cited) for t in facts[number - 1].turn_ids)
    answer_text = reply.value.answer.strip()
    concluded = Answer(text=answer_text, abstained=not reply.value.found, turn_ids=tuple(turn_ids))
    return concluded, cited, list(reply.calls)


def _nothing_read(state: DeliberationState, coverage: Coverage) -> str:
    """Return why nothing at all was read, "" where something was or there was nothing to read."""
    if not coverage.chunks_total or coverage.chunks_failed < coverage.chunks_total:
        spent = coverage.stopped and not coverage.chunks_read and state.get("drafted") is not None
        return f"nothing could be read: {coverage.stopped} is spent" if spent else ""
    return f"no part of the history could be read: {'; '.join(coverage.failures)}"
