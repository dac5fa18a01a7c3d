"""Review new memories and their neighbours once more as a group (MemoryLACE, stage I, step 4)."""

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

GroupRelation = Literal["replaces", "conflicts_with", "same_as"]
RELATIONS: Final[tuple[str, ...]] = get_args(GroupRelation)

SYSTEM: Final = f"""You check a small group of memories, listed from earlier to later, for relations that were missed:
- replaces: the later memory is a new state of the same thing of the same subject, so the earlier no longer holds.
- conflicts_with: two memories about the same thing of the same subject cannot both be true, and nothing changed.
- same_as: two memories say the same thing.

Most groups have none, and then the list is empty. Report only what is certain, each pair once, the later memory \
first. Different things about one person are not related.
{DATA_RULE}"""

EXAMPLE: Final = (
    """<memories>
[A] Priya plans to fly to Rome in June. (said: 2 January 2024)
[B] Priya likes baking bread. (said: 2 January 2024)
[C] Priya cancelled her June trip to Rome. (said: 3 March 2024)
</memories>

List the relations, as JSON.""",
    '{"relations": [{"later": "C", "earlier": "A", "reason": "the trip was cancelled", "relation": "replaces"}]}',
)


class Related(BaseModel):
    """One relation the group shows."""

    later: str
    earlier: str
    reason: str = ""
    relation: GroupRelation

    @field_validator("relation", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value


class EvolutionReply(BaseModel):
    """All relations of a group."""

    relations: list[Related]
    malformed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _keep_valid(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "relations" not in value:
            return value
        kept, malformed = keep_valid(value["relations"], Related)
        return {"relations": kept, "malformed": malformed}


def render(memories: Sequence[Memory], labels: dict[str, str], *, dates: bool = True) -> Prompt[EvolutionReply]:
    """Ask which relations a group of memories shows.

    Args:
        memories: The group, from earlier to later.
        labels: A label for each of them, by id.
        dates: Show dates.
    """
    lines = [memory_line(memory, labels[memory.id], dates=dates) for memory in memories]
    offered = [labels[memory.id] for memory in memories]
    item = schema_of(
        {
            "later": one_of(offered),
            "earlier": one_of(offered),
            "reason": text_field(120),
            "relation": one_of(RELATIONS),
        }
    )
    user = f"{fence('memories', lines)}\n\nList the relations, as JSON."
    return Prompt(
        step="evolve",
        messages=chat(SYSTEM, user, example=EXAMPLE),
        output=EvolutionReply,
        schema=schema_of({"relations": list_of(item, max(1, len(memories) // 2))}),
    )
