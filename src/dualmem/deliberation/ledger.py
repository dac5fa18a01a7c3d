"""The ledger: facts of all chunks in order of time, duplicates joined."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from dualmem.records import Fact
from dualmem.retrieval.text import similarity

_NEVER = datetime.max.replace(tzinfo=UTC)

SAME_FACT = 0.8
"""Token overlap from which two facts count as one."""


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """Return `facts` from earlier to later, each once; a duplicate's turns go to the one that is kept."""
    kept: list[Fact] = []
    for fact in sorted(facts, key=lambda item: -item.score):
        for place, other in enumerate(kept):
            if similarity(fact.text, other.text) >= SAME_FACT:
                turns = tuple(dict.fromkeys((*other.turn_ids, *fact.turn_ids)))
                kept[place] = other.model_copy(update={"turn_ids": turns})
                break
        else:
            kept.append(fact)
    dated = sorted((fact for fact in kept if fact.when is not None), key=lambda fact: fact.when or _NEVER)
    return [*dated, *(fact for fact in kept if fact.when is None)]
