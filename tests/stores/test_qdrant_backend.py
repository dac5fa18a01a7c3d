"""What only the server backend does: requests, refusals, and errors that name the server and never the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dualmem.errors import ConfigurationError, StoreError
from dualmem.stores.backend import CollectionSpec, Condition, Filter, Point
from dualmem.stores.qdrant import BATCH, QdrantBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

URL = "https://qdrant.test:6333"
KEY = "a-key-that-nobody-may-see"
ALL = Filter()


def point_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


def note(number: int, **payload: Any) -> Point:
    return Point(point_id(number), payload, {})


@pytest.fixture
async def backend(server: Any, specs: Any) -> AsyncIterator[QdrantBackend]:
    made = QdrantBackend(URL, api_key=KEY, prefix="mine")
    assert await made.open(specs, create=True)
    assert server.requests
    yield made
    await made.close()


# Requests


@pytest.mark.usefixtures("backend")
async def test_collections_are_made_for_many_tenants(server: Any) -> None:
    (notes,) = server.bodies("PUT", "/collections/mine_notes")
    assert notes["vectors"] == {
        "dense": {"size": 4, "distance": "Cosine"},
        "other": {"size": 3, "distance": "Cosine"},
    }
    assert notes["sparse_vectors"] == {"words": {"modifier": "idf"}, "tags": {"modifier": "idf"}}
    assert notes["hnsw_config"] == {"m": 0, "payload_m": 16}
    indexes = {
        body["field_name"]: body["field_schema"] for body in server.bodies("PUT", "/collections/mine_notes/index")
    }
    assert indexes == {
        "user": {"type": "keyword", "is_tenant": True},
        "state": "keyword",
        "labels": "keyword",
        "at": "float",
        "order": "integer",
    }
    (bare,) = server.bodies("PUT", "/collections/mine_bare")
    assert bare.get("vectors", {}) == {}


async def test_opening_again_asks_nothing(backend: QdrantBackend, server: Any, specs: Any) -> None:
    asked = len(server.requests)
    assert await backend.open(specs, create=True)
    assert await backend.open(specs, create=False)
    assert len(server.requests) == asked


async def test_reading_makes_nothing(server: Any, specs: Any) -> None:
    reader = QdrantBackend(URL)
    assert not await reader.open(specs, create=False)
    assert {request.method for request in server.requests} == {"GET"}
    await reader.close()


async def test_a_half_made_store_is_completed(backend: QdrantBackend, server: Any, specs: Any) -> None:
    await backend.upsert("bare", [Point(point_id(1), {"what": "kept"}, {})])
    spec = specs[0]
    later = CollectionSpec("later", spec.dense, spec.sparse, spec.fields)
    more = CollectionSpec(spec.name, spec.dense, spec.sparse, {**spec.fields, "extra": "float"})
    second = QdrantBackend(URL, prefix="mine")
    assert not await second.open([more, later], create=False)
    assert await second.open([more, specs[1], later], create=True)
    assert server.bodies("PUT", "/collections/mine_notes/index")[-1]["field_name"] == "extra"
    assert await second.retrieve("bare", [point_id(1)]) == {point_id(1): {"what": "kept"}}
    await second.close()


async def test_another_process_may_be_faster(server: Any, specs: Any) -> None:
    first, second = QdrantBackend(URL), QdrantBackend(URL)
    looked = False

    def slip_in(request: httpx.Request) -> httpx.Response | None:
        nonlocal looked
        if request.url.path.endswith("notes/exists") and not looked:
            looked = True
            return httpx.Response(200, json={"result": {"exists": False}, "status": "ok", "time": 0.0})
        return None

    assert await first.open(specs, create=True)
    server.answer = slip_in
    assert await second.open(specs, create=True)
    assert looked
    await first.close()
    await second.close()


async def test_prefixes_keep_stores_apart(backend: QdrantBackend, specs: Any) -> None:
    other = QdrantBackend(URL, prefix="yours")
    assert not await other.open(specs, create=False)
    assert await other.open(specs, create=True)
    await other.upsert("notes", [note(1, state="a")])
    assert await backend.count("notes", ALL) == 0
    await other.close()


async def test_every_write_waits_and_points_go_in_batches(backend: QdrantBackend, server: Any) -> None:
    before = len(server.requests)
    points = [Point(point_id(n), {"state": "a"}, {"dense": [1, 0, 0, 0]}) for n in range(1, 2 * BATCH + 2)]
    await backend.upsert("notes", points)
    await backend.upsert("notes", points[:1], only_new=True)
    await backend.set_payload("notes", [point_id(1)], {"state": "b"})
    await backend.set_vectors("notes", points[:2])
    await backend.delete("notes", [point_id(1)])
    writes = [
        request
        for request in server.requests[before:]
        if request.method == "PUT" or request.url.path.endswith(("/payload", "/delete"))
    ]
    assert len(writes) == 7
    assert all(request.url.params["wait"] == "true" for request in writes)
    sent = server.bodies("PUT", "/collections/mine_notes/points")
    assert [len(body["points"]) for body in sent] == [BATCH, BATCH, 1, 1]
    assert [body.get("update_mode") for body in sent] == [None, None, None, "insert_only"]


async def test_reads_are_exact(backend: QdrantBackend, server: Any) -> None:
    await backend.count("notes", ALL)
    await backend.facet("notes", "state", ALL)
    assert server.bodies("POST", "/collections/mine_notes/points/count")[0]["exact"] is True
    assert server.bodies("POST", "/collections/mine_notes/facet")[0]["exact"] is True


# Errors


def answered(status: int, **options: Any) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, **options)


def raised(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    return answer


FAILURES = {
    "unreachable": (raised(httpx.ConnectError("All connection attempts failed")), "cannot be reached"),
    "silent": (raised(httpx.ReadTimeout("")), "did not answer in time"),
    "no key": (
        answered(401, text="Must provide an API key or an Authorization bearer token"),
        "DUALMEM_QDRANT_API_KEY",
    ),
    "wrong key": (answered(403, text="forbidden"), "refused the API key"),
    "broken": (answered(500, json={"status": {"error": "Service internal error: disk full"}}), "500.*disk full"),
    "proxy": (answered(502, text="<html>Bad gateway</html>"), "502: Bad Gateway"),
    "busy": (answered(429, headers={"Retry-After": "3"}, json={"status": {"error": "slow down"}}), "slow down"),
    "stranger": (answered(200, text="hello"), "cannot be read|failed"),
}


@pytest.mark.parametrize(("answer", "message"), FAILURES.values(), ids=FAILURES.keys())
async def test_failures_name_the_server_and_never_the_key(
    server: Any, specs: Any, answer: Callable[[httpx.Request], httpx.Response], message: str
) -> None:
    backend = QdrantBackend(URL.replace("//", "//someone:secret@"), api_key=KEY)
    server.answer = answer
    with pytest.raises(StoreError, match=message) as caught:
        await backend.open(specs, create=True)
    assert URL in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error} {error!r}"
        assert "secret" not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__
    server.answer = lambda _: None
    assert await backend.open(specs, create=True)
    server.answer = answer
    with pytest.raises(StoreError, match=message):
        await backend.upsert("notes", [note(1)])
    await backend.close()


async def test_the_key_is_sent_without_the_blanks_around_it(server: Any, specs: Any) -> None:
    backend = QdrantBackend(URL, api_key=f" {KEY}\n")
    await backend.open(specs, create=False)
    assert {request.headers["api-key"] for request in server.requests} == {KEY}
    await backend.close()


async def test_an_old_server_is_refused(server: Any, specs: Any) -> None:
    server.version = "1.16.3"
    backend = QdrantBackend(URL)
    with pytest.raises(StoreError, match=r"version 1\.16\.3: 1\.17 or later"):
        await backend.open(specs, create=True)
    assert len(server.requests) == 1
    server.version = "2.0.0-dev"
    assert not await backend.open(specs, create=False)
    await backend.close()


async def test_a_field_without_an_index_is_an_error_not_an_empty_answer(backend: QdrantBackend) -> None:
    with pytest.raises(StoreError, match="Index required"):
        await backend.scroll("notes", Filter((Condition("text", ("x",)),)))


@pytest.mark.usefixtures("backend")
async def test_a_store_without_a_vector_that_is_needed_is_an_error(specs: Any) -> None:
    spec = specs[0]
    other = CollectionSpec(spec.name, {**spec.dense, "newer": 4}, spec.sparse, spec.fields)
    second = QdrantBackend(URL, prefix="mine")
    with pytest.raises(StoreError, match="newer"):
        await second.open([other], create=True)
    await second.close()


@pytest.mark.parametrize(
    "location", ["qdrant.test:6333", "ftp://qdrant.test", "https://", "http://h:port", "", "/folder"]
)
def test_a_location_that_is_no_url_is_an_error(location: str) -> None:
    with pytest.raises(ConfigurationError, match="URL"):
        QdrantBackend(location)


def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        QdrantBackend(URL, api_key="schlüssel")
    assert "schl" not in str(caught.value)


# In memory


async def test_stores_in_memory_are_apart_and_end_with_closing(specs: Any) -> None:
    first, second = QdrantBackend(":memory:"), QdrantBackend(":memory:")
    assert await first.open(specs, create=True)
    assert not await second.open(specs, create=False)
    await first.upsert("notes", [note(1)])
    await first.close()
    assert not await first.open(specs, create=False)
    await first.close()
    await second.close()
