"""Write all that is remembered of a user as JSON lines, and read it back (docs/transfer.md has the format)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from dualmem.config import describe_validation
from dualmem.context import Context
from dualmem.errors import InputError
from dualmem.identity import stable_id
from dualmem.ingestion.placing import place
from dualmem.mending import mend
from dualmem.records import ExportHeader, ImportReceipt, Link, Memory, Turn
from dualmem.stores.backend import batches
from dualmem.stores.commit import Commit
from dualmem.stores.payload import of_user

_TEXTS: Final = ("text", "subject", "attribute", "topic")
"""Fields of a memory that hold words of what was said."""

AT_ONCE: Final = 500
"""Memories in one commit."""


async def exported(user_id: str, context: Context) -> AsyncIterator[str]:
    """Yield the lines of an export: a header, the turns conversation by conversation, the memories as they were told.

    Vectors are not part of it: whoever imports has an embedding model of their own.
    """
    store = context.store
    turns: list[Turn] = []
    memories: list[Memory] = []
    if await store.open(create=False):
        turns = await store.turns(user_id)
        memories = await store.memories(of_user(user_id))
    header = ExportHeader(user_id=user_id, exported_at=datetime.now(UTC), turns=len(turns), memories=len(memories))
    yield header.model_dump_json()
    for turn in turns:
        yield _line("turn", turn)
    for memory in memories:
        yield _line("memory", memory)


def _line(kind: str, record: Turn | Memory) -> str:
    return json.dumps({"type": kind, **record.model_dump(mode="json", exclude_none=True)}, ensure_ascii=False)


def is_export(first_line: str) -> bool:
    """Whether a file that starts with `first_line` is an export of dualmem."""
    try:
        value = json.loads(first_line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("type") == "dualmem-export"


async def import_lines(lines: Iterable[str], context: Context, *, user_id: str = "") -> ImportReceipt:
    """Store what an export holds; everything is read and checked before anything is written.

    What is there already stays as it is, so that an import can be repeated. Texts are redacted as others are. For
    another user than the one the export names, turns and memories get ids of that user's.

    Args:
        lines: The lines of an export.
        context: Where to.
        user_id: Whose memory it becomes; by default the one whose it was.

    Raises:
        InputError: A line is no part of an export, or some are missing.
        ModelUnavailable: The embedding model failed; the import can be repeated.
    """
    header, turns, memories = _read(lines)
    owner = user_id or header.user_id
    if owner != header.user_id:
        turns, memories = _given_to(owner, turns, memories)
    turns, memories = await _redacted(turns, memories, context)
    store = context.store
    async with store.writer(owner):
        fresh = 0
        for conversation_id in dict.fromkeys(turn.conversation_id for turn in turns):
            sent = [turn for turn in turns if turn.conversation_id == conversation_id]
            placed = place(await store.turns(owner, conversation_id=conversation_id), sent)
            await store.move_turns(placed.moved)
            fresh += len(await store.add_turns(placed.fresh))
            await store.index_turns(owner, conversation_id)
        there = {memory.id: memory for memory in await store.memories(of_user(owner))}
        new = {memory.id: memory for memory in memories if memory.id not in there}
        mended = {memory.id: memory for memory in mend([*there.values(), *new.values()], at=datetime.now(UTC))}
        new = {key: mended.get(key, memory) for key, memory in new.items()}
        for batch in batches(list(new.values()), AT_ONCE):
            await store.commit(Commit(owner, new=tuple(batch)))
        await store.commit(Commit(owner, changed=tuple(mended[key] for key in mended if key in there)))
    return ImportReceipt(
        user_id=owner,
        turns_stored=fresh,
        turns_known=len(turns) - fresh,
        memories_stored=len(new),
        memories_known=len(memories) - len(new),
        links_mended=len(mended),
    )


async def _redacted(turns: list[Turn], memories: list[Memory], context: Context) -> tuple[list[Turn], list[Memory]]:
    """Return everything as it may be stored here, with each text as a function for personal data leaves it."""
    told = [turn.text for turn in turns]
    told += [text for memory in memories for text in _texts(memory)]
    distinct = list(dict.fromkeys(told))
    kept = dict(zip(distinct, await context.resources.redacted(distinct), strict=True))
    if all(text == left for text, left in kept.items()):
        return turns, memories

    def of_link(link: Link) -> Link:
        replaced = None if link.replaced is None else of_link(link.replaced)
        return link.model_copy(update={"reason": kept[link.reason], "replaced": replaced})

    return [turn.model_copy(update={"text": kept[turn.text]}) for turn in turns], [
        memory.model_copy(
            update={
                **{name: kept[getattr(memory, name)] for name in _TEXTS},
                "entities": tuple(kept[name] for name in memory.entities),
                "sources": tuple(one.model_copy(update={"quote": kept[one.quote]}) for one in memory.sources),
                "links": tuple(of_link(link) for link in memory.links),
            }
        )
        for memory in memories
    ]


def _texts(memory: Memory) -> Iterator[str]:
    yield from (getattr(memory, name) for name in _TEXTS)
    yield from memory.entities
    yield from (source.quote for source in memory.sources)
    links = list(memory.links)
    while links:
        link = links.pop()
        yield link.reason
        if link.replaced is not None:
            links.append(link.replaced)


def _read(lines: Iterable[str]) -> tuple[ExportHeader, list[Turn], list[Memory]]:
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    header: ExportHeader | None = None
    turns: dict[str, Turn] = {}
    memories: dict[str, Memory] = {}
    for number, value in _values(numbered):
        kind = value.pop("type", None)
        try:
            if header is None:
                header = ExportHeader.model_validate({"type": kind, **value})
            elif kind == "turn":
                turn = Turn.model_validate(value)
                turns[turn.id] = turn
            elif kind == "memory":
                memory = Memory.model_validate(value)
                memories[memory.id] = memory
            else:
                message = f"line {number} has the type {kind!r}; an export holds turns and memories"
                raise InputError(message)
        except ValidationError as error:
            message = f"line {number} is no part of an export of version 1: {describe_validation(error)}"
            raise InputError(message) from error
    if header is None:
        message = "there is nothing in the export; its first line should be its header"
        raise InputError(message)
    if (len(turns), len(memories)) != (header.turns, header.memories):
        message = (
            f"the export should hold {header.turns} turns and {header.memories} memories, and holds {len(turns)} and "
            f"{len(memories)}: it is cut off or was changed"
        )
        raise InputError(message)
    return header, list(turns.values()), list(memories.values())


def _values(numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            message = f"line {number} is no JSON: {error}"
            raise InputError(message) from error
        if not isinstance(value, dict):
            message = f"line {number} is no JSON object"
            raise InputError(message)
        yield number, value


def _given_to(user_id: str, turns: list[Turn], memories: list[Memory]) -> tuple[list[Turn], list[Memory]]:
    """Return everything as another user's: the ids of two users never meet."""
    ids = {key: stable_id("given", user_id, key) for key in [*(one.id for one in turns), *(one.id for one in memories)]}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [renamed(inner) for inner in value]
        return ids.get(value, value) if isinstance(value, str) else value

    def given(record: Any) -> dict[str, Any]:
        # Only what refers to a record: a text could be an id by chance.
        dumped: dict[str, Any] = record.model_dump(mode="json")
        moved = {key: renamed(value) for key, value in dumped.items() if key in {"id", "sources", "links"}}
        return {**dumped, **moved, "user_id": user_id}

    return [Turn.model_validate(given(one)) for one in turns], [Memory.model_validate(given(one)) for one in memories]
