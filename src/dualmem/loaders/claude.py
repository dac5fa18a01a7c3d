"""Claude's export, `conversations.json`: a list of conversations with their `chat_messages`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualmem.loaders.content import ROLES, render_content, render_message
from dualmem.loaders.conversation import Conversation, Format, Origin, read_each


def _is_conversation(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _sniff(value: object) -> bool:
    return _is_conversation(value) or (isinstance(value, list) and any(map(_is_conversation, value)))


def _read(value: object, origin: Origin) -> list[Conversation]:
    return read_each(value, _is_conversation, _read_conversation, origin)


def _read_conversation(value: Mapping[str, Any], origin: Origin) -> Conversation:
    conversation = Conversation(origin.zone, value.get("uuid"))
    for message in value["chat_messages"]:
        role = ROLES.get(str(message.get("sender")).lower()) if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or role is None:
            conversation.skip("malformed message")
            continue
        blocks = message.get("content")
        text = render_message(blocks, (), conversation.skip) if isinstance(blocks, list) else ""
        if not text.strip():  # older exports have the text only here
            text = render_content(message.get("text"), conversation.skip)
        for key in ("attachments", "files"):
            attached = message.get(key)
            conversation.skip("attachment", len(attached) if isinstance(attached, list) else 0)
        conversation.add(role=role, content=text, timestamp=message.get("created_at"), id=message.get("uuid"))
    return conversation


FORMAT: Format[object] = Format("Claude export", _sniff, _read)
