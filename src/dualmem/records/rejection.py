"""What was extracted and not kept."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class Rejection(BaseModel):
    """A draft that ingestion refused, kept to be looked at. No search finds it, and no model is shown it."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Made from the rest but the time, so that the same draft, refused again, is stored once."""
    user_id: str
    conversation_id: str
    turn_ids: tuple[str, ...] = ()
    """The turns it cites, as far as they were shown."""
    shown_turn_ids: tuple[str, ...] = ()
    """The turns whose words the model had before it, the last one read last; it goes when any of them is forgotten."""
    text: str
    """The statement; of an item without one, the item as JSON."""
    quote: str = ""
    """The words the model gave as its evidence."""
    reason: str
    rejected_at: datetime
