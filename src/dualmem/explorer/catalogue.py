"""Read a store for the pages: users, pages of memories, a memory with all it is related to, a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dualmem.errors import NotFound, StoreError
from dualmem.explorer.drawing import Span
from dualmem.explorer.holding import held_page
from dualmem.explorer.marking import Piece, marked
from dualmem.explorer.views import PAGE, View, dated_in
from dualmem.memory import DualMem
from dualmem.records import Link, Memory, Rejection, Turn
from dualmem.retrieval.units import chain_of
from dualmem.stores.backend import Condition, Filter
from dualmem.stores.listing import TimeField
from dualmem.stores.payload import is_any, of_user

USERS_ON_PAGE: Final = 50
TURNS_ON_PAGE: Final = 100
CONVERSATIONS_ON_PAGE: Final = 100
OFFERED: Final = 300
"""Most values a field of a form offers."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user, with what is stored of them."""

    user_id: str
    turns: int
    memories: int
    active: int
    superseded: int
    contradicted: int
    pending: int
    conversations: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Offers:
    """What the filters of a user's memories can be set to, with the number of memories each."""

    kinds: Mapping[str, int]
    entities: Mapping[str, int]
    topics: Mapping[str, int]
    conversations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SourceView:
    """A turn that a memory comes from, the words marked, between the turns around it."""

    turn: Turn
    pieces: tuple[Piece, ...]
    before: Turn | None = None
    after: Turn | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """A memory that another is linked to, with the link and where it comes from."""

    memory: Memory
    link: Link
    sources: tuple[SourceView, ...] = ()


@dataclass(frozen=True, slots=True)
class Portrait:
    """A memory with everything that explains it."""

    memory: Memory
    sources: tuple[SourceView, ...]
    chain: tuple[Memory, ...]
    """From the earliest state to the one in force; the memory alone where nothing changed."""
    reasons: Mapping[str, Link]
    """Why each state of the chain was replaced, by its id."""
    retired: Related | None
    """What replaced it, and why."""
    replaced: Related | None
    """What it replaced, and why."""
    contradictions: tuple[Related, ...]
    partners: tuple[Related, ...]


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn with the memories it gave rise to, and what was rejected."""

    turn: Turn
    pieces: tuple[Piece, ...]
    memories: tuple[Memory, ...]
    rejected: tuple[Rejection, ...] = ()
    """Drafts that cite it."""
    uncited: tuple[Rejection, ...] = ()
    """Drafts that cite no turn; this one was the last that was read for them."""


class Catalogue:
    """What the pages show of one memory's store. Nothing is created by looking."""

    def __init__(self, memory: DualMem) -> None:
        self.memory = memory
        self._store = memory.resources.store

    async def exists(self) -> bool:
        """Whether there is a store at all.

        Raises:
            StoreError: It cannot be read.
        """
        return await self._store.open(create=False)

    async def users(self) -> list[str]:
        """Return all users, in order."""
        if not await self.exists():
            return []
        told = await self._store.users()
        # Memories that were imported have no turns.
        remembered = await self._store.listing.values("user_id", Filter())
        return sorted({*told, *remembered}, key=lambda name: (name.casefold(), name))

    async def user(self, user_id: str) -> UserRow:
        """Return a user with what is stored of them.

        Raises:
            NotFound: Nothing is.
        """
        turns, memories = await self._store.count(user_id) if await self.exists() else (0, 0)
        if not turns and not memories:
            message = f"nothing is stored of a user {user_id!r}"
            raise NotFound(message)
        listing, where = self._store.listing, of_user(user_id)
        states = await listing.values("state", where)
        span = await self.told(user_id)
        return UserRow(
            user_id=user_id,
            turns=turns,
            memories=memories,
            active=states.get("active", 0),
            superseded=states.get("superseded", 0),
            contradicted=await listing.count(of_user(user_id, is_any("relations", "contradicts"))),
            pending=await listing.turn_count(user_id, ("pending",)),
            conversations=len(await self._store.conversations(user_id)),
            first=span.start if span else None,
            last=span.end if span else None,
        )

    async def told(self, user_id: str) -> Span | None:
        """Return when a user's first and last memory were told; None where there is none."""
        first = await self._edge(user_id, "known_at")
        last = await self._edge(user_id, "known_at", latest=True)
        return Span(first.known_at, last.known_at) if first and last else None

    async def dated(self, user_id: str) -> Span | None:
        """Return from when to when the dates of a user's memories go; None where none has any."""
        fields: tuple[TimeField, ...] = ("valid_start", "valid_end")
        ends = [await self._edge(user_id, field, latest=latest) for field in fields for latest in (False, True)]
        instants = [
            instant
            for memory in ends
            if memory and memory.valid
            for instant in (memory.valid.start, memory.valid.end)
            if instant is not None
        ]
        return Span(min(instants), max(instants)) if instants else None

    async def _edge(self, user_id: str, field: TimeField, *, latest: bool = False) -> Memory | None:
        page = await self._store.listing.memories(of_user(user_id), limit=1, order_by=field, descending=latest)
        return page[0] if page else None

    async def density(self, user_id: str, span: Span, bins: int, *, clock: str) -> list[int]:
        """Count memories over a time, in equal parts: those told in each, or those whose date is in each.

        Args:
            user_id: Whose.
            span: From when to when.
            bins: How many parts.
            clock: `known`, or `held`.
        """
        counts = []
        for start, end in span.parts(bins):
            low, high = start.timestamp(), end.timestamp() - 1e-6
            conditions = [Condition("known_at", low=low, high=high)]
            either: tuple[Condition, ...] = ()
            if clock == "held":
                conditions, either = dated_in(low, high)
            where = Filter(of_user(user_id, *conditions).conditions, either)
            counts.append(await self._store.listing.count(where))
            # Edge holds the interpreter's lock; other requests have their turn in between.
            await asyncio.sleep(0)
        return counts

    async def offers(self, user_id: str) -> Offers:
        """Return what the filters can be set to."""
        listing, where = self._store.listing, of_user(user_id)
        try:
            topics = await listing.values("topic", where)
        except StoreError:
            # A store of an earlier version, which was not written to since.
            topics = {}
        topics.pop("", None)
        return Offers(
            kinds=await listing.values("kind", where),
            entities=_first(await listing.values("entity_keys", where)),
            topics=_first(topics),
            conversations=_first(await listing.values("conversation_id", where)),
        )

    async def page(self, view: View) -> tuple[list[Memory], int]:
        """Return a page of memories, and how many there are on all pages."""
        if view.held is not None:
            return await held_page(self._store, view, view.held)
        where = view.where()
        total = await self._store.listing.count(where)
        offset = (view.page - 1) * PAGE
        if offset >= total:
            return [], total
        memories = await self._store.listing.memories(
            where, offset=offset, limit=PAGE, descending=not view.oldest_first
        )
        return memories, total

    async def portrait(self, user_id: str, memory_id: str) -> Portrait:
        """Return a memory with everything that explains it.

        Raises:
            NotFound: This user has no such memory.
        """
        memory = await self.memory.memory(memory_id, user_id=user_id)
        known = await self._store.with_chains(user_id, [memory])
        chain = chain_of(memory, known)
        reasons = {state.id: link for state in chain for link in state.links if link.relation == "superseded_by"}
        related = {
            relation: [
                Related(known[link.target], link, tuple(await self.sources(known[link.target])))
                for link in memory.links
                if link.relation == relation and link.target in known
            ]
            for relation in ("superseded_by", "supersedes", "contradicts", "merged_with")
        }
        return Portrait(
            memory=memory,
            sources=tuple(await self.sources(memory, around=True)),
            chain=tuple(chain),
            reasons=reasons,
            retired=next(iter(related["superseded_by"]), None),
            replaced=next(iter(related["supersedes"]), None),
            contradictions=tuple(related["contradicts"]),
            partners=tuple(related["merged_with"]),
        )

    async def sources(self, memory: Memory, *, around: bool = False) -> list[SourceView]:
        """Return the turns a memory comes from, its words marked; with `around`, those next to them too."""
        views = []
        for turn in await self.memory.sources(memory):
            quotes = [source.quote for source in memory.sources if source.turn_id == turn.id]
            near: dict[int, Turn] = {}
            if around:
                start = max(0, turn.position - 1)
                row = await self._store.listing.turns(memory.user_id, turn.conversation_id, start=start, limit=3)
                near = {other.position: other for other in row}
            before, after = near.get(turn.position - 1), near.get(turn.position + 1)
            views.append(SourceView(turn, tuple(marked(turn.text, quotes)), before, after))
        return views

    async def conversation(self, user_id: str, conversation_id: str, page: int) -> tuple[list[TurnRow], int]:
        """Return a page of a conversation's turns with what came of each, and how many turns it has.

        Raises:
            NotFound: This user has no such conversation.
        """
        total = (await self._store.conversations(user_id)).get(conversation_id, 0) if await self.exists() else 0
        if not total:
            message = f"user {user_id!r} has no conversation {conversation_id!r}"
            raise NotFound(message)
        turns = await self._store.listing.turns(
            user_id, conversation_id, start=(page - 1) * TURNS_ON_PAGE, limit=TURNS_ON_PAGE
        )
        made: dict[str, list[Memory]] = {turn.id: [] for turn in turns}
        for memory in await self._store.memories_from_turns(user_id, list(made)):
            for turn_id in memory.turn_ids:
                if turn_id in made:
                    made[turn_id].append(memory)
        refused = await self._store.rejections(user_id, conversation_id)
        rows = [
            TurnRow(
                turn,
                tuple(marked(turn.text, _quotes(turn.id, made[turn.id]))),
                tuple(made[turn.id]),
                tuple(one for one in refused if turn.id in one.turn_ids),
                tuple(one for one in refused if not one.turn_ids and turn.id in one.shown_turn_ids[-1:]),
            )
            for turn in turns
        ]
        return rows, total

    async def conversations(self, user_id: str) -> Mapping[str, int]:
        """Return a user's conversations and the number of their turns, in order of their names."""
        return dict(sorted((await self._store.conversations(user_id)).items())) if await self.exists() else {}


def _quotes(turn_id: str, memories: Sequence[Memory]) -> list[str]:
    return [source.quote for memory in memories for source in memory.sources if source.turn_id == turn_id]


def _first(values: Mapping[str, int]) -> dict[str, int]:
    return dict(list(values.items())[:OFFERED])
