"""Answer from the facts that were read."""

from __future__ import annotations

import time

from langgraph.runtime import Runtime

from dualmem.context import Context, Span
from dualmem.errors import ModelError
from dualmem.prompts import answer as answer_prompt
from dualmem.prompts.evidence import facts_part
from dualmem.recollecting import evidence_ids, evidence_of, evidence_of_facts, recollect
from dualmem.records import (
    Answer,
    Coverage,
    EvidenceItem,
    ModelCall,
    PackedContext,
    Recollection,
    Route,
    Verdict,
)
from dualmem.state import DeliberationState
from dualmem.tracing import annotate_run

NOTHING = "I read the whole history and found nothing about that."
SHORT_NOTHING = "NONE"


async def answer(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Answer from the facts; they replace the memories in the prompt (D-Mem, step 3).

    Without facts a fast answer that did not abstain stands. Where the call fails, or no chunk could be read, the
    fast answer goes out on the route `degraded`.
    """
    started = time.time()
    context = runtime.context
    facts = state.get("facts", [])
    coverage = coverage_of(state)
    calls: list[ModelCall] = []
    cited: set[int] = set()
    concluded: Answer | None = None
    failure = ""
    if facts:
        labels = [f"F{number}" for number in range(1, len(facts) + 1)]
        prompt = answer_prompt.render(
            facts_part(facts, state.get("computed", [])),
            state["question"],
            labels=labels,
            asked_at=state.get("asked_at"),
            style=context.settings.answer_style,
            standing=state.get("standing", []),
            step="deliberate.answer",
        )
        try:
            reply = await context.chat.ask(prompt)
        except ModelError as error:
            failure = str(error)
        else:
            calls = list(reply.calls)
            cited = {labels.index(label) + 1 for label in reply.value.cites if label in labels}
            turn_ids = dict.fromkeys(t for number in sorted(cited) for t in facts[number - 1].turn_ids)
            concluded = Answer(
                text=reply.value.answer.strip(), abstained=not reply.value.found, turn_ids=tuple(turn_ids)
            )
    elif coverage.chunks_total and coverage.chunks_failed == coverage.chunks_total:
        failure = f"no part of the history could be read: {'; '.join(coverage.failures)}"
    recollection = await _recollection(
        state,
        context,
        concluded,
        cited,
        coverage,
        failure,
        calls,
        Span("deliberate.answer", started, time.time()),
    )
    runtime.stream_writer(
        {
            "event": "coverage",
            "wave": state["wave"],
            "coverage": coverage.model_dump(),
            "answer": recollection.answer,
        }
    )
    annotate_run(recollection)
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


def coverage_of(state: DeliberationState) -> Coverage:
    """Return how much was read so far."""
    readings = state.get("readings", [])
    chunks = [chunk for wave in state.get("waves", []) for chunk in wave]
    done = {reading.number for reading in readings}
    failed = _failed_turns(state)
    read = {turn.id for chunk in chunks if chunk.number in done for turn in chunk.turns}
    return Coverage(
        turns_read=len(read) - failed,
        turns_failed=failed,
        turns_total=len({turn.id for chunk in chunks for turn in chunk.turns}),
        chunks_read=sum(1 for reading in readings if not reading.failure),
        chunks_failed=sum(1 for reading in readings if reading.failure),
        chunks_total=len(chunks),
        facts_found=sum(len(reading.facts) for reading in readings),
        facts_used=len(state.get("facts", [])),
        failures=tuple(dict.fromkeys(reading.failure for reading in readings if reading.failure)),
    )


def _failed_turns(state: DeliberationState) -> int:
    """Count the turns that could not be read; the parts of one long turn are one turn."""
    turns = {chunk.number: chunk.turns for wave in state.get("waves", []) for chunk in wave}
    whole: set[str] = set()
    parts = 0
    for reading in state.get("readings", []):
        if reading.failed_turns >= reading.turns:
            whole.update(turn.id for turn in turns.get(reading.number, ()))
        else:
            parts += reading.failed_turns
    return len(whole) + parts


async def _recollection(
    state: DeliberationState,
    context: Context,
    concluded: Answer | None,
    cited: set[int],
    coverage: Coverage,
    failure: str,
    calls: list[ModelCall],
    mine: Span,
) -> Recollection:
    fast = state.get("drafted")
    facts = state.get("facts", [])
    route: Route = "degraded" if failure else "deliberate"
    evidence: tuple[EvidenceItem, ...]
    if concluded is not None and (facts or fast is None):
        chosen = concluded
        turns = await context.store.turns_by_id(state["user_id"], [t for fact in facts for t in fact.turn_ids])
        evidence = evidence_of_facts(facts, turns, cited)
    elif fast is not None and (failure or not fast.abstained):
        chosen = fast
        evidence = evidence_of(state.get("packed", PackedContext(())), fast)
    else:
        short = context.settings.answer_style == "short"
        chosen = Answer(text=SHORT_NOTHING if short else NOTHING, abstained=True)
        evidence = evidence_of(state.get("packed", PackedContext(())), chosen)
    return recollect(
        question=state["question"],
        user_id=state["user_id"],
        answer=chosen,
        stored=bool(coverage.turns_total),
        route=route,
        verdict=state.get("verdict") or Verdict(passed=False, policy="always", reason="asked to read everything"),
        evidence=evidence,
        calls=[*state.get("calls", []), *calls],
        spans=[*state.get("spans", []), mine],
        coverage=coverage,
        fast_answer=fast.text if fast is not None else None,
        degraded_reason=failure,
    )
