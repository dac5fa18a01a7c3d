"""What was said: messages as the caller has them, and turns as they are stored."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Role = Literal["user", "assistant", "system", "tool"]

TurnState = Literal["pending", "read", "skipped"]
"""`pending`: stored, memories not extracted yet. `read`: extracted. `skipped`: never shown to a model."""


class Message(BaseModel):
    """One message as it arrives, from a caller or a file, cleaned of what no store or model can take."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str
    name: str | None = None
    """The speaker's name; without one the role stands for it."""
    timestamp: AwareDatetime | None = None
    """When it was said, with a zone; never guessed."""
    id: str | None = None
    """The id its source gives it (a LangChain message id, a LoCoMo `dia_id`)."""
    session: str | None = None
    injected: bool = False
    """True for text that memory itself put into the conversation: kept, never extracted from."""


class Transcript(BaseModel):
    """One conversation read from a file or a list."""

    model_config = ConfigDict(frozen=True)

    conversation_id: str
    messages: tuple[Message, ...]
    agent_id: str = ""
    """The agent that it was had with, where several share a user's memory."""
    source: str = "messages"
    """The format it was read from, in the words the documentation uses."""
    skipped: dict[str, int] = Field(default_factory=dict)
    """What was left out while reading, by reason."""


class Turn(BaseModel):
    """One stored message: the raw truth that memories lead back to.

    Its id is made from the user, the conversation and the message itself, so the same message again is the
    same turn.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    user_id: str
    conversation_id: str
    position: int
    """Place in its conversation, from 0."""
    speaker: str
    role: Role
    text: str
    said_at: datetime | None = None
    session: str | None = None
    source_id: str | None = None
    agent_id: str = ""
    """The agent in whose conversation it was said."""
    state: TurnState = "pending"
    recorded_at: datetime
