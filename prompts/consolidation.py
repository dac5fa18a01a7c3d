"""Decide how new memories relate to those that are there (MemoryLACE, stage I, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, field_validator, model_validator

from dualmem.chat import Prompt
from dualmem.prompting import (
    DATA_RULE,
    chat,
    fence,
    keep_valid,
    list_of,
    memory_line,
    one_of,
    schema_of,
    text_field,
)
from dualmem.records import Memory

Decision = Literal["independent", "same", "changed", "conflict"]
DECISIONS: Final[tuple[str, ...]] = get_args(Decision)

SYSTEM: Final = f"""You keep a list of memories in order. For each new memory, compare it with the old ones listed \
under it and decide:
- same: an old memory says the same thing, perhaps in other words.
- changed: both are about the same thing of the same subject (home, job, a plan), and the new one is a later \
state: something moved, ended, was replaced, cancelled or postponed.
- conflict: both are about the same thing of the same subject and cannot both be true, and nothing says that it \
changed in between: one of them must be wrong.
- independent: none of these. Different things about one person are independent.

Give for each new memory: new (its number), target (the label of the old memory it relates to, or "none"), \
reason (a few words), decision.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<memories>
New 1: [N1] Priya works as a pastry cook at Lune. (said: 3 March 2024)
  old: [A] Priya works at a bank. (said: 2 January 2024)
  old: [B] Priya likes baking bread. (said: 2 January 2024)
New 2: [N2] Priya's sister is called Mina. (said: 3 March 2024)
  old: [C] Priya's sister is called Nila. (said: 5 February 2024)
New 3: [N3] Priya plays tennis on Sundays. (said: 3 March 2024)
  old: [B] Priya likes baking bread. (said: 2 January 2024)
New 4: [N4] Every Sunday Priya bakes bread because she enjoys it. (said: 3 March 2024)
  old: [B] Priya likes baking bread. (said: 2 January 2024)
</memories>

Decide for each new memory, as JSON.""",
    '{"decisions": ['
    '{"new": 1, "target": "A", "reason": "her job: she left the bank for Lune", "decision": "changed"}, '
    '{"new": 2, "target": "C", "reason": "two names for one sister, a name does not change", '
    '"decision": "conflict"}, '
    '{"new": 3, "target": "none", "reason": "tennis is not baking", "decision": "independent"}, '
    '{"new": 4, "target": "B", "reason": "both say that she likes baking bread", "decision": "same"}]}',
)


class Decided(BaseModel):
    """The decision on one new memory."""

    new: int
    target: str = "none"
    reason: str = ""
    decision: Decision

    @field_validator("decision", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        if isinstance(value, list) and value:
            value = value[0]
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("target", "reason", mode="before")
    @classmethod
    def _none_is_text(cls, value: Any) -> Any:
        return "none" if value is None else str(value)


class ConsolidationReply(BaseModel):
    """The decisions on all new memories of a call."""

    decisions: list[Decided]
    malformed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _keep_valid(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "decisions" not in value:
            return value
        kept, malformed = keep_valid(value["decisions"], Decided)
        return {"decisions": kept, "malformed": malformed}


def render(
    cases: Sequence[tuple[Memory, Sequence[Memory]]], labels: dict[str, str], *, dates: bool = True
) -> Prompt[ConsolidationReply]:
    """Ask how each new memory relates to the old ones offered with it.

    Args:
        cases: New memories in time order, each with its candidates.
        labels: A label for each candidate, by memory id.
        dates: Show dates (off in MemoryLACE's ablation without temporal awareness).
    """
    lines: list[str] = []
    for number, (new, candidates) in enumerate(cases, start=1):
        lines.append(f"New {number}: {memory_line(new, f'N{number}', dates=dates)}")
        lines += [f"  old: {memory_line(old, labels[old.id], dates=dates)}" for old in candidates]
    offered = sorted({labels[old.id] for _, candidates in cases for old in candidates})
    item = schema_of(
        {
            "new": one_of(list(range(1, len(cases) + 1))),
            "target": one_of([*offered, "none"]),
            "reason": text_field(120),
            "decision": one_of(DECISIONS),
        }
    )
    user = f"{fence('memories', lines)}\n\nDecide for each new memory, as JSON."
    return Prompt(
        step="consolidate",
        messages=chat(SYSTEM, user, example=EXAMPLE),
        output=ConsolidationReply,
        schema=schema_of({"decisions": list_of(item, len(cases), least=len(cases))}),
    )
