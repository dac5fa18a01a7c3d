"""JSON or JSON Lines of messages with `role` and `content`; StructMemEval's cases are built of them."""

from __future__ import annotations

from collections.abc import Mapping

from dualmem.cleaning import clean_label
from dualmem.loaders.chat import TIMESTAMP_KEYS, ChatReader, is_chat_message
from dualmem.loaders.conversation import Conversation, Format, Origin

_ID_KEYS = ("conversation_id", "case_id", "thread_id", "id")
_SESSION_ID_KEYS = ("session_id", "session", "id")


def _has_sessions(value: object) -> bool:
    return isinstance(value, Mapping) and (
        isinstance(value.get("sessions"), list)
        and any(isinstance(part, Mapping) and isinstance(part.get("messages"), list) for part in value["sessions"])
    )


def _is_conversation(value: object) -> bool:
    return _has_sessions(value) or (isinstance(value, Mapping) and isinstance(value.get("messages"), list))


def _sniff_case(value: object) -> bool:
    return isinstance(value, Mapping) and "case_id" in value and _has_sessions(value)


def _sniff(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(is_chat_message(item) or _is_conversation(item) for item in items)


def _read(value: object, origin: Origin) -> list[Conversation]:
    """Read one conversation from a list of messages, or one from each object that holds messages."""
    items = value if isinstance(value, list) else [value]
    loose = Conversation(origin.zone)
    reader = ChatReader(loose)
    conversations: list[Conversation] = []
    for item in items:
        if isinstance(item, Mapping) and _is_conversation(item):
            conversations.append(_read_object(item, origin))
        else:
            reader.add(item)
    if loose.messages or not conversations:
        return [loose, *conversations]
    conversations[0].skipped.update(loose.skipped)
    return conversations


def _read_object(value: Mapping[str, object], origin: Origin) -> Conversation:
    conversation = Conversation(origin.zone, _first_label(value, _ID_KEYS))
    reader = ChatReader(conversation)
    messages, sessions = value.get("messages"), value.get("sessions")
    for message in messages if isinstance(messages, list) else []:
        reader.add(message)
    for position, session in enumerate(sessions if isinstance(sessions, list) else [], start=1):
        said = session.get("messages") if isinstance(session, Mapping) else None
        if not isinstance(session, Mapping) or not isinstance(said, list):
            conversation.skip("malformed session")
            continue
        conversation.skip("session without turns", int(not said))
        label = _first_label(session, _SESSION_ID_KEYS) or f"session_{position}"
        time = next((session[key] for key in TIMESTAMP_KEYS if session.get(key)), None)
        for message in said:
            undated = isinstance(message, Mapping) and not any(message.get(key) for key in TIMESTAMP_KEYS)
            # A message without a time of its own was said in its session.
            reader.add({**message, "timestamp": time} if undated and time is not None else message, label)
    return conversation


def _first_label(value: Mapping[str, object], keys: tuple[str, ...]) -> str | None:
    return next((label for key in keys if (label := clean_label(value.get(key))) is not None), None)


STRUCTMEMEVAL: Format[object] = Format("StructMemEval", _sniff_case, _read)
FORMAT: Format[object] = Format("messages as JSON or JSON Lines", _sniff, _read)
