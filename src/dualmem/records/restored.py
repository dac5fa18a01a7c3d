"""Dataclasses that a checkpointer writes and reads back."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, cast


class Restored:
    """A frozen dataclass of a state, whose sequences are tuples.

    LangGraph's serializer gives lists for tuples, so that what was read back would equal nothing, and have no hash.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Make tuples of lists."""
        for name in _names(cast("Any", type(self))):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))


@cache
def _names(made: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; a search makes more than a hundred of one."""
    return tuple(field.name for field in fields(made))
