"""LoCoMo (arXiv 2402.17753): one conversation object, or the official list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualmem.cleaning import clean_label
from dualmem.loaders.content import render_image
from dualmem.loaders.conversation import Conversation, Format, Origin, numbered_sessions, read_each


def _is_conversation(value: object) -> bool:
    return isinstance(value, Mapping) and (
        isinstance(value.get("conversation"), Mapping)
        and any(isinstance(turns, list) for _, turns in numbered_sessions(value["conversation"]))
    )


def _sniff(value: object) -> bool:
    return _is_conversation(value) or (isinstance(value, list) and any(map(_is_conversation, value)))


def _read(value: object, origin: Origin) -> list[Conversation]:
    return read_each(value, _is_conversation, _read_conversation, origin)


def _read_conversation(value: Mapping[str, Any], origin: Origin) -> Conversation:
    """Read one conversation; every turn has its session's time, as turns have none of their own."""
    conversation = Conversation(origin.zone, value.get("sample_id"))
    sessions = value["conversation"]
    for key, turns in numbered_sessions(sessions):
        if not isinstance(turns, list):
            conversation.skip("malformed session")
            continue
        for turn in turns:
            add_turn(conversation, turn, key, text_key="text", timestamp=sessions.get(f"{key}_date_time"))
    dated = [key.removesuffix("_date_time") for key in sessions if str(key).endswith("_date_time")]
    conversation.skip("session without turns", sum(not sessions.get(key) for key in dated))
    return conversation


def add_turn(conversation: Conversation, turn: object, session: str, *, text_key: str, timestamp: object) -> None:
    """Add a turn between people: its text, and what an image in it shows.

    The captions of LoCoMo and REALTALK are in `blip_caption`.
    """
    speaker = clean_label(turn.get("speaker")) if isinstance(turn, Mapping) else None
    if not isinstance(turn, Mapping) or speaker is None:
        conversation.skip("malformed message")
        return
    said, caption = turn.get(text_key), turn.get("blip_caption")
    lines = [said] if isinstance(said, str) else []
    if isinstance(said, int | float):
        lines = [clean_label(said) or ""]
    if isinstance(caption, str) and caption.strip():
        lines.append(render_image(caption.strip()))
    elif turn.get("img_url") or turn.get("img_file"):
        conversation.skip("image without a caption")
    conversation.add(
        role="user",
        content=" ".join(line.strip() for line in lines if line.strip()),
        name=speaker,
        timestamp=timestamp,
        id=turn.get("dia_id"),
        session=session,
    )


FORMAT: Format[object] = Format("LoCoMo", _sniff, _read)
