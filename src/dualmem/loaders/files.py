"""Read a conversation's file in whichever of the known formats it is, told by its content."""

from __future__ import annotations

import reprlib
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from dualmem.cleaning import clean_label
from dualmem.errors import EmptyConversation, InputError, UnknownFormat
from dualmem.loaders import beam, chatgpt, claude, locomo, markdown, plain, realtalk, slack, whatsapp
from dualmem.loaders.conversation import Conversation, Format, Origin
from dualmem.loaders.reading import Document, decode, parse, read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dualmem.records.turn import Transcript

_JSON_FORMATS: tuple[Format[object], ...] = (
    locomo.FORMAT,
    realtalk.FORMAT,
    beam.FORMAT,
    plain.STRUCTMEMEVAL,
    chatgpt.FORMAT,
    claude.FORMAT,
    slack.FORMAT,
    plain.FORMAT,
)
_TEXT_FORMATS: tuple[Format[str], ...] = (whatsapp.FORMAT, markdown.FORMAT)

FORMATS: tuple[str, ...] = tuple(known.name for known in _JSON_FORMATS) + tuple(known.name for known in _TEXT_FORMATS)
"""Names of the formats that are known, in the order they are tried."""


def load_file(
    path: Path,
    *,
    conversation_id: str | None = None,
    timezone: tzinfo = UTC,
    limit_sessions: int | None = None,
) -> list[Transcript]:
    """Return the conversations in a file, or in the folder of a Slack export.

    Args:
        path: The file; its name does not matter, its content tells the format.
        conversation_id: What to call the conversation; with several in the file, each also gets its number
            there. Without it a conversation has the id that the file gives it, else the file's name.
        timezone: The zone of times that name none.
        limit_sessions: Keep only the first sessions of each conversation, in a format that has sessions.

    Raises:
        InputError: The path leads to nothing that can be read, or an argument cannot be.
        UnknownFormat: The file is in none of `FORMATS`.
        EmptyConversation: There is no message in it.
    """
    if limit_sessions is not None and limit_sessions < 1:
        message = f"limit_sessions must be at least 1, not {limit_sessions!r}; leave it out to read every session"
        raise InputError(message)
    chosen = clean_label(conversation_id) if isinstance(conversation_id, str) else None
    if conversation_id is not None and chosen is None:
        message = (
            f"a conversation id must be a non-blank string, not {reprlib.repr(conversation_id)}; "
            "leave it out to take the file's own"
        )
        raise InputError(message)
    origin = Origin(path=_absolute(path), zone=timezone)
    source, conversations = _read_folder(origin) if _is_folder(origin.path) else _read_file(origin)
    for conversation in conversations if limit_sessions is not None else []:
        conversation.keep_sessions(limit_sessions or 1)
    return _name_all(conversations, chosen, origin.path, source)


def _absolute(path: Path) -> Path:
    try:
        return Path(path).absolute()
    except OSError as error:  # the working folder is gone
        message = f"{str(path)!r} is relative to a folder that is gone ({error.strerror}); give the whole path"
        raise InputError(message) from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # reading it gives the reason
        return False


def _read_folder(origin: Origin) -> tuple[str, list[Conversation]]:
    conversations = slack.read_folder(origin)
    if not conversations:
        message = (
            f"{str(origin.path)!r} is a folder and holds no day of a {slack.FORMAT.name}; "
            "give one file of a conversation"
        )
        raise InputError(message)
    return slack.FORMAT.name, conversations


def _read_file(origin: Origin) -> tuple[str, list[Conversation]]:
    shown = repr(str(origin.path))
    decoded = decode(read_bytes(origin.path))
    if decoded is None:
        message = (
            f"{shown} is no text in UTF-8 or UTF-16; looked for {_looked_for()}; save it as UTF-8 if it is one of them"
        )
        raise UnknownFormat(message)
    document = parse(*decoded)
    if (document.is_json and document.value in ([], {}, "")) or not document.text.strip():
        raise _nothing_in(origin.path)
    source, conversations = _recognise(document, origin)
    conversations[0].skip("undecodable byte", document.undecodable)
    conversations[0].skip("malformed line", document.malformed_lines)
    return source, conversations


def _recognise(document: Document, origin: Origin) -> tuple[str, list[Conversation]]:
    """Read the document by the first format whose content it has."""
    if document.is_json:
        for json_format in _JSON_FORMATS:
            if json_format.sniff(document.value):
                return json_format.name, json_format.read(document.value, origin)
    else:
        for text_format in _TEXT_FORMATS:
            if text_format.sniff(document.text):
                return text_format.name, text_format.read(document.text, origin)
    shown = repr(str(origin.path))
    if document.flaw:
        message = (
            f"{shown} begins like JSON but is not ({document.flaw}), nor is it any other of {_looked_for()}; "
            "check that it is complete"
        )
    else:
        message = f"{shown} is in no known format; looked for {_looked_for()}; convert it to one of them"
    raise UnknownFormat(message)


def _looked_for() -> str:
    return ", ".join(FORMATS)


def _name_all(conversations: Sequence[Conversation], chosen: str | None, path: Path, source: str) -> list[Transcript]:
    """Return the transcripts of all conversations with a message, each under an id of its own."""
    filled = [(number, each) for number, each in enumerate(conversations, start=1) if each.messages]
    if not filled:
        raise _nothing_in(path, conversations)
    filled[0][1].skip("conversation without messages", len(conversations) - len(filled))
    several = len(conversations) > 1
    fallback = chosen or clean_label(path.stem) or "conversation"
    taken: set[str] = set()
    transcripts: list[Transcript] = []
    for number, conversation in filled:
        own = None if chosen else conversation.own_id
        label = own or (f"{fallback}-{number}" if several else fallback)
        if label in taken:  # the same id twice in one file
            label = f"{label}-{number}"
        while label in taken:
            label += "'"
        taken.add(label)
        transcripts.append(conversation.transcript(label, source))
    return transcripts


def _nothing_in(path: Path, conversations: Sequence[Conversation] = ()) -> EmptyConversation:
    counts = [f"{count} {reason}" for each in conversations for reason, count in each.skipped.items()]
    left_out = f" (left out: {', '.join(counts[:10])})" if counts else ""
    return EmptyConversation(f"there is no message in {str(path)!r}{left_out}; check that it is the right file")
