"""What left a store, or came into one, as a whole."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict


class ExportHeader(BaseModel):
    """The first line of an export."""

    model_config = ConfigDict(frozen=True)

    type: Literal["dualmem-export"] = "dualmem-export"
    version: Literal[1] = 1
    user_id: str
    exported_at: datetime
    turns: int
    memories: int


class ImportReceipt(BaseModel):
    """The account of an import."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    turns_stored: int = 0
    turns_known: int = 0
    """Turns that were there before; they are left as they are."""
    memories_stored: int = 0
    memories_known: int = 0
    """Memories that were there before; their links are completed where what came refers to them."""
    links_mended: int = 0
    """Memories whose links had to be brought into agreement."""


class CopyReceipt(BaseModel):
    """The account of copying a store into another one."""

    model_config = ConfigDict(frozen=True)

    users: int = 0
    turns: int = 0
    memories: int = 0
    known: int = 0
    """Turns and memories that an earlier, interrupted run had copied."""
