"""What every loader works with: where a text comes from, and the conversation it fills."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dualmem.cleaning import INJECTED_CLOSE, INJECTED_OPEN, MAX_LABEL, clean_label, clean_text, split_injected
from dualmem.loaders.times import parse_timestamp
from dualmem.records.turn import Message, Role, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

ContentT = TypeVar("ContentT")


@dataclass(frozen=True)
class Origin:
    """Where what is read comes from, and how its times are to be taken."""

    path: Path
    """Absolute."""
    zone: tzinfo
    """The zone of times that name none."""


@dataclass(frozen=True)
class Format(Generic[ContentT]):
    """One format that is known; its content is a parsed JSON value (object) or a text (str)."""

    name: str
    """As the documentation names it."""
    sniff: Callable[[ContentT], bool]
    """Tell by its content whether a file is in this format."""
    read: Callable[[ContentT, Origin], list[Conversation]]


class Conversation:
    """One conversation while it is read: cleans each message, and counts what is left out."""

    def __init__(self, zone: tzinfo, own_id: object = None) -> None:
        self.own_id = clean_label(own_id)
        """The id that the file itself gives it."""
        self.messages: list[Message] = []
        self.skipped: Counter[str] = Counter()
        self._zone = zone

    def skip(self, reason: str, count: int = 1) -> None:
        """Count something that is left out."""
        if count:
            self.skipped[reason] += count

    def add(
        self,
        *,
        role: Role,
        content: str,
        name: object = None,
        timestamp: object = None,
        id: object = None,  # noqa: A002 - the record's name for it
        session: object = None,
        injected: bool = False,
    ) -> None:
        """Add a message as its source has it; one with nothing in it is counted and left out.

        Text between our fence markers is taken out; if nothing else is in the message, it is kept as
        `injected`. A timestamp that cannot be read is counted, and its message kept without one.
        """
        if injected:
            text = clean_text(content.replace(INJECTED_OPEN, "").replace(INJECTED_CLOSE, ""))
        else:
            said, memories = split_injected(content)
            text, remembered = clean_text(said), clean_text(memories)
            if not text and remembered:
                text, injected = remembered, True
            elif remembered:
                self.skip("injected memories")
        if not text:
            self.skip("empty message")
            return
        moment = None
        if timestamp not in (None, ""):
            moment = parse_timestamp(timestamp, self._zone)
            self.skip("unreadable timestamp", int(moment is None))
        speaker = clean_label(name)
        self.messages.append(
            Message(
                role=role,
                content=text,
                name=speaker and speaker[:MAX_LABEL].strip(),
                timestamp=moment,
                id=clean_label(id),
                session=clean_label(session),
                injected=injected,
            )
        )

    def keep_sessions(self, limit: int) -> None:
        """Keep the first `limit` sessions in the order they stand; without sessions, everything."""
        kept = in_first_sessions(self.messages, limit)
        self.skip("message beyond the session limit", len(self.messages) - len(kept))
        self.messages = kept

    def transcript(self, conversation_id: str, source: str) -> Transcript:
        """Return what was read."""
        return Transcript(
            conversation_id=conversation_id,
            messages=tuple(self.messages),
            source=source,
            skipped=dict(self.skipped),
        )


def in_first_sessions(messages: Sequence[Message], limit: int) -> list[Message]:
    """Return the messages of the first `limit` sessions in the order they stand, and those outside any session."""
    sessions = list(dict.fromkeys(message.session for message in messages if message.session is not None))
    beyond = set(sessions[limit:])
    return [message for message in messages if message.session not in beyond]


def read_each(
    value: object,
    is_one: Callable[[object], bool],
    read_one: Callable[[Any, Origin], Conversation],
    origin: Origin,
) -> list[Conversation]:
    """Read a conversation or a list of them; entries that are none are counted in the first."""
    items = value if isinstance(value, list) else [value]
    conversations = [read_one(item, origin) for item in items if is_one(item)]
    conversations[0].skip("malformed conversation", len(items) - len(conversations))
    return conversations


def numbered_sessions(mapping: Mapping[object, object]) -> list[tuple[str, object]]:
    """Return the entries `session_1`, `session_2`, ... of LoCoMo and REALTALK, ordered by number."""
    found: list[tuple[int, str, object]] = []
    for key, value in mapping.items():
        if isinstance(key, str) and key.startswith("session_"):
            number = key.removeprefix("session_")
            if number.isascii() and number.isdecimal() and len(number) < len("1000000"):
                found.append((int(number), key, value))
    return [(key, value) for _, key, value in sorted(found, key=lambda entry: entry[0])]
