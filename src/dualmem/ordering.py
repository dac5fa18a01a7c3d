"""Which of two states comes first, and when one was retired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dualmem.records import Memory


def retirement(state: Memory, later: Sequence[Memory]) -> datetime:
    """Return when what replaced a state was told.

    What was known before a late statement came must not change by it: the first of the later states counts that was
    told after this one.
    """
    return max(state.known_at, min(other.known_at for other in later))


def earlier(state: Memory, new: Memory) -> bool:
    """Whether `state` comes before `new`: by event time where both are dated states, else by when they were told.

    The date of a plan is not when the plan holds from: a meeting put forward is still the newer plan.
    """
    if (
        state.kind == new.kind == "state"
        and state.valid is not None
        and new.valid is not None
        and state.valid.start is not None
        and new.valid.start is not None
        and state.valid.start != new.valid.start
    ):
        return state.valid.start < new.valid.start
    return state.told <= new.told
