"""Messages with a role and a content: LangChain's, OpenAI's, and what is dumped from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dualmem.cleaning import clean_label
from dualmem.loaders.content import ROLES, TOOL_RESULT_BLOCKS, block_type, render_message

if TYPE_CHECKING:
    from dualmem.loaders.conversation import Conversation
    from dualmem.records.turn import Role

TIMESTAMP_KEYS = ("timestamp", "created_at", "create_time", "date")
"""Where a message's time is looked for, first found first taken."""

_TYPE_SUFFIX = re.compile(r"message(?:chunk)?$")


def is_chat_message(value: object) -> bool:
    """Tell whether a JSON value looks like a message that `ChatReader` reads."""
    if not isinstance(value, Mapping):
        return False
    fields = _unwrap(value)
    who = isinstance(fields.get("role"), str) or _known_role(fields.get("type")) is not None
    return who and any(key in fields for key in ("content", "tool_calls", "function_call"))


class ChatReader:
    """Adds messages with a role and a content to a conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._tools: dict[str, str] = {}
        """Names of the tools called, by the id of the call: a result often has the id only."""

    def add(self, message: object, session: object = None) -> None:
        """Add one message; one without a role that can be told, or without a content, is counted.

        A role that no protocol knows ("moderator") is a speaker's name.
        """
        conversation = self._conversation
        if not isinstance(message, Mapping):
            conversation.skip("malformed message")
            return
        fields = _unwrap(message)
        role, speaker = _speaker(fields)
        if role is None or not any(key in fields for key in ("content", "tool_calls", "function_call")):
            conversation.skip("malformed message")
            return
        content = fields.get("content")
        if role == "user" and _only_results(content):
            role = "tool"
        conversation.add(
            role=role,
            content=self._text(fields, content),
            name=fields.get("name") or speaker or self._tool_name(fields),
            timestamp=_timestamp(fields),
            id=fields.get("id"),
            session=session if session is not None else fields.get("session"),
            injected=_is_injected(fields),
        )

    def _text(self, fields: Mapping[Any, Any], content: object) -> str:
        """Return the content's text or the tool calls, whose names are kept for their results."""
        calls = _tool_calls(fields)
        for call in calls:
            if isinstance(call, Mapping) and isinstance(call.get("id"), str):
                function = call.get("function")
                name = clean_label((function if isinstance(function, Mapping) else call).get("name"))
                if name:
                    self._tools[call["id"]] = name
        return render_message(content, calls, self._conversation.skip)

    def _tool_name(self, fields: Mapping[Any, Any]) -> str | None:
        call_id = fields.get("tool_call_id")
        return self._tools.get(call_id) if isinstance(call_id, str) else None


def _unwrap(message: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the fields of a message from one of LangChain's two ways to dump it, or as they are."""
    inner = message.get("data")
    if "content" not in message and isinstance(inner, Mapping):  # messages_to_dict
        return {"type": message.get("type"), **inner}
    inner = message.get("kwargs")
    if "lc" in message and isinstance(inner, Mapping):  # dumpd
        path = message.get("id")
        return {"type": path[-1] if isinstance(path, list) and path else None, **inner}
    return message


def _known_role(word: object) -> Role | None:
    if not isinstance(word, str):
        return None
    return ROLES.get(_TYPE_SUFFIX.sub("", word.strip().lower()))


def _speaker(fields: Mapping[Any, Any]) -> tuple[Role | None, str | None]:
    """Return the role, and the name if it is the role's word that gives one."""
    word = fields.get("role")
    if isinstance(word, str) and word.strip():
        known = _known_role(word)
        return (known, None) if known else ("user", clean_label(word))
    return _known_role(fields.get("type")), None


def _only_results(content: object) -> bool:
    """Tell whether a user message is Anthropic's way to hand over tool results."""
    return (
        isinstance(content, list | tuple)
        and bool(content)
        and all(block_type(block) in TOOL_RESULT_BLOCKS for block in content)
    )


def _tool_calls(fields: Mapping[Any, Any]) -> list[object]:
    """Return the tool calls: what LangChain parsed or could not, else raw ones, else the older single one."""
    raw = fields.get("additional_kwargs")
    raw = raw if isinstance(raw, Mapping) else {}
    parsed = [
        call
        for key in ("tool_calls", "invalid_tool_calls")
        if isinstance(fields.get(key), list | tuple)
        for call in fields[key]
    ]
    if parsed:
        return parsed
    if isinstance(raw.get("tool_calls"), list) and raw["tool_calls"]:
        return list(raw["tool_calls"])
    call = fields.get("function_call") or raw.get("function_call")
    return [call] if call else []


def _timestamp(fields: Mapping[Any, Any]) -> object:
    places = [fields]
    places += [fields[key] for key in ("additional_kwargs", "response_metadata", "metadata") if key in fields]
    for place in places:
        if isinstance(place, Mapping):
            for key in TIMESTAMP_KEYS:
                if place.get(key) not in (None, ""):
                    return place[key]
    return None


def _is_injected(fields: Mapping[Any, Any]) -> bool:
    """Tell whether memory itself marked the message as its own."""
    if fields.get("injected") is True:
        return True
    for key in ("additional_kwargs", "response_metadata", "metadata"):
        place = fields.get(key)
        mark = place.get("dualmem") if isinstance(place, Mapping) else None
        if isinstance(mark, Mapping) and mark.get("injected") is True:
            return True
    return False
