"""What comes out of a deliberation: how much was read, which answer stands, and the public result."""

from __future__ import annotations

from collections.abc import Sequence

from dualmem.context import Context, Span
from dualmem.deliberation.support import is_carried
from dualmem.recollecting import evidence_of, evidence_of_facts, recollect
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

SHORT_NOTHING = "NONE"


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
        stopped=state.get("stopped") or "",
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


def nothing_found(coverage: Coverage, *, short: bool) -> str:
    """Return the words of an abstention: how much was read says how far it goes."""
    if short:
        return SHORT_NOTHING
    if coverage.complete and coverage.turns_total:
        return f"I read the whole history ({coverage.turns_total} turns) and found nothing about that."
    if not coverage.turns_total:
        return "There is no history to read about that."
    text = f"I read {coverage.turns_read} of {coverage.turns_total} turns and found nothing about that"
    reasons = [f"{coverage.turns_failed} could not be read"] if coverage.turns_failed else []
    reasons += [f"{coverage.stopped} is spent"] if coverage.stopped else []
    return "; ".join([text, *reasons]) + "."


def stands(fast: Answer | None, verdict: Verdict | None, packed: PackedContext, question: str) -> bool:
    """Whether a fast answer stands where reading found nothing: it answered, and was not graded wrong.

    One that only lacked a detail stands. One that was graded beside the point, or not in the memories, stands only
    where its words and those of the question are in what it cites: a grade is an opinion, too.
    """
    if fast is None or fast.abstained:
        return False
    if verdict is None or (verdict.relevant and verdict.faithful):
        return True
    return is_carried(fast, packed, question)


async def conclude(
    state: DeliberationState,
    context: Context,
    concluded: Answer | None,
    *,
    cited: set[int],
    failure: str = "",
    calls: Sequence[ModelCall] = (),
    spans: Sequence[Span] = (),
    final: Verdict | None = None,
) -> Recollection:
    """Return the public result of a deliberation as it stands.

    Args:
        state: Of the deliberation, without what the node at hand adds.
        context: Settings and store.
        concluded: The answer from the facts; None where there were none, or the call failed.
        cited: Numbers, from 1, of the facts it cites.
        failure: Why there is no answer from the facts; the fast one goes out, on the route `degraded`.
        calls: Those of the node at hand.
        spans: Those of the node at hand.
        final: What was said of the answer.
    """
    fast = state.get("drafted")
    facts = state.get("facts") or []
    coverage = coverage_of(state)
    route: Route = "degraded" if failure else "deliberate"
    packed = state.get("packed") or PackedContext(())
    evidence: tuple[EvidenceItem, ...]
    if concluded is not None and facts:
        chosen = concluded
        turns = await context.store.turns_by_id(state["user_id"], [t for fact in facts for t in fact.turn_ids])
        evidence = evidence_of_facts(facts, turns, cited)
    elif fast is not None and (failure or stands(fast, state.get("verdict"), packed, state["question"])):
        chosen = fast
        evidence = evidence_of(packed, fast)
    else:
        text = nothing_found(coverage, short=context.settings.answer_style == "short")
        chosen = Answer(text=text, abstained=True)
        evidence = evidence_of(packed, chosen)
    return recollect(
        question=state["question"],
        user_id=state["user_id"],
        answer=chosen,
        stored=bool(state.get("stored")) or bool(coverage.turns_total),
        route=route,
        verdict=state.get("verdict") or Verdict(passed=False, policy="always", reason="asked to read everything"),
        evidence=evidence,
        calls=[*state.get("calls", []), *calls],
        spans=[*state.get("spans", []), *spans],
        coverage=coverage,
        fast_answer=fast.text if fast is not None else None,
        degraded_reason="; ".join(filter(None, (failure, state.get("selection_failure")))),
        final=final or _said_of(chosen, coverage, failure),
        computed=tuple(state.get("computed") or ()),
    )


def _said_of(answer: Answer, coverage: Coverage, failure: str) -> Verdict:
    """Return what there is to say of an answer that no model graded."""
    if failure:
        return Verdict(passed=False, policy="deliberation", reason=failure)
    if not answer.abstained:
        return Verdict(passed=True, policy="deliberation", reason=f"{coverage}")
    final = " This is final." if coverage.complete else ""
    return Verdict(
        passed=coverage.complete,
        policy="deliberation",
        relevant=False,
        complete=False,
        reason=f"It abstains; {coverage}.{final}",
    )
