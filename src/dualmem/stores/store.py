"""Turns and memories, kept over any backend.

Writes are ordered so that a crash at any point leaves a readable store. What a batch of decisions changes is
written as one commit: first, as a single point, to the `control` collection, then to the memories, then to the
turns it read. A commit found there when a user's data is next written is carried out again; every part of it can
be repeated without harm.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from dualmem.embedding import Embedder
from dualmem.errors import ModelNotConfigured
from dualmem.identity import stable_id
from dualmem.models import HOW_TO_CONFIGURE
from dualmem.records import Memory, Rejection, Relation, Turn, TurnState
from dualmem.stores.backend import Backend, Filter, Payload, Point, Ranking, Sparse
from dualmem.stores.commit import Commit, Prepared
from dualmem.stores.encryption import EncryptedBackend
from dualmem.stores.listing import Listing
from dualmem.stores.opening import identified, rekey
from dualmem.stores.payload import (
    CONTROL,
    MEMORIES,
    TURNS,
    WINDOW,
    is_any,
    memory_from,
    memory_payload,
    memory_sparse,
    memory_text,
    of_user,
    rejection_from,
    rejection_payload,
    rejections_of,
    specs,
    turn_context,
    turn_from,
    turn_payload,
    turn_sparse,
)
from dualmem.stores.writing import Lease, alone

if TYPE_CHECKING:
    from dualmem.stores.keys import EncryptionKey

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Store:
    """All that is kept, for all users. Every method takes the user it works for.

    Args:
        backend: The vector database; not opened yet.
        embedder: The embedding model; looking needs none.
        lease_seconds: A writer of another process that shows no life for so long loses its user.
        key: What opens an encrypted store; a new store is encrypted where one is given.
    """

    def __init__(
        self,
        backend: Backend,
        embedder: Embedder | None,
        *,
        lease_seconds: float = 60.0,
        key: EncryptionKey | None = None,
    ) -> None:
        self._backend = backend if key is None else EncryptedBackend(backend, key)
        self._known_embedder = embedder
        self._lease_seconds = lease_seconds
        self._leases: dict[str, Lease] = {}
        self._prepared = Prepared()
        self._opened = False

    @property
    def listing(self) -> Listing:
        """Pages and counts of what is stored, for all users; the store must be open."""
        return Listing(self._backend)

    @property
    def _embedder(self) -> Embedder:
        """The embedding model, for writing.

        Raises:
            ModelNotConfigured: There is none.
        """
        if self._known_embedder is None:
            raise ModelNotConfigured(HOW_TO_CONFIGURE.format(what="embedding model", variable="EMBEDDING_MODEL"))
        return self._known_embedder

    async def open(self, *, create: bool) -> bool:
        """Open the store; without `create` nothing is made.

        Returns:
            Whether there is a store.

        Raises:
            StoreLocked: Another process has it open.
            EmbeddingMismatch: It was made with another embedding model.
            KeyMismatch: It is encrypted and the key is not there or another one, or it is plain and there is a key.
        """
        if self._opened:
            return True
        known = self._known_embedder
        dimension = await self._embedder.dimension() if create else known.known_dimension if known else None
        if not await self._backend.open(specs(dimension or 0), create=create):
            return False
        self._opened = await identified(self._backend, known, dimension, create=create)
        return self._opened

    async def close(self) -> None:
        """Release the store."""
        self._opened = False
        self._prepared.clear()
        await self._backend.close()

    async def compact(self) -> bool:
        """Write the files of an embedded store anew, without what was erased; return whether there is a store.

        Raises:
            StoreError: There is no room for a second copy, or the folder cannot be written; nothing was changed.
        """
        if not await self.open(create=False):
            return False
        await self._backend.compact()
        return True

    async def rekey(self, key: EncryptionKey) -> bool:
        """Let `key` open an encrypted store in place of the one before; return whether there is a store.

        Raises:
            KeyMismatch: The store is not encrypted.
        """
        if not await self.open(create=False):
            return False
        await rekey(self._backend, key)
        return True

    @asynccontextmanager
    async def writer(self, user_id: str) -> AsyncIterator[None]:
        """Be the one writer of a user's data; others wait. A commit left open is carried out first.

        Not to be entered twice by one task.

        Raises:
            UserBusy: A writer in another process did not come to its end.
        """
        async with alone(self._backend.key, user_id):
            await self.open(create=True)
            if not self._backend.shared:
                await self._recover(user_id)
                yield
                return
            lease = Lease(self._backend, user_id, self._lease_seconds)
            await lease.take()
            self._leases[user_id] = lease
            try:
                await self._recover(user_id)
                yield
            finally:
                del self._leases[user_id]
                await lease.give_back()

    # Turns

    async def add_turns(self, turns: Sequence[Turn]) -> list[Turn]:
        """Store the turns that are not there yet, durably and before anything else is done with them.

        Returns:
            Those that are new.
        """
        known = await self._backend.retrieve(TURNS, [turn.id for turn in turns])
        fresh = list({turn.id: turn for turn in turns if turn.id not in known}.values())
        await self._backend.upsert(TURNS, [Point(turn.id, turn_payload(turn), {}) for turn in fresh], only_new=True)
        return fresh

    async def move_turns(self, positions: Mapping[str, int]) -> None:
        """Give stored turns other positions; those at the end first, so that a crash leaves no two at one place."""
        for turn_id, position in sorted(positions.items(), key=lambda item: -item[1]):
            await self._backend.set_payload(TURNS, [turn_id], {"position": position})

    async def known_turns(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are stored."""
        return set(await self._backend.retrieve(TURNS, _well_formed(ids), fields=("state",)))

    async def index_turns(self, user_id: str, conversation_id: str) -> int:
        """Embed and index the turns of a conversation that are not findable yet.

        What it stands for in a conversation is what finds an answer that makes sense only after its question: it is
        embedded with the end of the turn before, and its keyword vector holds words of the turns around it. Those of
        its neighbours change with it.

        Returns:
            How many turns were made findable.

        Raises:
            ModelUnavailable: The embedding model failed; the turns stay stored and unindexed.
        """
        where = of_user(user_id, is_any("conversation_id", conversation_id))
        missing = Filter((*where.conditions, is_any("indexed", "no")))
        if not await self._backend.count(TURNS, missing):
            return 0
        rows = await self._backend.scroll(TURNS, where, order_by="position")
        # What people did not say (a system prompt, memories put into a prompt) is nobody's neighbour.
        silent = [turn_id for turn_id, payload in rows if payload["state"] == "skipped"]
        rows = [row for row in rows if row[1]["state"] != "skipped"]
        turns = [turn_from(turn_id, payload) for turn_id, payload in rows]
        waiting = [place for place, (_, payload) in enumerate(rows) if payload["indexed"] == "no"]
        points = []
        # A turn is embedded with the one before it, and its words are among those of its neighbours.
        embedded = sorted({place for near in waiting for place in (near, near + 1) if place < len(turns)})
        texts = [turn_context(turns[place], turns[max(0, place - 1) : place]) for place in embedded]
        vectors = dict(zip(embedded, await self._embedder.documents(texts), strict=True))
        touched = {near for place in waiting for near in range(place - WINDOW, place + WINDOW + 1)}
        words: dict[str, list[str]] = {}
        for place in sorted(touched & set(range(len(turns)))):
            before, after = turns[max(0, place - WINDOW) : place], turns[place + 1 : place + 1 + WINDOW]
            named: dict[str, Sequence[float] | Sparse] = {"lexical": turn_sparse(turns[place], before, after, words)}
            if place in vectors:
                named["semantic"] = vectors[place]
            points.append(Point(turns[place].id, {}, named))
        await self._backend.set_vectors(TURNS, points)
        done = [*silent, *(turns[place].id for place in waiting)]
        await self._backend.set_payload(TURNS, done, {"indexed": "yes"})
        return len(waiting)

    async def unindexed(self, user_id: str) -> list[str]:
        """Return the conversations of a user that have turns which are not findable yet."""
        return sorted(await self._backend.facet(TURNS, "conversation_id", of_user(user_id, is_any("indexed", "no"))))

    async def unembedded(self, user_id: str) -> list[Memory]:
        """Return the memories of a user that have no vector, so that no search finds them by meaning."""
        memories = await self.memories(of_user(user_id))
        having = await self._backend.vectors(MEMORIES, [memory.id for memory in memories], "semantic")
        return [memory for memory in memories if memory.id not in having]

    async def embed_memories(self, memories: Sequence[Memory]) -> None:
        """Embed and index stored memories anew.

        Raises:
            ModelUnavailable: The embedding model failed; nothing was changed.
        """
        await self._backend.set_vectors(MEMORIES, await self._memory_points(memories))

    async def open_commit(self, user_id: str) -> bool:
        """Whether a commit of this user was cut short; the user's next writer carries it out."""
        return bool(await self._backend.retrieve(CONTROL, [stable_id("control", "commit", user_id)]))

    async def unindex_turns(self, ids: Sequence[str]) -> None:
        """Have turns embedded and indexed again by the next `index_turns`."""
        await self._backend.set_payload(TURNS, ids, {"indexed": "no"})

    async def turns(
        self, user_id: str, *, conversation_id: str | None = None, states: Sequence[TurnState] = ()
    ) -> list[Turn]:
        """Return a user's turns: conversation by conversation, in order."""
        conditions = []
        if conversation_id is not None:
            conditions.append(is_any("conversation_id", conversation_id))
        if states:
            conditions.append(is_any("state", *states))
        rows = await self._backend.scroll(TURNS, of_user(user_id, *conditions), order_by="position")
        turns = [turn_from(turn_id, payload) for turn_id, payload in rows]
        starts: dict[str, float] = {}
        for turn in turns:
            instant = (turn.said_at or turn.recorded_at).timestamp()
            starts[turn.conversation_id] = min(starts.get(turn.conversation_id, instant), instant)
        return sorted(turns, key=lambda turn: (starts[turn.conversation_id], turn.conversation_id, turn.position))

    async def turns_by_id(self, user_id: str, ids: Sequence[str]) -> dict[str, Turn]:
        """Return those of `ids` that are turns of this user."""
        return {key: turn_from(key, row) for key, row in (await self.turn_payloads(user_id, ids)).items()}

    async def turn_payloads(self, user_id: str, ids: Sequence[str]) -> dict[str, Payload]:
        """Return what is stored of those of `ids` that are turns of this user; `turn_from` makes a record of each."""
        found = await self._backend.retrieve(TURNS, _well_formed(ids))
        return {key: payload for key, payload in found.items() if payload["user_id"] == user_id}

    async def score_turns(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the turns in each ranking, in rank order, in one round trip."""
        return [[row[:2] for row in rows] for rows in await self._backend.rank(TURNS, rankings, with_payload=False)]

    # Memories

    async def memory(self, user_id: str, memory_id: str) -> Memory | None:
        """Return one memory of this user."""
        return (await self.memories_by_id(user_id, [memory_id])).get(memory_id)

    async def memories_by_id(self, user_id: str, ids: Sequence[str]) -> dict[str, Memory]:
        """Return those of `ids` that are memories of this user."""
        found = await self._backend.retrieve(MEMORIES, _well_formed(ids))
        return {key: memory_from(key, row) for key, row in found.items() if row["user_id"] == user_id}

    async def memories(self, where: Filter, *, limit: int | None = None) -> list[Memory]:
        """Return the memories that meet `where`, from the earliest told to the latest."""
        # Which are the first, only an order says; all of them are as quickly sorted here.
        rows = await self._backend.scroll(MEMORIES, where, order_by="" if limit is None else "known_at", limit=limit)
        return sorted((memory_from(key, payload) for key, payload in rows), key=lambda memory: memory.told)

    async def memories_from_turns(self, user_id: str, turn_ids: Sequence[str]) -> list[Memory]:
        """Return the memories that any of `turn_ids` gave rise to."""
        if not turn_ids:
            return []
        return await self.memories(of_user(user_id, is_any("turn_ids", *turn_ids)))

    async def standing(self, user_id: str) -> list[Memory]:
        """Return a user's standing instructions in force, from the earliest told to the latest."""
        return await self.memories(of_user(user_id, is_any("state", "active"), is_any("standing_key", "yes")))

    async def rank_memories(self, rankings: Sequence[Ranking]) -> list[list[tuple[Memory, float]]]:
        """Return the memories of each ranking with their scores, in rank order, in one round trip."""
        rows = await self._backend.rank(MEMORIES, rankings)
        known: dict[str, Memory] = {}
        for row in (row for ranking in rows for row in ranking):
            if row.id not in known:
                known[row.id] = memory_from(row.id, row.payload)
        return [[(known[row.id], row.score) for row in ranking] for ranking in rows]

    async def score_memories(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the memories in each ranking, in rank order, in one round trip."""
        return [[row[:2] for row in rows] for rows in await self._backend.rank(MEMORIES, rankings, with_payload=False)]

    async def with_chains(
        self, user_id: str, memories: Iterable[Memory], *, partners: bool = False
    ) -> dict[str, Memory]:
        """Return `memories` and every memory their lifecycle links lead to: whole chains, one hop else.

        With `partners` also all that says the same, in however many hops.
        """
        followed: list[Relation] = ["supersedes", "superseded_by"]
        if partners:
            followed.append("merged_with")
        known = {memory.id: memory for memory in memories}
        wanted = {link.target for memory in known.values() for link in memory.links} - known.keys()
        while wanted:
            found = await self.memories_by_id(user_id, sorted(wanted))
            known.update(found)
            wanted = {
                target for memory in found.values() for relation in followed for target in memory.linked(relation)
            } - known.keys()
        return known

    async def rejections(self, user_id: str, conversation_id: str | None = None) -> list[Rejection]:
        """Return the rejected drafts of a user, or of a conversation, the oldest first."""
        rows = await self._backend.scroll(CONTROL, rejections_of(user_id, conversation_id))
        return sorted((rejection_from(key, row) for key, row in rows), key=lambda one: (one.rejected_at, one.id))

    async def count(self, user_id: str) -> tuple[int, int]:
        """Return how many turns and memories a user has."""
        where = of_user(user_id)
        return await self._backend.count(TURNS, where), await self._backend.count(MEMORIES, where)

    async def users(self) -> dict[str, int]:
        """Return the users and the number of their turns; a user may have memories alone, and 0 turns."""
        turns = await self._backend.facet(TURNS, "user_id", Filter())
        return {**dict.fromkeys(await self._backend.facet(MEMORIES, "user_id", Filter()), 0), **turns}

    async def conversations(self, user_id: str) -> dict[str, int]:
        """Return the conversations of a user and the number of their turns."""
        return await self._backend.facet(TURNS, "conversation_id", of_user(user_id))

    # Commits

    async def commit(self, commit: Commit) -> None:
        """Write a batch as a whole; to be called by the user's writer.

        Raises:
            ModelUnavailable: The new memories could not be embedded; nothing was written.
            UserBusy: Another process took over meanwhile; nothing was written.
        """
        if not commit:
            return
        # What cannot be embedded must not be found in the journal again and again.
        await self._embedder.documents([memory_text(memory) for memory in commit.new])
        if commit.user_id in self._leases:
            await self._leases[commit.user_id].check()
        journal = stable_id("control", "commit", commit.user_id)
        payload = {"what": "commit", "user_id": commit.user_id, "body": commit.written()}
        await self._backend.upsert(CONTROL, [Point(journal, payload, {})])
        await self._carry_out(commit)
        await self._backend.delete(CONTROL, [journal])

    async def _recover(self, user_id: str) -> None:
        journal = stable_id("control", "commit", user_id)
        found = (await self._backend.retrieve(CONTROL, [journal])).get(journal)
        if found is None:
            return
        await self._carry_out(Commit.read(user_id, found["body"]))
        await self._backend.delete(CONTROL, [journal])

    async def prepare(self, user_id: str, memories: Sequence[Memory]) -> None:
        """Make the points of memories that a user's next commit may write: there is time while a model is asked.

        Raises:
            ModelUnavailable: The embedding model failed.
            EmbeddingMismatch: It makes vectors of another size than the store's.
        """
        points = await self._backend.ready(MEMORIES, await self._memory_points(memories))
        self._prepared.hold(user_id, memories, points)

    async def _new_points(self, commit: Commit) -> list[Point]:
        """Return the points of a commit's new memories; those that were changed since they were made, anew."""
        made = self._prepared.take(commit.user_id, commit.new)
        anew = await self._memory_points([memory for memory in commit.new if memory.id not in made])
        return [*made.values(), *anew]

    async def _memory_points(self, memories: Sequence[Memory]) -> list[Point]:
        vectors = await self._embedder.documents([memory_text(memory) for memory in memories])
        return [
            Point(memory.id, memory_payload(memory), {"semantic": vector, **memory_sparse(memory)})
            for memory, vector in zip(memories, vectors, strict=True)
        ]

    async def _carry_out(self, commit: Commit) -> None:
        """Write what is new before what it retires, then mark the turns."""
        await self._backend.upsert(MEMORIES, await self._new_points(commit))
        for memory in commit.changed:
            await self._backend.set_payload(MEMORIES, [memory.id], memory_payload(memory))
        kept = [Point(one.id, rejection_payload(one), {}) for one in commit.rejections]
        await self._backend.upsert(CONTROL, kept)
        await self._backend.set_payload(TURNS, list(commit.read_turn_ids), {"state": "read"})
        await self._backend.set_payload(TURNS, list(commit.unread_turn_ids), {"state": "pending"})
        await self._backend.delete(MEMORIES, list(commit.forgotten_ids))
        await self._backend.delete(TURNS, list(commit.forgotten_turn_ids))
        await self._backend.delete(CONTROL, list(commit.forgotten_rejection_ids))
        if commit.outdated is not None:
            await self._keep_outdated(commit.user_id, commit.outdated)

    async def outdated(self, user_id: str) -> tuple[str, ...]:
        """Return the ids of the memories that are to go when their turns have been read again."""
        place = stable_id("control", "outdated", user_id)
        found = (await self._backend.retrieve(CONTROL, [place])).get(place)
        return () if found is None else tuple(json.loads(found["body"]))

    async def _keep_outdated(self, user_id: str, ids: Sequence[str]) -> None:
        place = stable_id("control", "outdated", user_id)
        if ids:
            payload = {"what": "outdated", "user_id": user_id, "body": json.dumps(ids)}
            await self._backend.upsert(CONTROL, [Point(place, payload, {})])
        else:
            await self._backend.delete(CONTROL, [place])


def _well_formed(ids: Iterable[str]) -> list[str]:
    """Return those of `ids` that a point can have, each once: a UUID in its canonical form."""
    return [key for key in dict.fromkeys(ids) if _UUID.fullmatch(key)]
