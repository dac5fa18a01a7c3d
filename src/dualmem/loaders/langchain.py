"""Messages that a program has in hand: LangChain's, OpenAI's dictionaries, pairs of role and text."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

from dualmem.cleaning import clean_label
from dualmem.errors import EmptyConversation, InputError
from dualmem.loaders.chat import TIMESTAMP_KEYS, ChatReader
from dualmem.loaders.conversation import Conversation

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from dualmem.records.turn import Message, Transcript

_FIELDS = (
    "role",
    "type",
    "content",
    "name",
    "id",
    "session",
    "injected",
    "tool_call_id",
    "tool_calls",
    "invalid_tool_calls",
    "additional_kwargs",
    "response_metadata",
    "metadata",
    *TIMESTAMP_KEYS,
)


def from_messages(
    messages: Sequence[BaseMessage | Message | Mapping[str, Any] | tuple[str, str] | str],
    *,
    conversation_id: str,
    timezone: tzinfo = UTC,
) -> Transcript:
    """Return the transcript of messages in hand; neither the list nor a message is changed.

    A message is LangChain's of any kind, a mapping (`role`, `content`, and if there: `name`, `id`,
    `timestamp`, `session`, `tool_calls`; or one of LangChain's dumps), a pair of role and text, or a text of
    the user.

    An assistant message with tool calls and no content reads as its tool calls. A message that memory itself
    put in (marked by `additional_kwargs["dualmem"]["injected"]`, or between the fence markers of
    `dualmem.cleaning`) is kept as injected. What cannot be read is counted in `skipped`.

    Args:
        messages: The messages, oldest first.
        conversation_id: The conversation they belong to.
        timezone: The zone of times that name none. A message's time is its `timestamp` or `created_at`, its
            own, or in `additional_kwargs`, `response_metadata` or `metadata`; without one it has no time.

    Raises:
        InputError: `messages` is not a list of messages, or the conversation id is blank.
        EmptyConversation: No message has anything in it.
    """
    given: object = conversation_id
    label = clean_label(given) if isinstance(given, str) else None
    if label is None:
        message = f"a conversation id must be a non-blank string, not {reprlib.repr(given)}; pass the thread's id"
        raise InputError(message)
    if isinstance(messages, str | bytes | Mapping) or not hasattr(messages, "__iter__"):
        message = f"messages must be a list of messages, not one {type(messages).__name__!r}; put it into a list"
        raise InputError(message)
    conversation = Conversation(timezone)
    reader = ChatReader(conversation)
    for item in messages:
        reader.add(_fields(item))
    if not conversation.messages:
        left_out = ", ".join(f"{count} {reason}" for reason, count in conversation.skipped.items()) or "nothing"
        message = (
            f"there is no message to remember in conversation {label!r} (left out: {left_out}); "
            "pass at least one with text"
        )
        raise EmptyConversation(message)
    return conversation.transcript(label, "messages")


def _fields(item: object) -> Mapping[Any, Any] | None:
    """Return a message's fields without changing it, or None if it is no message.

    LangChain's messages are told by what they have, not by their class: importing the classes takes seconds,
    and someone who passes dictionaries needs none of them.
    """
    if isinstance(item, str):
        return {"role": "user", "content": item}
    if isinstance(item, Mapping):
        return item
    if isinstance(item, tuple | list):
        match item:
            case [str(role), content]:
                return {"role": role, "content": content}
        return None
    if hasattr(item, "content") and (hasattr(item, "type") or hasattr(item, "role")):
        return {field: getattr(item, field) for field in _FIELDS if hasattr(item, field)}
    return None
