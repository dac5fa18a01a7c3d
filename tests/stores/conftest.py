"""What the tests of the backends share: small collections, a copied empty store, and a server that is none."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from qdrant_client import AsyncQdrantClient, models

from dualmem.stores import qdrant
from dualmem.stores.backend import Backend, CollectionSpec
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.edge_folder import acquire, release
from dualmem.stores.qdrant import QdrantBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

NOTES = CollectionSpec(
    "notes",
    {"dense": 4, "other": 3},
    ("words", "tags"),
    {"user": "tenant", "state": "keyword", "labels": "keyword", "at": "float", "order": "integer"},
)
BARE = CollectionSpec("bare", {}, (), {"what": "keyword"})
SPECS = (NOTES, BARE)

URL = "https://qdrant.test:6333"
KEY = "a-key-that-nobody-may-see"

_DONE = {"operation_id": 0, "status": "completed"}


def copy_sparse(source: str, target: str) -> None:
    """Copy a file without its holes, where the system can tell them; Edge's files are mostly holes."""
    if not hasattr(os, "SEEK_DATA"):
        shutil.copyfile(source, target)
        return
    with Path(source).open("rb") as read, Path(target).open("wb") as write:
        size, end = os.fstat(read.fileno()).st_size, 0
        while end < size:
            try:
                start = os.lseek(read.fileno(), end, os.SEEK_DATA)
            except OSError:
                # Nothing but a hole follows.
                break
            end = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            write.seek(start)
            write.write(os.pread(read.fileno(), end - start, start))
        write.truncate(size)


@pytest.fixture
def specs() -> tuple[CollectionSpec, ...]:
    """The two collections: one with everything, one without vectors."""
    return SPECS


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store, made once: making one takes seconds on a slow disk."""
    path = tmp_path_factory.mktemp("edge") / "store"
    holder = EdgeBackend(path)
    folder = acquire(holder, path, SPECS, create=True)
    assert folder is not None
    release(holder, folder)
    return path


@pytest.fixture
def store_path(empty_store: Path, tmp_path: Path) -> Path:
    """A folder with an empty store."""
    path = tmp_path / "store"
    shutil.copytree(empty_store, path, copy_function=copy_sparse)
    return path


class FakeServer:
    """Answers the REST requests of qdrant-client from its `:memory:` mode, with a server's strictness.

    As a server in strict mode it refuses conditions on fields without an index, and as every server changes by id
    to points that do not exist.
    """

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.version = "1.17.0"
        self.answer: Callable[[httpx.Request], httpx.Response | None] = lambda _: None
        self._points = AsyncQdrantClient(":memory:")
        self._indexes: dict[str, dict[str, Any]] = {}
        self._turn = threading.RLock()

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    def bodies(self, method: str, path: str) -> list[Any]:
        return [
            json.loads(request.content)
            for request in self.requests
            if request.method == method and re.fullmatch(path, request.url.path)
        ]

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        # Nothing below waits for anything, so that one thread at a time is let through.
        with self._turn:
            return await self._handle_alone(request)

    async def _handle_alone(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        given = self.answer(request)
        if given is not None:
            return given
        if request.url.path == "/":
            return httpx.Response(200, json={"title": "qdrant - vector search engine", "version": self.version})
        body = json.loads(request.content) if request.content else {}
        _, _, name, *rest = request.url.path.split("/")
        call = f"{request.method} {'/'.join(rest)}"
        try:
            self._refuse(name, call, body)
            result = await self._result(name, call, body)
        except LookupError as error:
            return httpx.Response(404, json={"status": {"error": str(error)}, "time": 0.0})
        except ValueError as error:
            return httpx.Response(400, json={"status": {"error": str(error)}, "time": 0.0})
        return httpx.Response(200, json={"result": result, "status": "ok", "time": 0.0})

    def _refuse(self, name: str, call: str, body: Any) -> None:
        if call in {"PUT ", "PUT points"}:
            return
        asked = {found for found in re.findall(r'"key": "([^"]+)"', json.dumps(body)) if found}
        unindexed = asked - self._indexes.get(name, {}).keys()
        if unindexed:
            raise ValueError(f"Bad request: Index required but not found for {sorted(unindexed)}")

    async def _missing(self, name: str, ids: list[str]) -> None:
        found = {row.id for row in await self._points.retrieve(name, ids)}
        for key in ids:
            if key not in found:
                raise LookupError(f"Not found: No point with id {key} found")

    async def _result(self, name: str, call: str, body: Any) -> Any:
        handlers: dict[str, Callable[[str, Any], Awaitable[Any]]] = {
            "GET exists": self._exists,
            "GET ": self._describe,
            "PUT ": self._create,
            "PUT index": self._index,
            "PUT points": self._upsert,
            "POST points/payload": self._set_payload,
            "PUT points/vectors": self._set_vectors,
            "POST points/delete": self._delete,
            "POST points": self._retrieve,
            "POST points/scroll": self._scroll,
            "POST points/count": self._count,
            "POST facet": self._facet,
            "POST points/query/batch": self._query,
        }
        return await handlers[call](name, body)

    async def _exists(self, name: str, _: Any) -> Any:
        return {"exists": await self._points.collection_exists(name)}

    async def _describe(self, name: str, _: Any) -> Any:
        info = _json(await self._points.get_collection(name))
        return {**info, "payload_schema": self._indexes[name]}

    async def _create(self, name: str, body: Any) -> Any:
        made = models.CreateCollection.model_validate(body)
        await self._points.create_collection(
            name, vectors_config=made.vectors, sparse_vectors_config=made.sparse_vectors
        )
        self._indexes[name] = {}
        return True

    async def _index(self, name: str, body: Any) -> Any:
        kind = body["field_schema"]
        kind = kind["type"] if isinstance(kind, dict) else kind
        self._indexes[name][body["field_name"]] = {"data_type": kind, "points": 0}
        return _DONE

    async def _upsert(self, name: str, body: Any) -> Any:
        new = models.PointsList.model_validate(body)
        await self._points.upsert(name, new.points, update_mode=new.update_mode)
        return _DONE

    async def _set_payload(self, name: str, body: Any) -> Any:
        change = models.SetPayload.model_validate(body)
        await self._missing(name, [str(key) for key in change.points or []])
        await self._points.set_payload(name, change.payload, points=change.filter or change.points or [])
        return _DONE

    async def _set_vectors(self, name: str, body: Any) -> Any:
        changes = models.UpdateVectors.model_validate(body).points
        await self._missing(name, [str(change.id) for change in changes])
        await self._points.update_vectors(name, changes)
        return _DONE

    async def _delete(self, name: str, body: Any) -> Any:
        await self._points.delete(name, body["points"])
        return _DONE

    async def _retrieve(self, name: str, body: Any) -> Any:
        asked = models.PointRequest.model_validate(body)
        rows = await self._points.retrieve(
            name, asked.ids, with_payload=asked.with_payload or False, with_vectors=asked.with_vector or False
        )
        return [_json(row) for row in rows]

    async def _scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest.model_validate(body)
        rows, offset = await self._points.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            offset=asked.offset,
            order_by=asked.order_by,
            with_payload=asked.with_payload or False,
        )
        return {"points": [_json(row) for row in rows], "next_page_offset": offset}

    async def _count(self, name: str, body: Any) -> Any:
        asked = models.CountRequest.model_validate(body)
        return _json(await self._points.count(name, count_filter=asked.filter))

    async def _facet(self, name: str, body: Any) -> Any:
        asked = models.FacetRequest.model_validate(body)
        answer = await self._points.facet(name, asked.key, facet_filter=asked.filter, limit=asked.limit or 10)
        return _json(answer)

    async def _query(self, name: str, body: Any) -> Any:
        searches = models.QueryRequestBatch.model_validate(body).searches
        return [_json(answer) for answer in await self._points.query_batch_points(name, searches)]


def _json(value: Any) -> Any:
    return json.loads(value.model_dump_json(exclude_unset=False))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """A server that every `QdrantBackend` with a URL reaches."""
    fake = FakeServer()
    monkeypatch.setattr(qdrant, "AsyncQdrantClient", partial(AsyncQdrantClient, transport=fake.transport))
    return fake


@pytest.fixture(params=["edge", "memory", "server"])
def unopened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A backend of each kind with nothing behind it."""
    if request.param == "edge":
        yield EdgeBackend(tmp_path / "new")
    elif request.param == "memory":
        yield QdrantBackend(":memory:")
    else:
        request.getfixturevalue("server")
        yield QdrantBackend(URL, api_key=KEY)


@pytest.fixture(params=["edge", "memory", "server"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """An open, empty backend of each kind."""
    made: Backend
    if request.param == "edge":
        made = EdgeBackend(request.getfixturevalue("store_path"))
    elif request.param == "memory":
        made = QdrantBackend(":memory:")
    else:
        request.getfixturevalue("server")
        made = QdrantBackend(URL, api_key=KEY)
    assert await made.open(SPECS, create=True)
    yield made
    await made.close()
