"""ChatGPT's export, `conversations.json`: each conversation a tree of edits, of which one path was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualmem.loaders.content import ROLES, render_content, render_tool_call
from dualmem.loaders.conversation import Conversation, Format, Origin, read_each

_REASONING = frozenset({"thoughts", "reasoning_recap"})
_LATEST = 1e12
# What ChatGPT's own memory and settings put in, not what anyone said.
_CONTEXT = frozenset({"user_editable_context", "model_editable_context"})


def _is_conversation(value: object) -> bool:
    return isinstance(value, Mapping) and (
        isinstance(value.get("mapping"), Mapping)
        and any(isinstance(node, Mapping) and "message" in node for node in value["mapping"].values())
    )


def _sniff(value: object) -> bool:
    return _is_conversation(value) or (isinstance(value, list) and any(map(_is_conversation, value)))


def _read(value: object, origin: Origin) -> list[Conversation]:
    return read_each(value, _is_conversation, _read_conversation, origin)


def _read_conversation(value: Mapping[str, Any], origin: Origin) -> Conversation:
    conversation = Conversation(origin.zone, value.get("conversation_id") or value.get("id"))
    nodes = value["mapping"]
    for node in _path(nodes, value.get("current_node")):
        message = node.get("message")
        if isinstance(message, Mapping):
            _add(conversation, message)
        elif message is not None:
            conversation.skip("malformed message")
    return conversation


def _path(nodes: Mapping[str, Any], current: object) -> list[Mapping[str, Any]]:
    """Return the nodes from the root to the current node; without one, to the latest leaf."""
    known = {key: node for key, node in nodes.items() if isinstance(node, Mapping)}
    if not isinstance(current, str) or current not in known:
        parents = {node["parent"] for node in known.values() if isinstance(node.get("parent"), str)}
        leaves = [key for key in known if key not in parents] or list(known)
        current = max(leaves, key=lambda key: _created(known[key]))
    path: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(current, str) and current in known and current not in seen:
        seen.add(current)
        path.append(known[current])
        current = known[current].get("parent")
    return path[::-1]


def _created(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, Mapping) else None
    return float(time) if isinstance(time, int | float) and abs(time) < _LATEST else 0.0


def _add(conversation: Conversation, message: Mapping[str, Any]) -> None:
    author, content = message.get("author"), message.get("content")
    role = ROLES.get(str(author.get("role")).lower()) if isinstance(author, Mapping) else None
    if not isinstance(author, Mapping) or role is None or not isinstance(content, Mapping):
        conversation.skip("malformed message")
        return
    metadata = message.get("metadata")
    hidden = isinstance(metadata, Mapping) and metadata.get("is_visually_hidden_from_conversation") is True
    kind = str(content.get("content_type"))
    if hidden or kind in _CONTEXT:
        conversation.skip("hidden message")
        return
    if kind in _REASONING:
        conversation.skip("reasoning block")
        return
    text = _text(content, conversation)
    recipient = message.get("recipient")
    if role == "assistant" and isinstance(recipient, str) and recipient not in ("", "all"):
        text = render_tool_call(recipient, text)
    conversation.add(
        role=role,
        content=text,
        name=author.get("name"),
        timestamp=message.get("create_time"),
        id=message.get("id"),
    )


def _text(content: Mapping[str, Any], conversation: Conversation) -> str:
    """Return a content's text: its parts (strings, and objects typed by `content_type`), or its one text."""
    parts = content.get("parts")
    if not isinstance(parts, list):
        return render_content(content.get("text") or content.get("result"), conversation.skip)
    blocks = [
        {**part, "type": part["content_type"]} if isinstance(part, Mapping) and "content_type" in part else part
        for part in parts
    ]
    return render_content(blocks, conversation.skip)


FORMAT: Format[object] = Format("ChatGPT export", _sniff, _read)
