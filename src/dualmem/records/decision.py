"""Decisions of the lifecycle, as they are shown to people and taken back."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dualmem.records.memory import Memory
from dualmem.records.turn import Turn


class Decision(BaseModel):
    """One decision on two memories."""

    model_config = ConfigDict(frozen=True)

    id: str
    """To take it back by."""
    relation: Literal["supersedes", "contradicts", "merged_with", "merges"]
    later: Memory
    """The one that supersedes or merges; else the one whose coming led to the decision."""
    earlier: Memory
    reason: str
    at: datetime
    """When it was decided."""
    turns: tuple[Turn, ...] = ()
    """The turns that gave rise to it, as far as they are still there."""


class Explanation(BaseModel):
    """Why a memory is as it is."""

    model_config = ConfigDict(frozen=True)

    memory: Memory
    sources: tuple[Turn, ...]
    decisions: tuple[Decision, ...]
    """Every decision it is part of; the one that took it out of force first."""


class Undone(BaseModel):
    """A decision that was taken back."""

    model_config = ConfigDict(frozen=True)

    decision: Decision
    active_again: tuple[str, ...]
    """Ids of memories that are in force again by it."""


class TurnEffects(BaseModel):
    """What came of a turn, and so what would go with it."""

    model_config = ConfigDict(frozen=True)

    turn: Turn
    alone: tuple[Memory, ...]
    """Memories that come from this turn alone; they would go with it."""
    shared: tuple[Memory, ...]
    """Memories that come from other turns, too; they would stay."""
    retired: tuple[Memory, ...]
    """Memories that are out of force because of it; they would be in force again."""
