"""The part that the answer, the gate and the filter share: rules, then evidence.

It is the same to the byte in all of them, so that a server's or provider's prompt cache holds it after the first.
What differs comes after it, and the question last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from langchain_core.messages import BaseMessage

from dualmem.prompting import DATA_RULE, chat, describe_instant, evidence_lines, fence
from dualmem.records import EvidenceUnit, Fact, Turn

SYSTEM: Final = f"""You work with the memory of past conversations. The evidence holds memories and quoted turns, \
each with a label in brackets and the dates that are known.
- "when" is when something holds or happened, "said" is when it was told.
- "earlier, no longer so" marks a past state; the line marked "current" after it took its place.
- Where memories disagree and nothing marks one as past, the later one counts, except for those marked \
"conflicting": there, both sides stand.
- A quoted turn may say "yesterday" or "last week": count from the date of that turn.
- "computed" lines were worked out by a program from all that was read: take their numbers as they are.
{DATA_RULE}"""


def evidence_part(units: Sequence[EvidenceUnit], labels: Mapping[str, str], *, dates: bool = True) -> str:
    """Render the evidence block of recall."""
    lines = evidence_lines(units, labels, dates=dates)
    return fence("evidence", lines or ["(nothing)"])


def facts_part(facts: Sequence[Fact], computed: Sequence[str] = ()) -> str:
    """Render facts read in the raw history as the evidence block, in order of time.

    Args:
        facts: Labelled F1, F2, ... in the order given.
        computed: Statements that code computed from them, labelled C1, C2, ...
    """
    lines = []
    for number, fact in enumerate(facts, start=1):
        said = f" (said: {describe_instant(fact.when, day_only=True)})" if fact.when else ""
        lines.append(f"[F{number}] {fact.text}{said}")
    lines += [f"[C{number}] computed: {line}" for number, line in enumerate(computed, start=1)]
    return fence("evidence", lines or ["(nothing)"])


def sources_part(turns: Sequence[Turn], computed: Sequence[str] = ()) -> str:
    """Render raw turns as the evidence block, each with its date, and what was computed or counted after them."""
    labels = {turn.id: f"T{number}" for number, turn in enumerate(turns, start=1)}
    lines = evidence_lines([EvidenceUnit((), 0.0, tuple(turns))], labels)
    lines += [f"[C{number}] computed: {line}" for number, line in enumerate(computed, start=1)]
    return fence("evidence", lines or ["(nothing)"])


def question_part(question: str, asked_at: datetime | None) -> str:
    """Render the question, the last thing of every prompt."""
    asked = f"Asked on {describe_instant(asked_at, day_only=True)}.\n" if asked_at else ""
    return f"{asked}Question: {question}"


def messages(evidence: str, task: str, question: str, asked_at: datetime | None) -> tuple[BaseMessage, ...]:
    """Return rules, evidence, task and question in the order that caches best."""
    return chat(SYSTEM, f"{evidence}\n\n{task}\n\n{question_part(question, asked_at)}")
