"""Judge the answer made so far, to know whether more must be read, and whether it can go out."""

from __future__ import annotations

import asyncio
import time

from langgraph.runtime import Runtime

from dualmem.chat import Reply
from dualmem.context import Context, Span
from dualmem.deliberation.budget import Budget, Due, affordable, repairable
from dualmem.deliberation.concluding import conclude, coverage_of, nothing_found
from dualmem.deliberation.support import History, absent_words, doubt
from dualmem.errors import ModelError, ReplyTruncated, UnreadableReply
from dualmem.prompts import gate as gate_prompt
from dualmem.prompts.evidence import facts_part, sources_part
from dualmem.prompts.gate import GateReply
from dualmem.recollecting import evidence_ids
from dualmem.records import Answer, ModelCall, Verdict
from dualmem.state import DeliberationState

POLICY = "quality"
"""Between waves answers are always graded: sampled answers say nothing of what was not read yet."""


async def gate(state: DeliberationState, runtime: Runtime[Context]) -> DeliberationState:
    """Grade the answer of a wave by quality; after the last wave only one that is in doubt.

    An abstention, or a grade that cannot be had, reads on; after the last wave an abstention is final. An answer is in
    doubt there where the turns it rests on do not carry its words (`support.doubt`). It is graded against those turns,
    and becomes an abstention where it is beside the point, not in them, or the grade cannot be read.
    """
    started = time.time()
    context = runtime.context
    wave = state["wave"] + 1
    waves = state["waves"]
    concluded = state["concluded"]
    stopped = state.get("stopped") or ""
    due = Due()
    more = wave < len(waves) and not stopped
    if more:
        due = affordable(
            waves[wave],
            state.get("calls", []),
            context.settings,
            question=state["question"],
            asked_at=state.get("asked_at"),
            ledger=state.get("ledger", False),
            deadline=state.get("deadline"),
            grades=0 if concluded.abstained else 1,
        )
        stopped = due.stopped
    if more and (due.chunks or not stopped):
        spare = None if due.spare is None else list(due.spare)
        on: DeliberationState = {"wave": wave, "due": list(due.chunks), "spare": spare, "stopped": stopped}
        return {**on, "satisfied": False} if concluded.abstained else await _between_waves(state, runtime, on)
    update: DeliberationState = {"wave": wave, "satisfied": True, "due": [], "stopped": stopped}
    if stopped != (state.get("stopped") or ""):
        update |= await _with_stop(state, context, stopped)
    if concluded.abstained or not state.get("facts") or not context.settings.check_support:
        return update
    return await _at_the_end(state, runtime, update, started)


async def _between_waves(
    state: DeliberationState, runtime: Runtime[Context], update: DeliberationState
) -> DeliberationState:
    prompt = gate_prompt.render(
        facts_part(state["facts"], state.get("computed") or []),
        state["question"],
        state["concluded"].text,
        asked_at=state.get("asked_at"),
        step="deliberate.gate",
    )
    try:
        # Of a limit, what is left over belongs to the wave that follows a grade that cannot be read.
        reply = await runtime.context.chat.ask(prompt, repair=not Budget.of(runtime.context.settings))
    except ModelError as error:
        runtime.stream_writer({"event": "wave", "wave": update["wave"], "passed": False, "reason": str(error)})
        return {**update, "satisfied": False, "calls": list(error.calls)}
    verdict = _verdict(reply)
    runtime.stream_writer({"event": "wave", "wave": update["wave"], "passed": verdict.passed, "reason": verdict.reason})
    update |= {"satisfied": verdict.passed, "final": verdict, "calls": list(reply.calls)}
    if verdict.passed:
        recollection = state["recollection"].model_copy(update={"final": verdict})
        return {**update, "due": [], "recollection": recollection}
    return {**update, "missing": verdict.missing}


async def _at_the_end(
    state: DeliberationState, runtime: Runtime[Context], update: DeliberationState, started: float
) -> DeliberationState:
    """Grade an answer that is in doubt against the turns that it rests on."""
    context, concluded = runtime.context, state["concluded"]
    history = History.of(chunk for wave in state["waves"] for chunk in wave)
    cited = [fact for fact in state["facts"] if set(fact.turn_ids) & set(concluded.turn_ids)]
    computed = state.get("computed") or []
    threshold = context.settings.score_threshold
    reason = doubt(concluded, cited, state["question"], history, threshold=threshold, computed=computed)
    if not reason or (state.get("ledger") and computed):
        return update
    turns = history.sources(t for fact in (cited or state["facts"]) for t in fact.turn_ids)
    # All turns are looked through, which takes its time where there are many.
    absent = await asyncio.to_thread(absent_words, state["question"], history)
    notes = [*computed, *([_absence(absent, len(history.turns))] if absent else [])]
    prompt = gate_prompt.render(
        sources_part(turns, notes),
        state["question"],
        concluded.text,
        asked_at=state.get("asked_at"),
        step="deliberate.check",
    )
    calls: list[ModelCall] = []
    try:
        repair = repairable(prompt, state.get("calls", []), context.settings, after=0)
        reply = await context.chat.ask(prompt, repair=repair)
    except (UnreadableReply, ReplyTruncated) as error:
        calls = list(error.calls)
        final = Verdict(passed=False, policy=POLICY, reason=f"{reason}, and the grade could not be read: {error}",
                        relevant=False, faithful=False, complete=False, readable=False)  # fmt: skip
    except ModelError as error:
        final = Verdict(passed=False, policy=POLICY, reason=f"{reason}, and it could not be graded: {error}")
    else:
        calls = list(reply.calls)
        final = _verdict(reply)
        final = final.model_copy(update={"reason": f"{reason}; {final.reason}".rstrip("; ")})
    runtime.stream_writer({"event": "check", "passed": final.passed, "reason": final.reason})
    update |= {"final": final, "calls": calls}
    if final.relevant and final.faithful:
        recollection = update.get("recollection", state["recollection"]).model_copy(update={"final": final})
        return {**update, "recollection": recollection}
    stopped: DeliberationState = {**state, "stopped": update["stopped"]}
    coverage = coverage_of(stopped)
    text = nothing_found(coverage, short=context.settings.answer_style == "short")
    abstention = Answer(text=text, abstained=True)
    mine = Span("deliberate.gate", started, time.time())
    recollection = await conclude(stopped, context, abstention, cited=set(), calls=calls, spans=[mine], final=final)
    return {
        **update,
        "concluded": abstention,
        "answer": recollection.answer,
        "evidence_ids": evidence_ids(recollection),
        "recollection": recollection,
    }


async def _with_stop(state: DeliberationState, context: Context, stopped: str) -> DeliberationState:
    """Return the result with the limit that stopped it; where nothing was found, its words say so too."""
    limited: DeliberationState = {**state, "stopped": stopped}
    if not state.get("facts"):
        recollection = await conclude(limited, context, None, cited=set(), failure=state.get("degraded_reason") or "")
        return {"recollection": recollection, "answer": recollection.answer}
    return {"recollection": state["recollection"].model_copy(update={"coverage": coverage_of(limited)})}


def _absence(words: list[str], turns: int) -> str:
    quoted = ", ".join(f'"{word}"' for word in words)
    return f"of the question's words, {quoted} stand in none of the {turns} turns of the whole history"


def _verdict(reply: Reply[GateReply]) -> Verdict:
    grades = reply.value
    return Verdict(
        passed=grades.relevant and grades.faithful and grades.complete,
        policy=POLICY,
        relevant=grades.relevant,
        faithful=grades.faithful,
        complete=grades.complete,
        reason=grades.reason,
        missing=grades.missing,
    )
