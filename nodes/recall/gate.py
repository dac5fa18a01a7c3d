"""Judge the fast answer, and decide the route."""

from __future__ import annotations

import time

from langgraph.runtime import Runtime

from dualmem.context import Context, Span
from dualmem.errors import ModelError
from dualmem.gating import POLICIES, Case
from dualmem.recollecting import evidence_ids, evidence_of, recollect
from dualmem.records import Answer, ModelCall, Recollection, Route, Verdict
from dualmem.state import RecallState
from dualmem.tracing import annotate_run, post_grades


async def gate(state: RecallState, runtime: Runtime[Context]) -> RecallState:
    """Judge the answer by the policy in force.

    With nothing stored there is nothing to deliberate. A gate that fails lets the fast answer go out, on the route
    `degraded` and with the reason.
    """
    started = time.time()
    context = runtime.context
    case = Case(
        question=state["question"],
        answer=state["drafted"],
        packed=state["packed"],
        asked_at=state.get("asked_at"),
        standing=state.get("standing", []),
        candidates=state.get("candidates") or [],
    )
    policy = context.settings.gate
    calls: list[ModelCall] = []
    answer = case.answer
    route: Route = "fast"
    reason = ""
    if not state["stored"]:
        verdict = Verdict(passed=True, policy=policy, reason="nothing is stored for this user")
    else:
        try:
            judgement = await POLICIES[policy](case, context)
        except ModelError as error:
            route, reason = "degraded", str(error)
            verdict = Verdict(passed=False, policy=policy, reason=f"the gate failed: {error}", readable=False)
        else:
            verdict, answer, calls = judgement.verdict, judgement.answer, list(judgement.calls)
            route = "fast" if verdict.passed else "deliberate"
            if context.settings.trace_feedback:
                post_grades(verdict)
    recollection = _recollection(state, answer, verdict, route, reason, calls, Span("gate", started, time.time()))
    annotate_run(recollection)
    runtime.stream_writer({"event": "verdict", "route": route, "verdict": verdict.model_dump()})
    return {
        "drafted": answer,
        "verdict": verdict,
        "route": route,
        "degraded_reason": reason,
        "answer": answer.text,
        "evidence_ids": evidence_ids(recollection),
        "recollection": recollection,
        "calls": calls,
    }


def _recollection(
    state: RecallState,
    answer: Answer,
    verdict: Verdict,
    route: Route,
    reason: str,
    calls: list[ModelCall],
    mine: Span,
) -> Recollection:
    return recollect(
        question=state["question"],
        user_id=state["user_id"],
        answer=answer,
        stored=state["stored"],
        route=route,
        verdict=verdict,
        evidence=evidence_of(state["packed"], answer),
        calls=[*state.get("calls", []), *calls],
        spans=[*state.get("spans", []), mine],
        degraded_reason=reason or state.get("ranking_failure", ""),
        dropped=state["packed"].dropped,
    )
