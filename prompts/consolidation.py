"""Decide how new memories relate to those that are there (MemoryLACE, stage I, step 2).

The model is not asked for the relation but for what it follows from, and code derives it: whether both say the same,
whether both can be true, and which words show a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

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

LATER: Final = "later"
"""What `sign` says when a thing that changes by itself was simply told anew."""

SYSTEM: Final = f"""You compare each new statement with the old ones listed under it. Pick the old statement that is \
about the same thing of the same subject (both about the home, both about the job, both about the brothers). If none \
is, the target is "none".
For each new statement:
- new: its number.
- target: the label of that old statement, or "none".
- same: true if both say the same.
- both: true if both can be true at the same time.
- sign: the word of the new statement that says that something changed ("moved", "now", "quit", "no longer", \
"cancelled"), else "". Write "{LATER}" where no word says so and the new statement, told later, is the newer state \
of something that changes in life (home, job, age, plan, habit), not of something fixed (a birthday, a name).
- reason: why, in a few words.
{DATA_RULE}"""

MERGED: Final = """
- merged: where same is true, one statement that says all that both say, in their language; else ""."""
"""Asked for, too, where one memory is written that replaces both (MemoryLACE, compact merge)."""

EXAMPLE: Final = (
    """<memories>
New 1: [N1] Priya works as a pastry cook at Lune now.
  old: [A] Priya works at a bank.
  old: [B] Priya likes baking bread.
New 2: [N2] Priya plays tennis on Sundays.
  old: [B] Priya likes baking bread.
  old: [C] Priya has a dog called Pip.
New 3: [N3] Priya's sister is called Mina.
  old: [D] Priya's sister is called Nila.
  old: [E] Priya has a sister.
New 4: [N4] Every Sunday Priya bakes bread because she enjoys it.
  old: [B] Priya likes baking bread.
New 5: [N5] Priya bought a red bicycle.
  old: [C] Priya has a dog called Pip.
</memories>

Decide for each new memory, as JSON.""",
    '{"decisions": ['
    '{"new": 1, "target": "A", "same": false, "both": false, "sign": "now", "reason": "another job"}, '
    '{"new": 2, "target": "none", "same": false, "both": true, "sign": "", "reason": "tennis is not baking"}, '
    '{"new": 3, "target": "D", "same": false, "both": false, "sign": "", "reason": "two names for one sister"}, '
    '{"new": 4, "target": "B", "same": true, "both": true, "sign": "", "reason": "both: likes baking bread"}, '
    '{"new": 5, "target": "none", "same": false, "both": true, "sign": "", "reason": "a bicycle is no dog"}]}',
)


class Decided(BaseModel):
    """What was said of one new memory."""

    new: int
    target: str = "none"
    same: bool
    both: bool
    sign: str = ""
    reason: str = ""
    merged: str = ""

    @field_validator("target", mode="before")
    @classmethod
    def _label(cls, value: Any) -> Any:
        """Take a label in brackets or in a list, and null for none."""
        if isinstance(value, list):
            value = value[0] if value else None
        return "none" if value is None else str(value).strip("[] ")

    @field_validator("sign", "reason", "merged", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return "" if value is None else str(value)


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


def _with_merged(example: tuple[str, str]) -> tuple[str, str]:
    """Return the worked example as it is where merged statements are asked for."""
    reply = json.loads(example[1])
    for decision in reply["decisions"]:
        decision["merged"] = "Priya likes baking bread, and does so every Sunday." if decision["same"] else ""
    return example[0], json.dumps(reply)


def render(
    cases: Sequence[tuple[Memory, Sequence[Memory]]],
    labels: Mapping[str, str],
    *,
    dates: bool = True,
    compact: bool = False,
) -> Prompt[ConsolidationReply]:
    """Ask how each new memory relates to the old ones offered with it.

    Args:
        cases: New memories in time order, each with its candidates.
        labels: A label for each candidate, by memory id.
        dates: Show dates (off in MemoryLACE's ablation without temporal awareness).
        compact: Ask for the text of a memory that takes the place of two which say the same.
    """
    lines: list[str] = []
    for number, (new, candidates) in enumerate(cases, start=1):
        lines.append(f"New {number}: {memory_line(new, f'N{number}', dates=dates)}")
        lines += [f"  old: {memory_line(old, labels[old.id], dates=dates)}" for old in candidates]
    offered = sorted({labels[old.id] for _, candidates in cases for old in candidates})
    fields: dict[str, Any] = {
        "new": one_of(list(range(1, len(cases) + 1))),
        "target": one_of([*offered, "none"]),
        "same": {"type": "boolean"},
        "both": {"type": "boolean"},
        "sign": text_field(24),
        "reason": text_field(120),
    }
    system, example = SYSTEM, EXAMPLE
    if compact:
        fields["merged"] = text_field(240)
        system, example = SYSTEM.replace(f"\n{DATA_RULE}", f"{MERGED}\n{DATA_RULE}"), _with_merged(EXAMPLE)
    item = schema_of(fields)
    user = f"{fence('memories', lines)}\n\nDecide for each new memory, as JSON."
    return Prompt(
        step="consolidate",
        messages=chat(system, user, example=example),
        output=ConsolidationReply,
        schema=schema_of({"decisions": list_of(item, len(cases), least=len(cases))}),
    )
