"""Erase what a user wants erased, with everything that came from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dualmem.context import Context
from dualmem.errors import InputError, NotFound
from dualmem.ingestion.rejections import touching
from dualmem.lifecycle import WorkingSet
from dualmem.records import ForgetReceipt, Memory, Rejection, Turn
from dualmem.stores.commit import Commit
from dualmem.stores.payload import WINDOW, of_user


@dataclass(frozen=True, slots=True)
class Selection:
    """What to erase: exactly one of a memory, a turn, a conversation, a time, or everything."""

    memory_id: str | None = None
    turn_id: str | None = None
    conversation_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    everything: bool = False

    def check(self) -> None:
        """Refuse a selection that names nothing, or several things.

        Raises:
            InputError: It does.
        """
        named = [
            self.memory_id is not None,
            self.turn_id is not None,
            self.conversation_id is not None,
            self.since is not None or self.until is not None,
            self.everything,
        ]
        if sum(named) != 1:
            message = (
                f"{sum(named)} things to forget are named; name one: a memory, a turn, a conversation, a time, "
                f"or everything"
            )
            raise InputError(message)

    def covers(self, turn: Turn) -> bool:
        """Whether `turn` is to be erased."""
        if self.everything:
            return True
        if self.since is not None or self.until is not None:
            said = turn.said_at or turn.recorded_at
            return (self.since is None or said >= self.since) and (self.until is None or said <= self.until)
        return turn.id == self.turn_id or turn.conversation_id == self.conversation_id


async def forget(selection: Selection, user_id: str, context: Context) -> ForgetReceipt:
    """Erase what `selection` names, as one commit.

    The neighbours of an erased turn are indexed anew, since their vectors held its words, and the embedding cache
    is dropped.

    Raises:
        InputError: The selection names nothing, or several things.
        NotFound: This user has no such memory or turn.
    """
    selection.check()
    store = context.store
    if not await store.open(create=False):
        return _nothing(selection, user_id)
    async with store.writer(user_id):
        turns = await store.turns(user_id)
        gone = {turn.id for turn in turns if selection.covers(turn)}
        memories = {memory.id: memory for memory in await store.memories(of_user(user_id))}
        doomed, thinned = _affected(selection, gone, memories)
        rejected = _rejected(selection, gone, await store.rejections(user_id))
        if not (gone or doomed or rejected):
            return _nothing(selection, user_id)
        working = WorkingSet()
        working.load(memories.values())
        for memory_id in doomed:
            if memory_id in working.memories:
                working.remove(memory_id)
        for memory_id in thinned:
            if memory_id in working.memories:
                working.drop_sources(memory_id, gone)
        removed = memories.keys() - working.memories.keys()
        restored = [key for key, one in working.memories.items() if one.active and not memories[key].active]
        await store.commit(
            Commit(
                user_id,
                changed=tuple(working.memories[memory_id] for memory_id in working.changed),
                forgotten_ids=tuple(sorted(removed)),
                forgotten_turn_ids=tuple(sorted(gone)),
                forgotten_rejection_ids=tuple(rejected),
            )
        )
        context.embedder.forget()
        await _reindex_neighbours(turns, gone, user_id, context)
    return ForgetReceipt(
        user_id=user_id,
        turns=len(gone),
        memories=len(removed),
        sources=len([key for key in thinned if key in working.memories]),
        rejections=len(rejected),
        restored=len(restored),
    )


def _affected(selection: Selection, gone: set[str], memories: dict[str, Memory]) -> tuple[list[str], list[str]]:
    """Return the memories that go, and those that only lose a source."""
    if selection.memory_id is not None:
        return ([selection.memory_id] if selection.memory_id in memories else []), []
    doomed, thinned = [], []
    for memory in memories.values():
        lost = gone & set(memory.turn_ids)
        # What was written for several memories holds the words of each.
        written = bool(lost) and memory.origin == "merge"
        if selection.everything or written or (lost and lost == set(memory.turn_ids)):
            doomed.append(memory.id)
        elif lost:
            thinned.append(memory.id)
    return doomed, thinned


def _rejected(selection: Selection, gone: set[str], rejections: list[Rejection]) -> list[str]:
    """Return the rejected drafts that go: those that may hold words of what does."""
    named = selection.conversation_id
    whole = [one.id for one in rejections if selection.everything or named == one.conversation_id]
    return list(dict.fromkeys([*whole, *touching(rejections, gone)]))


def _nothing(selection: Selection, user_id: str) -> ForgetReceipt:
    named = selection.memory_id or selection.turn_id
    if named is not None:
        message = f"user {user_id!r} has no memory or turn {named!r}"
        raise NotFound(message)
    return ForgetReceipt(user_id=user_id)


async def _reindex_neighbours(turns: list[Turn], gone: set[str], user_id: str, context: Context) -> None:
    by_conversation: dict[str, list[Turn]] = {}
    for turn in turns:
        by_conversation.setdefault(turn.conversation_id, []).append(turn)
    for conversation_id, row in by_conversation.items():
        near = {
            row[other].id
            for place, turn in enumerate(row)
            if turn.id in gone
            for other in range(max(0, place - WINDOW), min(len(row), place + WINDOW + 1))
        } - gone
        if near:
            await context.store.unindex_turns(sorted(near))
            await context.store.index_turns(user_id, conversation_id)
