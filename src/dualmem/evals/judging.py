"""Let a model judge answers. A judgement that cannot be had leaves the answer unscored, with the reason."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dualmem.errors import ModelError
from dualmem.evals.samples import Sample
from dualmem.prompts import judge, rubric_judge
from dualmem.records import ModelCall

if TYPE_CHECKING:
    from dualmem.chat import Chat


@dataclass(frozen=True, slots=True)
class Score:
    """A judge's score from 0 to 1, or None and why there is none."""

    metric: str
    value: float | None
    reason: str
    """The judge's, or why the answer stays unscored."""
    calls: tuple[ModelCall, ...] = ()


async def judge_answer(chat: Chat, sample: Sample, answer: str) -> Score:
    """Return the judge's score: 1 for CORRECT, 0 for WRONG; BEAM's rubric where the sample has one."""
    if sample.rubric:
        return await _by_rubric(chat, sample, answer)
    try:
        reply = await chat.ask(judge.render(sample.question, sample.target, answer))
    except ModelError as error:
        return Score("judge", None, f"the judge failed: {error}")
    return Score("judge", float(reply.value.verdict == "CORRECT"), reply.value.reason, reply.calls)


async def _by_rubric(chat: Chat, sample: Sample, answer: str) -> Score:
    """Return the mean over the rubric's items; one item without a score leaves the sample without one."""
    asked = [chat.ask(rubric_judge.render(sample.question, item, answer)) for item in sample.rubric]
    replies = await asyncio.gather(*asked, return_exceptions=True)
    calls: list[ModelCall] = []
    scores: list[float] = []
    failed: list[str] = []
    for number, reply in enumerate(replies, start=1):
        if isinstance(reply, ModelError):
            failed.append(f"item {number}: {reply}")
        elif isinstance(reply, BaseException):
            raise reply
        else:
            calls += reply.calls
            scores.append(reply.value.score)
    if failed:
        return Score("rubric", None, f"the judge failed: {'; '.join(failed)}", tuple(calls))
    shown = ", ".join(f"{score:g}" for score in scores)
    return Score("rubric", sum(scores) / len(scores), f"items: {shown}", tuple(calls))
