"""REALTALK (arXiv 2502.13270): a chat of two people over weeks, each message with its time."""

from __future__ import annotations

from collections.abc import Mapping

from dualmem.loaders.conversation import Conversation, Format, Origin, numbered_sessions
from dualmem.loaders.locomo import add_turn


def _sniff(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(turn, Mapping) and "clean_text" in turn
        for _, turns in numbered_sessions(value)
        if isinstance(turns, list)
        for turn in turns
    )


def _read(value: object, origin: Origin) -> list[Conversation]:
    conversation = Conversation(origin.zone)
    for key, turns in numbered_sessions(value if isinstance(value, Mapping) else {}):
        if not isinstance(turns, list):
            conversation.skip("malformed session")
            continue
        conversation.skip("session without turns", int(not turns))
        for turn in turns:
            time = turn.get("date_time") if isinstance(turn, Mapping) else None
            add_turn(conversation, turn, key, text_key="clean_text", timestamp=time)
    return [conversation]


FORMAT: Format[object] = Format("REALTALK", _sniff, _read)
