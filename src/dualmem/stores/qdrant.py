"""The backend over a Qdrant server or cluster, or over qdrant-client's own `:memory:` mode for tests.

It needs Qdrant 1.17 or later. One object may be used from several event loops, one after another or each in its
thread: every loop gets connections of its own. `close` closes those of the loop it runs in; those of a loop that
ended before are left to the garbage collector.
"""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from dualmem.errors import ConfigurationError, StoreError
from dualmem.stores import qdrant_terms as terms
from dualmem.stores.backend import Scored, batches, check_payload, distinct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dualmem.stores.backend import CollectionSpec, Filter, Payload, Point, Ranking

BATCH = 256
"""Points in one write."""

PAGE = 1000
"""Points in one page of reading."""

TIMEOUT = 30
"""Limit of one request, in seconds."""

_OLDEST = (1, 17)
"""The first server that can leave existing points as they are (`update_mode`); older ones overwrite them."""

_FIRST_FACETS = 1000


class QdrantBackend:
    """A `Backend` over the server at the URL `location`, in collections named `prefix` and their own name.

    Raises:
        ConfigurationError: `location` is no URL, or `api_key` cannot be sent.
    """

    def __init__(self, location: str, *, api_key: str | None = None, prefix: str = "dualmem") -> None:
        self._in_memory = location == ":memory:"
        self._location = location
        self._place = "the store in memory" if self._in_memory else f"the Qdrant server at {terms.shown(location)}"
        self._api_key = (api_key or "").strip() or None
        if self._api_key and not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ConfigurationError("the API key of the Qdrant server holds characters that cannot be sent")
        self._prefix = prefix
        self._specs: dict[str, CollectionSpec] = {}
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()
        self._memory: AsyncQdrantClient | None = None
        self._connecting = threading.Lock()
        # In memory nothing is ever awaited in truth: a lock keeps threads apart, and its own thread enters again.
        self._turn = threading.RLock() if self._in_memory else nullcontext()

    @property
    def key(self) -> str:
        """See `Backend.key`."""
        return f"memory:{id(self)}" if self._in_memory else f"{self._location}/{self._prefix}"

    @property
    def place(self) -> str:
        """See `Backend.place`."""
        return self._place

    @property
    def shared(self) -> bool:
        """See `Backend.shared`."""
        return not self._in_memory

    def _name(self, collection: str) -> str:
        return f"{self._prefix}_{collection}"

    def _spec(self, collection: str) -> CollectionSpec:
        if collection not in self._specs:
            raise StoreError(f"the collection {collection!r} of {self._place} is not open")
        return self._specs[collection]

    def _connect(self, loop: asyncio.AbstractEventLoop) -> AsyncQdrantClient:
        """Make the client of an event loop; blocks, for it reads certificates."""
        with self._connecting:
            if self._in_memory:
                if self._memory is None:
                    self._memory = AsyncQdrantClient(":memory:")
                return self._memory
            client = self._clients.get(loop)
            if client is None:
                # The check of versions would block and warn; `open` makes its own.
                client = self._clients[loop] = AsyncQdrantClient(
                    url=self._location, api_key=self._api_key, timeout=TIMEOUT, check_compatibility=False
                )
            return client

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[AsyncQdrantClient]:
        """Give the client of the running event loop, and turn what it raises into this package's errors."""
        loop = asyncio.get_running_loop()
        client = self._memory or self._clients.get(loop)
        if client is None:
            client = await asyncio.to_thread(self._connect, loop)
        try:
            with self._turn:
                yield client
        # In memory the client raises built-in errors; over the wire too, for what it cannot write as JSON.
        except (ApiException, QdrantException, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._place} {terms.reason(error)}") from error

    async def open(self, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
        """See `Backend.open`. An existing collection gets the indexes it lacks when `create` is set."""
        wanted = [spec for spec in specs if spec.name not in self._specs]
        if not wanted:
            return True
        async with self._session() as client:
            await self._refuse_old_servers(client)
            missing = [spec for spec in wanted if not await client.collection_exists(self._name(spec.name))]
            if missing and not create:
                return False
            for spec in missing:
                await self._make(client, spec)
            opened = {spec.name: await self._inspect(client, spec, create=create) for spec in wanted}
        self._specs.update(opened)
        return True

    async def _refuse_old_servers(self, client: AsyncQdrantClient) -> None:
        if self._in_memory:
            return
        version = (await client.info()).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise StoreError(f"{self._place} is version {version}: {oldest} or later is needed")

    async def _make(self, client: AsyncQdrantClient, spec: CollectionSpec) -> None:
        # Every search is one tenant's, so that a graph over all of them would never be walked.
        graph = models.HnswConfigDiff(m=0, payload_m=16) if "tenant" in spec.fields.values() else None
        name = self._name(spec.name)
        try:
            await client.create_collection(
                name,
                vectors_config={
                    vector: models.VectorParams(size=size, distance=models.Distance.COSINE)
                    for vector, size in spec.dense.items()
                },
                sparse_vectors_config={
                    vector: models.SparseVectorParams(modifier=models.Modifier.IDF) for vector in spec.sparse
                },
                hnsw_config=graph,
            )
        except UnexpectedResponse:
            # Another process may have made it in the meantime.
            if not await client.collection_exists(name):
                raise

    async def _inspect(self, client: AsyncQdrantClient, spec: CollectionSpec, *, create: bool) -> CollectionSpec:
        """Return `spec` with the vectors the collection has, and give it the indexes it lacks."""
        name = self._name(spec.name)
        info = await client.get_collection(name)
        stored = info.config.params
        dense = stored.vectors if isinstance(stored.vectors, dict) else {}
        sizes = {vector: params.size for vector, params in dense.items()}
        sparse = tuple(stored.sparse_vectors or {})
        lacking = sorted({*spec.dense, *spec.sparse} - {*sizes, *sparse})
        if lacking:
            raise StoreError(f"the collection {name!r} of {self._place} is of another version: it lacks {lacking!r}")
        # In memory an index does nothing but warn.
        if create and not self._in_memory:
            for field in sorted(spec.fields.keys() - info.payload_schema.keys()):
                await client.create_payload_index(name, field, field_schema=terms.index(spec.fields[field]), wait=True)
        return replace(spec, dense=sizes, sparse=sparse)

    async def close(self) -> None:
        """See `Backend.close`. What was in memory is gone then."""
        self._specs.clear()
        memory, self._memory = self._memory, None
        own = self._clients.pop(asyncio.get_running_loop(), None)
        # Connections of other event loops can be closed in those alone; here they are let go.
        self._clients.clear()
        for client in (memory, own):
            if client is not None:
                await client.close()

    async def compact(self) -> None:
        """See `Backend.compact`. A server's optimizer rewrites its segments by itself, at times of its own."""

    async def upsert(self, collection: str, points: Sequence[Point], *, only_new: bool = False) -> None:
        """See `Backend.upsert`."""
        spec = self._spec(collection)
        for point in points:
            spec.check(point.vectors)
            check_payload(point.payload)
        for batch in batches(distinct(points, only_new=only_new), BATCH):
            async with self._session() as client:
                await client.upsert(
                    self._name(collection),
                    [terms.stored_point(point) for point in batch],
                    wait=True,
                    update_mode=models.UpdateMode.INSERT_ONLY if only_new else None,
                )

    async def ready(self, collection: str, points: Sequence[Point]) -> Sequence[Point]:  # noqa: ARG002 - the protocol
        """See `Backend.ready`."""
        return points

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Payload) -> None:
        """See `Backend.set_payload`."""
        self._spec(collection)
        if not payload:
            return
        check_payload(payload)
        for batch in batches(ids, PAGE):
            async with self._session() as client:
                # By filter: by id, the server refuses when one does not exist.
                await client.set_payload(self._name(collection), payload, points=terms.ids_filter(batch), wait=True)

    async def set_vectors(self, collection: str, points: Sequence[Point]) -> None:
        """See `Backend.set_vectors`."""
        spec = self._spec(collection)
        for point in points:
            spec.check(point.vectors)
        named = [point for point in distinct(points, only_new=False) if point.vectors]
        for batch in batches(named, BATCH):
            async with self._session() as client:
                name = self._name(collection)
                # The server refuses when one does not exist.
                rows = await client.retrieve(name, [point.id for point in batch], with_payload=False)
                found = {str(row.id) for row in rows}
                changes = [terms.point_vectors(point) for point in batch if point.id in found]
                if changes:
                    await client.update_vectors(name, changes, wait=True)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """See `Backend.delete`."""
        self._spec(collection)
        for batch in batches(ids, PAGE):
            async with self._session() as client:
                await client.delete(self._name(collection), points_selector=list(batch), wait=True)

    async def retrieve(self, collection: str, ids: Sequence[str], *, fields: Sequence[str] = ()) -> dict[str, Payload]:
        """See `Backend.retrieve`."""
        self._spec(collection)
        found: dict[str, Payload] = {}
        for batch in batches(ids, PAGE):
            async with self._session() as client:
                rows = await client.retrieve(self._name(collection), list(batch), with_payload=list(fields) or True)
            found.update((str(row.id), row.payload or {}) for row in rows)
        return found

    async def vectors(self, collection: str, ids: Sequence[str], name: str) -> dict[str, list[float]]:
        """See `Backend.vectors`."""
        self._spec(collection)
        found: dict[str, list[float]] = {}
        for batch in batches(ids, PAGE):
            async with self._session() as client:
                rows = await client.retrieve(
                    self._name(collection), list(batch), with_payload=False, with_vectors=[name]
                )
            for row in rows:
                vector = row.vector.get(name) if isinstance(row.vector, dict) else None
                if isinstance(vector, list):
                    found[str(row.id)] = vector  # type: ignore[assignment] # no matrix
        return found

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
        self._spec(collection)
        if not order_by:
            return await self._pages(collection, filter, limit, with_payload=not ids_only)
        if limit is not None and limit <= PAGE:
            order = terms.order(order_by, descending=descending)
            return await self._ordered(collection, filter, order, limit, with_payload=not ids_only)
        # An ordered page has no place to go on from. All must be read, so they are put in order here.
        with_payload = [order_by] if ids_only else True
        rows = await self._pages(collection, filter, None, with_payload=with_payload)
        held = [row for row in rows if isinstance(row[1].get(order_by), int | float)]
        held.sort(key=lambda row: float(row[1][order_by]), reverse=descending)
        return [(key, {} if ids_only else payload) for key, payload in held[:limit]]

    async def _ordered(
        self, collection: str, where: Filter, order: models.OrderBy, limit: int, *, with_payload: bool
    ) -> list[tuple[str, Payload]]:
        if limit <= 0:
            return []
        async with self._session() as client:
            rows, _ = await client.scroll(
                self._name(collection),
                scroll_filter=terms.client_filter(where),
                limit=limit,
                order_by=order,
                with_payload=with_payload,
            )
        return [(str(row.id), row.payload or {}) for row in rows]

    async def _pages(
        self, collection: str, where: Filter, limit: int | None, *, with_payload: bool | list[str]
    ) -> list[tuple[str, Payload]]:
        found: list[tuple[str, Payload]] = []
        offset: Any = None
        while limit is None or len(found) < limit:
            async with self._session() as client:
                rows, offset = await client.scroll(
                    self._name(collection),
                    scroll_filter=terms.client_filter(where),
                    limit=PAGE if limit is None else min(PAGE, limit - len(found)),
                    offset=offset,
                    with_payload=with_payload,
                )
            found += [(str(row.id), row.payload or {}) for row in rows]
            if offset is None:
                break
        return found

    async def count(self, collection: str, filter: Filter) -> int:  # noqa: A002 - the field's term
        """See `Backend.count`."""
        self._spec(collection)
        async with self._session() as client:
            return (
                await client.count(self._name(collection), count_filter=terms.client_filter(filter), exact=True)
            ).count

    async def facet(
        self,
        collection: str,
        field: str,
        filter: Filter,  # noqa: A002 - the field's term
    ) -> dict[str, int]:
        """See `Backend.facet`."""
        self._spec(collection)
        limit = _FIRST_FACETS
        while True:
            async with self._session() as client:
                answer = await client.facet(
                    self._name(collection), field, facet_filter=terms.client_filter(filter), limit=limit, exact=True
                )
            if len(answer.hits) < limit:
                return {str(hit.value): hit.count for hit in answer.hits if hit.count}
            # As many as were asked for: there may be more.
            limit *= 10

    async def rank(
        self, collection: str, rankings: Sequence[Ranking], *, with_payload: bool = True
    ) -> list[list[Scored]]:
        """See `Backend.rank`."""
        spec = self._spec(collection)
        for ranking in rankings:
            if ranking.vector is not None:
                spec.check({ranking.using: ranking.vector})
        runnable = [place for place, ranking in enumerate(rankings) if ranking.limit > 0]
        ranked: list[list[Scored]] = [[] for _ in rankings]
        if not runnable:
            return ranked
        async with self._session() as client:
            answers = await client.query_batch_points(
                self._name(collection), [terms.query(rankings[place], with_payload=with_payload) for place in runnable]
            )
        for place, answer in zip(runnable, answers, strict=True):
            by_vector = rankings[place].vector is not None
            ranked[place] = [
                Scored(str(hit.id), hit.score if by_vector else 0.0, hit.payload or {}) for hit in answer.points
            ]
        return ranked
