"""The embedded backend: Qdrant Edge in this process, one folder on disk.

One process at a time has the folder open; inside it, any number of `EdgeBackend` objects share it. Edge scans a
user's points exactly (no approximate index is built: that takes minutes in process), which is fast up to some
hundred thousand points of one user; beyond that, or for several processes, there is `QdrantBackend`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dualmem.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dualmem.stores.backend import CollectionSpec, Filter, Payload, Point, Ranking, Scored
    from dualmem.stores.edge_folder import Folder
    from dualmem.stores.edge_shard import Shard

SHORT: Final = 256
"""Points that are read in the event loop, some milliseconds at most."""


class EdgeBackend:
    """A `Backend` over the folder at `path`.

    Short reads run where they are asked for: Edge holds the interpreter's lock during a call, so that the event loop
    would wait as long for a thread's, and for two switches more. What takes many calls, or waits for the disk, runs in
    a thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder: Folder | None = None

    @property
    def key(self) -> str:
        """See `Backend.key`."""
        return str(self._path.expanduser().absolute())

    @property
    def place(self) -> str:
        """See `Backend.place`."""
        return f"the store at {self._path}"

    @property
    def shared(self) -> bool:
        """See `Backend.shared`."""
        return False

    def _shard(self, collection: str) -> Shard:
        folder = self._folder
        if folder is None or collection not in folder.shards:
            raise StoreError(f"the collection {collection!r} of the store at {self._path} is not open")
        return folder.shards[collection]

    async def open(self, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
        """See `Backend.open`. The folder is made for its owner alone; nothing else in it is touched."""
        return await asyncio.to_thread(self._open, specs, create=create)

    def _open(self, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
        from dualmem.stores.edge_folder import acquire  # noqa: PLC0415 - the engine is heavy

        folder = acquire(self, self._path, specs, create=create)
        if folder is None:
            return False
        self._folder = folder
        return True

    async def close(self) -> None:
        """See `Backend.close`."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(self._release, folder)

    def _release(self, folder: Folder) -> None:
        from dualmem.stores.edge_folder import release  # noqa: PLC0415 - loaded by `_open`

        release(self, folder)

    async def compact(self) -> None:
        """See `Backend.compact`. It takes about as long as writing all points, and the room of a second copy."""
        from dualmem.stores.edge_folder import compact  # noqa: PLC0415 - loaded by `_open`

        if self._folder is None:
            raise StoreError(f"the store at {self._path} is not open")
        await asyncio.to_thread(compact, self._folder)

    async def upsert(self, collection: str, points: Sequence[Point], *, only_new: bool = False) -> None:
        """See `Backend.upsert`. What is acknowledged outlives a killed process; a power cut may cost the last."""
        shard = self._shard(collection)
        if points:
            await asyncio.to_thread(shard.upsert, points, only_new=only_new)

    async def ready(self, collection: str, points: Sequence[Point]) -> Sequence[Point]:
        """See `Backend.ready`."""
        return await asyncio.to_thread(self._shard(collection).ready, points)

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Payload) -> None:
        """See `Backend.set_payload`."""
        shard = self._shard(collection)
        if ids and payload:
            await asyncio.to_thread(shard.set_payload, ids, payload)

    async def set_vectors(self, collection: str, points: Sequence[Point]) -> None:
        """See `Backend.set_vectors`."""
        shard = self._shard(collection)
        if points:
            await asyncio.to_thread(shard.set_vectors, points)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """See `Backend.delete`."""
        shard = self._shard(collection)
        if ids:
            await asyncio.to_thread(shard.delete, ids)

    async def retrieve(self, collection: str, ids: Sequence[str], *, fields: Sequence[str] = ()) -> dict[str, Payload]:
        """See `Backend.retrieve`."""
        shard = self._shard(collection)
        if len(ids) > SHORT or not await _idle(shard):
            return await asyncio.to_thread(shard.retrieve, ids, fields)
        return shard.retrieve(ids, fields) if ids else {}

    async def scroll(
        self,
        collection: str,
        filter: Filter,  # noqa: A002 - the field's term
        *,
        order_by: str = "",
        descending: bool = False,
        limit: int | None = None,
        ids_only: bool = False,
    ) -> list[tuple[str, Payload]]:
        """See `Backend.scroll`."""
        shard = self._shard(collection)
        if limit is not None and limit <= 0:
            return []
        if not order_by and await _idle(shard):
            # That is all there is as a rule.
            rows, offset = shard.page(filter, SHORT if limit is None else min(SHORT, limit), ids_only=ids_only)
            if offset is None or len(rows) == limit:
                return rows
        return await asyncio.to_thread(
            shard.scroll, filter, order_by=order_by, descending=descending, limit=limit, ids_only=ids_only
        )

    async def vectors(self, collection: str, ids: Sequence[str], name: str) -> dict[str, list[float]]:
        """See `Backend.vectors`."""
        shard = self._shard(collection)
        return await asyncio.to_thread(shard.vectors, ids, name) if ids else {}

    async def count(self, collection: str, filter: Filter) -> int:  # noqa: A002 - the field's term
        """See `Backend.count`."""
        return await asyncio.to_thread(self._shard(collection).count, filter)

    async def facet(
        self,
        collection: str,
        field: str,
        filter: Filter,  # noqa: A002 - the field's term
    ) -> dict[str, int]:
        """See `Backend.facet`."""
        return await asyncio.to_thread(self._shard(collection).facet, field, filter)

    async def rank(
        self, collection: str, rankings: Sequence[Ranking], *, with_payload: bool = True
    ) -> list[list[Scored]]:
        """See `Backend.rank`."""
        shard = self._shard(collection)
        if not await _idle(shard):
            return await asyncio.to_thread(shard.rank, rankings, with_payload=with_payload)
        return shard.rank(rankings, with_payload=with_payload) if rankings else []


async def _idle(shard: Shard) -> bool:
    """Let other tasks have their turn, of which a search would else take many at once; whether no call is under way."""
    await asyncio.sleep(0)
    return not shard.busy
