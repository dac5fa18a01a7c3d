"""Decide what becomes of new memories: ADD, UPDATE, DELETE or NOOP (D-Mem, System 1, update)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

Operation = Literal["ADD", "UPDATE", "DELETE", "NOOP"]
OPERATIONS: Final[tuple[str, ...]] = get_args(Operation)

SYSTEM: Final = f"""You keep a list of memories. For each new memory, compare it with the old ones listed under it \
and choose one operation:
- ADD: it says something that no old memory says.
- UPDATE: it says more, or something newer, about what an old memory says, and takes its place.
- DELETE: it contradicts an old memory, which no longer holds.
- NOOP: an old memory says it already.

Give for each new memory: new (its number), target (the label of the old memory; "none" for ADD), reason (a few \
words), operation.
{DATA_RULE}"""


class Updated(BaseModel):
    """The operation for one new memory."""

    new: int
    target: str = "none"
    reason: str = ""
    operation: Operation

    @field_validator("operation", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value


class UpdateReply(BaseModel):
    """The operations for all new memories of a call."""

    operations: list[Updated]
    malformed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _keep_valid(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "operations" not in value:
            return value
        kept, malformed = keep_valid(value["operations"], Updated)
        return {"operations": kept, "malformed": malformed}


def render(cases: Sequence[tuple[Memory, Sequence[Memory]]], labels: Mapping[str, str]) -> Prompt[UpdateReply]:
    """Ask what becomes of each new memory.

    Args:
        cases: New memories in time order, each with the old ones offered with it (D-Mem: 5 above cosine 0.8).
        labels: A label for each old memory, by id.
    """
    lines: list[str] = []
    for number, (new, old) in enumerate(cases, start=1):
        lines.append(f"New {number}: {memory_line(new, f'N{number}')}")
        lines += [f"  old: {memory_line(memory, labels[memory.id])}" for memory in old]
    offered = sorted({labels[memory.id] for _, old in cases for memory in old})
    item = schema_of(
        {
            "new": one_of(list(range(1, len(cases) + 1))),
            "target": one_of([*offered, "none"]),
            "reason": text_field(120),
            "operation": one_of(OPERATIONS),
        }
    )
    user = f"{fence('memories', lines)}\n\nChoose an operation for each new memory, as JSON."
    return Prompt(
        step="consolidate",
        messages=chat(SYSTEM, user),
        output=UpdateReply,
        schema=schema_of({"operations": list_of(item, len(cases), least=len(cases))}),
    )
