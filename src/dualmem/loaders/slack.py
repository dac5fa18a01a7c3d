"""Slack's export: a day of a channel, a channel's folder of days, or the folder of all channels."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dualmem.cleaning import clean_label
from dualmem.errors import InputError
from dualmem.loaders.conversation import Conversation, Format, Origin
from dualmem.loaders.reading import read_json

if TYPE_CHECKING:
    from pathlib import Path

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LINK = re.compile(r"<(?P<kind>[@#!]?)(?P<target>[^<>|\n]{1,2000})(?:\|(?P<label>[^<>\n]{0,2000}))?>")

# Messages that someone wrote; every other subtype is Slack's own note on joins, topics, pins and the like.
_SAID = frozenset({"bot_message", "me_message", "thread_broadcast", "file_share", "file_comment"})

Names = Mapping[str, str]
"""Members' names by their Slack ids."""


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "message" and "ts" in value


def _sniff(value: object) -> bool:
    return isinstance(value, list) and any(map(_is_message, value))


def _read(value: object, origin: Origin) -> list[Conversation]:
    conversation = Conversation(origin.zone)
    day = value if isinstance(value, list) else []
    names = {**_members(origin.path.parent), **_profiles(day)}
    session = origin.path.stem if _DAY.fullmatch(origin.path.stem) else None
    _add_day(conversation, day, names, session)
    return [conversation]


def read_folder(origin: Origin) -> list[Conversation]:
    """Read a channel's folder as one conversation, a day as a session; or each channel in a workspace's.

    Raises:
        InputError: A file in it cannot be read.
    """
    try:
        folders = [origin.path, *sorted(path for path in origin.path.iterdir() if path.is_dir())]
        days = {folder: sorted(folder.glob("*.json")) for folder in folders}
        # Below a folder that is no channel's, only what is named as Slack names days: it may be any folder.
        days = {
            folder: [path for path in paths if folder == origin.path or _DAY.fullmatch(path.stem)]
            for folder, paths in days.items()
        }
    except OSError as error:
        message = f"the folder {str(origin.path)!r} cannot be read ({error.strerror}); check its permissions"
        raise InputError(message) from error
    channels = (_read_channel(folder, days[folder], origin) for folder in folders)
    return [channel for channel in channels if channel is not None]


def _read_channel(folder: Path, days: Sequence[Path], origin: Origin) -> Conversation | None:
    """Return what was said in a channel, or None if no file in its folder is a day of Slack's."""
    conversation = Conversation(origin.zone, folder.name)
    parsed: list[tuple[str, list[Any]]] = []
    for path in days:
        value = read_json(path)
        if isinstance(value, list) and _sniff(value):
            parsed.append((path.stem, value))
        elif _DAY.fullmatch(path.stem):
            conversation.skip("unreadable day file")
    if not parsed:
        return None
    names = {**_members(folder), **_profiles([item for _, day in parsed for item in day])}
    for stem, day in parsed:
        _add_day(conversation, day, names, stem if _DAY.fullmatch(stem) else None)
    return conversation


def _add_day(conversation: Conversation, day: Sequence[object], names: Names, session: str | None) -> None:
    for item in day:
        if not isinstance(item, Mapping) or not _is_message(item):
            conversation.skip("malformed message")
            continue
        subtype = item.get("subtype")
        if subtype is not None and str(subtype) not in _SAID:
            conversation.skip("system line")
            continue
        files = item.get("files")
        conversation.skip("attachment", len(files) if isinstance(files, list) else 0)
        conversation.add(
            role="user",
            content=_plain(_text(item), names),
            name=_speaker(item, names),
            timestamp=item.get("ts"),
            # Unique in its channel, and what Slack itself links to.
            id=item.get("ts"),
            session=session,
        )


def _text(item: Mapping[str, Any]) -> str:
    """Return a message's text; for one without (bots, unfurled links), that of its attachments."""
    text = item.get("text")
    if isinstance(text, str) and text.strip():
        return text
    attached = item.get("attachments")
    texts = [
        next((part[key] for key in ("text", "fallback") if isinstance(part.get(key), str) and part[key]), "")
        for part in (attached if isinstance(attached, list) else [])
        if isinstance(part, Mapping)
    ]
    return "\n".join(filter(None, texts))


def _speaker(item: Mapping[str, Any], names: Names) -> str | None:
    user = clean_label(item.get("user")) or clean_label(item.get("bot_id"))
    return names.get(user or "") or clean_label(item.get("username")) or user


def _plain(text: str, names: Names) -> str:
    """Replace Slack's markup for members, channels and links by what a reader sees."""

    def replace(match: re.Match[str]) -> str:
        kind, target, label = match["kind"], match["target"], match["label"]
        if kind == "@":
            return "@" + (names.get(target) or label or target)
        if kind == "#":
            return "#" + (label or target)
        if kind == "!":
            return label or "@" + target.partition("^")[0]
        return f"{label} ({target})" if label and label not in target else target

    return html.unescape(_LINK.sub(replace, text))


def _profiles(day: Sequence[object]) -> Names:
    """Return the names that messages carry of those who wrote them."""
    found: dict[str, str] = {}
    for item in day:
        if isinstance(item, Mapping) and isinstance(item.get("user"), str):
            name = _name(item.get("user_profile"))
            if name:
                found[item["user"]] = name
    return found


def _members(folder: Path) -> Names:
    """Return the names in `users.json`, which an export has above its channels' folders."""
    for path in (folder / "users.json", folder.parent / "users.json"):
        value = read_json(path) if path.is_file() else None
        if isinstance(value, list):
            members = [member for member in value if isinstance(member, Mapping)]
            return {
                member["id"]: name
                for member in members
                if isinstance(member.get("id"), str) and (name := _name(member.get("profile")) or _name(member))
            }
    return {}


def _name(profile: object) -> str | None:
    if not isinstance(profile, Mapping):
        return None
    keys = ("display_name", "real_name", "name")
    return next((name for key in keys if (name := clean_label(profile.get(key)))), None)


FORMAT: Format[object] = Format("Slack export", _sniff, _read)
