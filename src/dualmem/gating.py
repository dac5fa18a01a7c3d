"""Gate policies: when is a fast answer not good enough (D-Mem, gate policies)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from dualmem.chat import Reply
from dualmem.config import GatePolicy
from dualmem.context import Context
from dualmem.errors import ReplyTruncated, UnreadableReply
from dualmem.prompts import agreement, gate
from dualmem.prompts.agreement import AgreementReply
from dualmem.prompts.evidence import evidence_part
from dualmem.recollecting import answer_from
from dualmem.records import Answer, ModelCall, PackedContext, Verdict
from dualmem.retrieval.text import normalise

EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to judge, with what it was made from."""

    question: str
    answer: Answer
    packed: PackedContext
    asked_at: datetime | None = None
    standing: Sequence[str] = ()
    candidates: Sequence[Answer] = ()
    """Answers sampled already, for the policies that compare some."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy says: the verdict, the answer that stands, and the calls it took."""

    verdict: Verdict
    answer: Answer
    calls: tuple[ModelCall, ...] = ()


class Policy(Protocol):
    """Judge a fast answer.

    An unreadable verdict escalates and says so. A model that cannot be reached raises ModelUnavailable.
    """

    async def __call__(self, case: Case, context: Context) -> Judgement:
        """Return the judgement of `case`."""


async def never(case: Case, context: Context) -> Judgement:  # noqa: ARG001 - the protocol's form
    """Take every answer as it is (System 1 only)."""
    return Judgement(Verdict(passed=True, policy="never", reason="the gate is off"), case.answer)


async def always(case: Case, context: Context) -> Judgement:  # noqa: ARG001 - the protocol's form
    """Take no answer (full deliberation only)."""
    reason = "every question is deliberated"
    return Judgement(Verdict(passed=False, policy="always", reason=reason, missing=EVERYTHING), case.answer)


async def quality(case: Case, context: Context) -> Judgement:
    """Grade the answer on relevance, faithfulness and completeness; any fail escalates.

    An abstention fails by definition, and costs no call to find out.
    """
    if case.answer.abstained:
        verdict = Verdict(
            passed=False,
            policy="quality",
            relevant=False,
            complete=False,
            reason="the answer says that it does not know",
            missing=EVERYTHING,
        )
        return Judgement(verdict, case.answer)
    prompt = gate.render(
        evidence_part(case.packed.units, case.packed.labels, dates=context.settings.temporal),
        case.question,
        case.answer.text,
        asked_at=case.asked_at,
    )
    try:
        reply = await context.chat.ask(prompt)
    except (UnreadableReply, ReplyTruncated) as error:
        return Judgement(_unreadable("quality", error), case.answer, error.calls)
    grades = reply.value
    verdict = Verdict(
        passed=grades.relevant and grades.faithful and grades.complete,
        policy="quality",
        relevant=grades.relevant,
        faithful=grades.faithful,
        complete=grades.complete,
        reason=grades.reason,
        missing=grades.missing,
    )
    return Judgement(verdict, case.answer, reply.calls)


async def majority(case: Case, context: Context) -> Judgement:
    """Sample three answers; two that mean the same are enough, and the clearest of them stands."""
    return await _sampled(case, context, "majority", needed=context.settings.candidates // 2 + 1)


async def consensus(case: Case, context: Context) -> Judgement:
    """Sample three answers; all must mean the same."""
    return await _sampled(case, context, "consensus", needed=context.settings.candidates)


async def sample(case: Case, context: Context, policy: str) -> tuple[list[Answer], tuple[ModelCall, ...]]:
    """Return the candidates of majority and consensus, sampled in parallel at their own temperature.

    A candidate that cannot be read agrees with none.

    Raises:
        ModelUnavailable: The model could not be reached.
        UnreadableReply: No candidate could be read.
        ReplyTruncated: The same, and replies were cut off.
    """
    settings = context.settings
    sampled = await asyncio.gather(
        *(
            answer_from(
                context,
                case.packed,
                case.question,
                asked_at=case.asked_at,
                standing=case.standing,
                temperature=settings.candidate_temperature,
                step=f"gate.{policy}",
            )
            for _ in range(settings.candidates)
        ),
        return_exceptions=True,
    )
    failures = [found for found in sampled if isinstance(found, BaseException)]
    readable = [found for found in sampled if not isinstance(found, BaseException)]
    paid = [call for _, reply in readable for call in reply.calls]
    for failure in failures:
        if not readable or not isinstance(failure, UnreadableReply | ReplyTruncated):
            raise failure
        paid += failure.calls
    return [answer for answer, _ in readable], tuple(paid)


async def _sampled(case: Case, context: Context, policy: Literal["majority", "consensus"], *, needed: int) -> Judgement:
    if not case.packed.units:
        verdict = Verdict(passed=False, policy=policy, reason="there is no evidence", missing=EVERYTHING)
        return Judgement(verdict, case.answer)
    answers: list[Answer] = list(case.candidates)
    calls: tuple[ModelCall, ...] = ()
    if not answers:
        try:
            answers, calls = await sample(case, context, policy)
        except (UnreadableReply, ReplyTruncated) as error:
            return Judgement(_unreadable(policy, error), case.answer, error.calls)
    agreeing = _alike(answers)
    best, reason = agreeing[0], "word for word"
    if len(agreeing) < needed:
        try:
            reply: Reply[AgreementReply] = await context.chat.ask(
                agreement.render([answer.text for answer in answers], case.question, policy=policy)
            )
        except (UnreadableReply, ReplyTruncated) as error:
            return Judgement(_unreadable(policy, error), case.answer, (*calls, *error.calls))
        calls = (*calls, *reply.calls)
        agreeing = sorted({number for number in reply.value.agree if 1 <= number <= len(answers)})
        best = reply.value.best if reply.value.best in agreeing else (agreeing[0] if agreeing else 0)
        reason = reply.value.reason
    chosen = answers[best - 1] if best else case.answer
    enough = len(agreeing) >= needed
    passed = enough and not chosen.abstained
    verdict = Verdict(
        passed=passed,
        policy=policy,
        relevant=not chosen.abstained,
        faithful=enough,
        complete=passed,
        reason=f"{len(agreeing)} of {context.settings.candidates} sampled answers agree: {reason}".rstrip(": "),
        missing="" if passed else EVERYTHING,
    )
    return Judgement(verdict, chosen if enough else case.answer, calls)


def _alike(answers: Sequence[Answer]) -> list[int]:
    """Return the numbers, from 1, of the most answers that are the same word for word, which no model need judge."""
    numbers: dict[str, list[int]] = {}
    for number, answer in enumerate(answers, 1):
        numbers.setdefault(normalise(answer.text).rstrip(".!"), []).append(number)
    return max(numbers.values(), key=len)


def _unreadable(policy: str, error: Exception) -> Verdict:
    return Verdict(
        passed=False,
        policy=policy,
        relevant=False,
        faithful=False,
        complete=False,
        reason=f"the verdict could not be read: {error}",
        missing=EVERYTHING,
        readable=False,
    )


SAMPLED: Final[frozenset[GatePolicy]] = frozenset({"majority", "consensus"})
"""Policies that compare several answers, in place of one at temperature 0."""

POLICIES: dict[GatePolicy, Policy] = {
    "quality": quality,
    "majority": majority,
    "consensus": consensus,
    "always": always,
    "never": never,
}
