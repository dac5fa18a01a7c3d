"""Dataclasses that a checkpointer writes and reads back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast


class Restored:
    """A frozen dataclass of a state, whose sequences are tuples.

    LangGraph's serializer gives lists for tuples, so that what was read back would equal nothing, and have no hash.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Make tuples of lists."""
        for field in fields(cast("Any", self)):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
