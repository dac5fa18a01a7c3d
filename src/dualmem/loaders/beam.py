"""BEAM (arXiv 2510.27246): `chat.json`, batches of turns between a user and an assistant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dualmem.loaders.chat import ChatReader
from dualmem.loaders.conversation import Conversation, Format, Origin

# The generator's bookkeeping at the end of a user's message: "->-> 1,3", "->-> 2,N/A", "->-> 1,5)".
_MARKER = re.compile(r"->->[\s\d,.()/NA-]{0,20}\Z")


def _is_batch(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("turns"), list)


def _sniff(value: object) -> bool:
    return isinstance(value, list) and any(map(_is_batch, value))


def _read(value: object, origin: Origin) -> list[Conversation]:
    """Read all batches as one conversation, a batch as a session.

    Only the first message of a batch carries its `time_anchor`; the day holds for the batch.
    """
    # Every BEAM file is called chat.json; its folder's number tells the chats apart.
    folder = origin.path.parent.name
    own_id = f"{origin.path.stem}-{folder}" if folder.isdecimal() else None
    conversation = Conversation(origin.zone, own_id)
    reader = ChatReader(conversation)
    for position, batch in enumerate(value if isinstance(value, list) else [], start=1):
        if not _is_batch(batch):
            conversation.skip("malformed session")
            continue
        conversation.skip("session without turns", int(not batch["turns"]))
        number = batch.get("batch_number")
        session = f"batch_{number if isinstance(number, int) else position}"
        anchor = batch.get("time_anchor")
        for turn in _turns(batch["turns"]):
            if not isinstance(turn, Mapping):
                conversation.skip("malformed message")
                continue
            anchor = turn.get("time_anchor") or anchor
            content = turn.get("content")
            if isinstance(content, str):
                content = _MARKER.sub("", content)
            reader.add({**turn, "content": content, "timestamp": anchor}, session)
    return [conversation]


def _turns(groups: list[object]) -> Iterator[object]:
    for group in groups:
        if isinstance(group, list):
            yield from group
        else:
            yield group


FORMAT: Format[object] = Format("BEAM", _sniff, _read)
