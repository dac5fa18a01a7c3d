"""What `Backend` promises, asked of every backend: in process, in memory, and over the wire."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from dualmem.errors import EmbeddingMismatch, StoreError
from dualmem.stores.backend import (
    Backend,
    CollectionSpec,
    Condition,
    Filter,
    Point,
    Ranking,
    Sparse,
    batches,
    distinct,
)
from dualmem.stores.qdrant import QdrantBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

ALL = Filter()


def point_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


def note(number: int, *, vectors: dict[str, list[float] | Sparse] | None = None, **payload: Any) -> Point:
    return Point(point_id(number), payload, vectors or {})


def numbers(ids: Sequence[str]) -> list[int]:
    return [int(key.replace("-", ""), 16) for key in ids]


async def scrolled(backend: Backend, where: Filter = ALL, **options: Any) -> list[int]:
    return numbers([key for key, _ in await backend.scroll("notes", where, **options)])


def words(*indices: int) -> Sparse:
    return Sparse(tuple(sorted(indices)), (1.0,) * len(indices))


# Opening and closing


async def test_without_create_nothing_is_there_and_nothing_is_made(unopened: Backend, specs: Any) -> None:
    assert not await unopened.open(specs, create=False)
    assert not await unopened.open(specs, create=False)
    with pytest.raises(StoreError, match="notes"):
        await unopened.count("notes", ALL)
    await unopened.close()


async def test_opening_and_closing_can_be_repeated(backend: Backend, specs: Any) -> None:
    assert await backend.open(specs, create=True)
    assert await backend.open(specs, create=False)
    await backend.close()
    await backend.close()


async def test_a_closed_backend_refuses_every_call(backend: Backend) -> None:
    await backend.close()
    for call in (
        backend.upsert("notes", [note(1)]),
        backend.set_payload("notes", [point_id(1)], {"state": "x"}),
        backend.set_vectors("notes", [note(1, vectors={"dense": [1, 0, 0, 0]})]),
        backend.delete("notes", [point_id(1)]),
        backend.retrieve("notes", [point_id(1)]),
        backend.scroll("notes", ALL),
        backend.vectors("notes", [point_id(1)], "dense"),
        backend.count("notes", ALL),
        backend.facet("notes", "state", ALL),
        backend.rank("notes", [Ranking("by time", 3, ALL, order_by="at")]),
    ):
        with pytest.raises(StoreError):
            await call


async def test_a_collection_that_was_not_opened_is_an_error(backend: Backend) -> None:
    with pytest.raises(StoreError, match="others"):
        await backend.retrieve("others", [point_id(1)])


async def test_collections_can_be_opened_one_after_another(unopened: Backend, specs: Any) -> None:
    notes, bare = specs
    assert await unopened.open([bare], create=True)
    await unopened.upsert("bare", [Point(point_id(1), {"what": "identity"}, {})])
    assert not await unopened.open(specs, create=False)
    assert await unopened.open([notes, bare], create=True)
    assert await unopened.retrieve("bare", [point_id(1)]) == {point_id(1): {"what": "identity"}}
    await unopened.close()


async def test_a_reader_need_not_know_the_size_of_vectors(backend: Backend, specs: Any) -> None:
    await backend.upsert("notes", [note(1, vectors={"dense": [3, 0, 4, 0]})])
    unknown = CollectionSpec("notes", {"dense": 0, "other": 0}, specs[0].sparse, specs[0].fields)
    assert await backend.open([unknown], create=False)
    assert (await backend.vectors("notes", [point_id(1)], "dense"))[point_id(1)] == pytest.approx([0.6, 0, 0.8, 0])
    with pytest.raises(EmbeddingMismatch, match="4 numbers, this one 2"):
        await backend.upsert("notes", [note(2, vectors={"dense": [1, 0]})])


# Writing and reading points


async def test_a_payload_comes_back_as_it_was(backend: Backend) -> None:
    payload = {
        "user": "ünïcode@example.org",
        "text": '日本語 – مرحبا – 👩‍👩‍👧 \n\t"quoted"',
        "at": 1_700_000_000.123456,
        "order": -(2**53),
        "nothing": None,
        "flag": True,
        "labels": [],
        "nested": {"list": [1, 2.5, None, {"deep": ["x"]}], "": "blank key"},
    }
    await backend.upsert("notes", [Point(point_id(7), payload, {})])
    assert await backend.retrieve("notes", [point_id(7)]) == {point_id(7): payload}
    assert await backend.scroll("notes", ALL) == [(point_id(7), payload)]


async def test_ids_come_back_as_canonical_text(backend: Backend) -> None:
    key = "c2d29867-3d0b-d497-9191-18a9d8ee7830"
    await backend.upsert("notes", [Point(key, {"at": 1.0}, {"dense": [1, 0, 0, 0]})])
    rankings = [Ranking("near", 1, ALL, "dense", [1, 0, 0, 0]), Ranking("late", 1, ALL, order_by="at")]
    ranked = await backend.rank("notes", rankings)
    assert [[hit.id for hit in hits] for hits in ranked] == [[key], [key]]
    assert list(await backend.retrieve("notes", [key])) == [key]
    assert list(await backend.vectors("notes", [key], "dense")) == [key]
    assert [found for found, _ in await backend.scroll("notes", ALL)] == [key]
    assert [found for found, _ in await backend.scroll("notes", ALL, order_by="at")] == [key]


async def test_payloads_are_read_only_as_far_as_they_are_wanted(backend: Backend) -> None:
    await backend.upsert("notes", [Point(point_id(1), {"state": "new", "order": 1}, {"dense": [1, 0, 0, 0]})])
    near = [Ranking("near", 1, ALL, "dense", [1, 0, 0, 0])]
    assert await backend.retrieve("notes", [point_id(1)], fields=["state"]) == {point_id(1): {"state": "new"}}
    (whole,) = await backend.rank("notes", near)
    (bare,) = await backend.rank("notes", near, with_payload=False)
    assert [(hit.id, hit.score) for hit in bare] == [(hit.id, hit.score) for hit in whole]
    assert ([hit.payload for hit in bare], [hit.payload for hit in whole]) == ([{}], [{"state": "new", "order": 1}])


async def test_upsert_replaces_a_point_whole(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, state="old", order=1, vectors={"dense": [1, 0, 0, 0], "words": words(5)})])
    await backend.upsert("notes", [note(1, state="new", vectors={"other": [0, 1, 0]})])
    assert await backend.retrieve("notes", [point_id(1)]) == {point_id(1): {"state": "new"}}
    assert await backend.vectors("notes", [point_id(1)], "dense") == {}
    assert await backend.vectors("notes", [point_id(1)], "other") == {point_id(1): [0, 1, 0]}
    assert await backend.rank("notes", [Ranking("words", 5, ALL, "words", words(5))]) == [[]]


async def test_only_new_leaves_what_exists(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, state="old", vectors={"dense": [1, 0, 0, 0]})])
    again = [note(1, state="new", vectors={"dense": [0, 1, 0, 0]}), note(2, state="new")]
    await backend.upsert("notes", again, only_new=True)
    found = await backend.retrieve("notes", [point_id(1), point_id(2)])
    assert found == {point_id(1): {"state": "old"}, point_id(2): {"state": "new"}}
    assert await backend.vectors("notes", [point_id(1)], "dense") == {point_id(1): [1, 0, 0, 0]}


@pytest.mark.parametrize(("only_new", "kept"), [(False, "last"), (True, "first")])
async def test_of_several_points_with_one_id_one_counts(backend: Backend, *, only_new: bool, kept: str) -> None:
    twins = [note(1, state="first"), note(2, state="else"), note(1, state="last")]
    await backend.upsert("notes", twins, only_new=only_new)
    assert (await backend.retrieve("notes", [point_id(1)]))[point_id(1)] == {"state": kept}
    assert await backend.count("notes", ALL) == 2


async def test_set_payload_merges_and_passes_over_missing_ids(backend: Backend) -> None:
    first = note(1, state="a", order=1, at=1.0, links={"old": 1}, vectors={"dense": [1, 0, 0, 0]})
    await backend.upsert("notes", [first, note(2, state="b")])
    ids = [point_id(9), point_id(1), point_id(2), point_id(8)]
    await backend.set_payload("notes", ids, {"state": "c", "at": None, "links": {"new": 2}, "labels": ["x", "y"]})
    assert await backend.retrieve("notes", ids) == {
        point_id(1): {"state": "c", "order": 1, "links": {"new": 2}, "labels": ["x", "y"]},
        point_id(2): {"state": "c", "links": {"new": 2}, "labels": ["x", "y"]},
    }
    assert await scrolled(backend, Filter((Condition("state", ("c",)), Condition("labels", ("y",))))) == [1, 2]
    assert await backend.count("notes", Filter((Condition("state", ("a", "b")),))) == 0
    assert await backend.count("notes", Filter((Condition("at", low=0.0),))) == 0
    assert await backend.vectors("notes", [point_id(1)], "dense") == {point_id(1): [1, 0, 0, 0]}


async def test_vectors_can_be_set_later(backend: Backend) -> None:
    near = Ranking("near", 5, ALL, "dense", [1, 0, 0, 0])
    await backend.upsert("notes", [note(1, state="a"), note(2, state="b", vectors={"dense": [0.9, 0.1, 0, 0]})])
    assert [hit.id for hit in (await backend.rank("notes", [near]))[0]] == [point_id(2)]
    later = [
        note(9, vectors={"dense": [1, 0, 0, 0]}),
        note(1, state="ignored", vectors={"dense": [2, 0, 0, 0], "words": words(3)}),
    ]
    await backend.set_vectors("notes", later)
    ranked = await backend.rank("notes", [near, Ranking("words", 5, ALL, "words", words(3))])
    assert [[hit.id for hit in hits] for hits in ranked] == [[point_id(1), point_id(2)], [point_id(1)]]
    assert await backend.retrieve("notes", [point_id(1), point_id(9)]) == {point_id(1): {"state": "a"}}


async def test_set_vectors_leaves_the_other_vectors(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, vectors={"dense": [1, 0, 0, 0], "words": words(3)})])
    await backend.set_vectors("notes", [note(1, vectors={"words": words(4)}), note(2, vectors={"words": words(4)})])
    old, new, dense = await backend.rank(
        "notes",
        [
            Ranking("old", 5, ALL, "words", words(3)),
            Ranking("new", 5, ALL, "words", words(4)),
            Ranking("dense", 5, ALL, "dense", [1, 0, 0, 0]),
        ],
    )
    assert (old, [hit.id for hit in new], [hit.id for hit in dense]) == ([], [point_id(1)], [point_id(1)])


async def test_vectors_come_back_normalised_from_those_that_have_them(backend: Backend) -> None:
    await backend.upsert(
        "notes", [note(1, vectors={"dense": [3, 4, 0, 0]}), note(2, vectors={"other": [1, 0, 0]}), note(3)]
    )
    found = await backend.vectors("notes", [point_id(n) for n in (1, 2, 3, 4)], "dense")
    assert list(found) == [point_id(1)]
    assert found[point_id(1)] == pytest.approx([0.6, 0.8, 0, 0])
    assert all(type(value) is float for value in found[point_id(1)])


async def test_delete_passes_over_missing_ids(backend: Backend) -> None:
    await backend.upsert("notes", [note(n, vectors={"dense": [1, n, 0, 0]}, state="a") for n in range(1, 5)])
    await backend.delete("notes", [point_id(2), point_id(9), point_id(3)])
    await backend.delete("notes", [point_id(2)])
    assert await scrolled(backend) == [1, 4]
    assert await backend.facet("notes", "state", ALL) == {"a": 2}
    ranked = await backend.rank("notes", [Ranking("near", 9, ALL, "dense", [1, 3, 0, 0])])
    assert sorted(numbers([hit.id for hit in ranked[0]])) == [1, 4]


async def test_nothing_asked_is_nothing_called(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    await backend.upsert("notes", [note(1, state="a")])
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", refuse)
        patch.setattr(QdrantBackend, "_session", refuse)
        await backend.upsert("notes", [])
        await backend.set_payload("notes", [], {"state": "b"})
        await backend.set_payload("notes", [point_id(1)], {})
        await backend.set_vectors("notes", [])
        await backend.delete("notes", [])
        assert await backend.retrieve("notes", []) == {}
        assert await backend.vectors("notes", [], "dense") == {}
        assert await backend.rank("notes", []) == []
        assert await backend.scroll("notes", ALL, limit=0) == []
    assert await backend.retrieve("notes", [point_id(1)]) == {point_id(1): {"state": "a"}}


BROKEN: list[tuple[str, list[float] | Sparse, type[StoreError]]] = [
    ("dense", [1.0, 2.0], EmbeddingMismatch),
    ("dense", [1.0, math.nan, 0.0, 0.0], StoreError),
    ("dense", [1.0, math.inf, 0.0, 0.0], StoreError),
    ("nowhere", [1.0, 0.0, 0.0, 0.0], StoreError),
    ("words", [1.0, 0.0, 0.0, 0.0], StoreError),
    ("dense", Sparse((1,), (1.0,)), StoreError),
    ("words", Sparse((1, 2), (1.0,)), StoreError),
    ("words", Sparse((1,), (1.0, 2.0)), StoreError),
    ("words", Sparse((2, 1), (1.0, 1.0)), StoreError),
    ("words", Sparse((1, 1), (1.0, 1.0)), StoreError),
    ("words", Sparse((-1,), (1.0,)), StoreError),
    ("words", Sparse((2**32,), (1.0,)), StoreError),
    ("words", Sparse((1,), (math.nan,)), StoreError),
]


async def test_a_vector_that_cannot_be_stored_is_refused_before_anything_is_written(backend: Backend) -> None:
    await backend.upsert("notes", [note(3)])
    for name, vector, error in BROKEN:
        bad = Point(point_id(3), {"state": "changed"}, {name: vector})
        with pytest.raises(error):
            await backend.upsert("notes", [note(1), bad])
        with pytest.raises(error):
            await backend.set_vectors("notes", [note(3, vectors={"other": [1, 0, 0]}), bad])
        with pytest.raises(error):
            await backend.rank("notes", [Ranking("bad", 3, ALL, name, vector)])
        assert await backend.scroll("notes", ALL) == [(point_id(3), {})], (name, vector)
        assert await backend.vectors("notes", [point_id(3)], "other") == {}, (name, vector)


async def test_a_payload_that_is_not_json_is_refused_before_anything_is_written(backend: Backend) -> None:
    await backend.upsert("notes", [note(3)])
    values: list[object] = [math.nan, math.inf, {1, 2}, object(), "\ud800", b"bytes"]
    for value in values:
        with pytest.raises(StoreError):
            await backend.upsert("notes", [note(1), note(2, text=["deep", {"in": value}])])
        with pytest.raises(StoreError):
            await backend.set_payload("notes", [point_id(3)], {"text": value})
        assert await backend.scroll("notes", ALL) == [(point_id(3), {})], value


async def test_an_id_that_is_no_uuid_is_refused(backend: Backend) -> None:
    with pytest.raises(StoreError):
        await backend.upsert("notes", [Point("not-a-uuid", {}, {})])
    assert await backend.count("notes", ALL) == 0


# Scrolling


@pytest.fixture
async def many(backend: Backend) -> Backend:
    """A backend with 2,345 points; every fifth has no time, every seventh no order."""
    points = []
    for number in range(1, 2346):
        payload: dict[str, Any] = {"user": f"u{number % 3}"}
        if number % 5:
            payload["at"] = 1_700_000_000 + (number * 7919 % 2346) / 8
        if number % 7:
            payload["order"] = number // 10
        points.append(note(number, **payload))
    await backend.upsert("notes", points)
    return backend


async def test_scroll_pages_to_the_end(many: Backend) -> None:
    assert sorted(await scrolled(many)) == list(range(1, 2346))
    assert sorted(await scrolled(many, ids_only=True)) == list(range(1, 2346))
    mine = Filter((Condition("user", ("u1",)),))
    assert sorted(await scrolled(many, mine)) == list(range(1, 2346, 3))
    assert [len(await scrolled(many, limit=limit)) for limit in (1, 1000, 1001, 2345, 9999)] == [
        1,
        1000,
        1001,
        2345,
        2345,
    ]


@pytest.mark.parametrize("descending", [False, True])
async def test_scroll_by_a_float_is_in_its_order(many: Backend, *, descending: bool) -> None:
    held = [number for number in range(1, 2346) if number % 5]
    held.sort(key=lambda number: number * 7919 % 2346, reverse=descending)
    for limit in (None, 10, 1500, 9999):
        options: dict[str, Any] = {"order_by": "at", "descending": descending, "limit": limit}
        assert await scrolled(many, **options) == held[:limit]
        assert await scrolled(many, ids_only=True, **options) == held[:limit]


@pytest.mark.parametrize("descending", [False, True])
async def test_scroll_by_an_integer_keeps_every_tie(many: Backend, *, descending: bool) -> None:
    where = Filter((Condition("user", ("u2",)),))
    rows = await many.scroll("notes", where, order_by="order", descending=descending)
    orders = [payload["order"] for _, payload in rows]
    assert orders == sorted(orders, reverse=descending)
    assert sorted(numbers([key for key, _ in rows])) == [n for n in range(2, 2346, 3) if n % 7]


async def test_ids_only_leaves_payloads_out(many: Backend) -> None:
    several: list[dict[str, Any]] = [{}, {"order_by": "at"}, {"order_by": "at", "limit": 3}]
    for options in several:
        rows = await many.scroll("notes", ALL, ids_only=True, **options)
        assert rows
        assert not any(payload for _, payload in rows)


async def test_points_with_a_null_are_not_in_the_order(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, at=None), note(2, at=2.0), note(3), note(4, at=1.0)])
    assert await scrolled(backend, order_by="at") == [4, 2]
    assert await scrolled(backend, order_by="at", limit=1) == [4]
    ranked = await backend.rank("notes", [Ranking("early", 9, ALL, order_by="at")])
    assert numbers([hit.id for hit in ranked[0]]) == [4, 2]


# Filters


@pytest.fixture
async def filtered(backend: Backend) -> Backend:
    vectors: dict[str, list[float] | Sparse] = {"dense": [1, 0, 0, 0]}
    await backend.upsert(
        "notes",
        [
            note(1, user="a", state="active", labels=["x", "y"], at=10.0, order=1, vectors=vectors),
            note(2, user="a", state="active", labels=["y"], at=20.5, order=2, vectors=vectors),
            note(3, user="a", state="merged", labels=[], at=30.0, order=3, vectors=vectors),
            note(4, user="b", state="active", labels=["x"], at=20.5, order=4, vectors=vectors),
            note(5, user="b", state="superseded", at=None, order=5, vectors=vectors),
            note(6, user="b", order=6, vectors=vectors),
        ],
    )
    return backend


def has(field: str, *values: str) -> Condition:
    return Condition(field, any_of=values)


FILTERS: list[tuple[str, Filter, list[int]]] = [
    ("everything", ALL, [1, 2, 3, 4, 5, 6]),
    ("one value", Filter((has("user", "a"),)), [1, 2, 3]),
    ("no such value", Filter((has("user", "c"),)), []),
    ("one of two", Filter((has("state", "merged", "superseded"),)), [3, 5]),
    ("one of none", Filter((has("state"),)), []),
    ("two conditions", Filter((has("user", "a"), has("state", "active"))), [1, 2]),
    ("in a list", Filter((has("labels", "x"),)), [1, 4]),
    ("several in a list", Filter((has("labels", "x", "y"),)), [1, 2, 4]),
    ("none of", Filter((Condition("state", none_of=("active",)),)), [3, 5, 6]),
    ("none of two", Filter((Condition("state", none_of=("active", "merged")),)), [5, 6]),
    ("none of none", Filter((Condition("state", none_of=()),)), [1, 2, 3, 4, 5, 6]),
    ("none of, in a list", Filter((Condition("labels", none_of=("x",)),)), [2, 3, 5, 6]),
    ("from", Filter((Condition("at", low=20.5),)), [2, 3, 4]),
    ("until", Filter((Condition("at", high=20.5),)), [1, 2, 4]),
    ("between", Filter((Condition("at", low=10.5, high=29.9),)), [2, 4]),
    ("an instant", Filter((Condition("at", low=20.5, high=20.5),)), [2, 4]),
    ("integers", Filter((Condition("order", low=2, high=4.5),)), [2, 3, 4]),
    ("until, or at no time", Filter((Condition("at", high=20.5, or_missing=True),)), [1, 2, 4, 5, 6]),
    ("another field in its place", Filter((Condition("at", low=5.5, high=20.5, instead="order"),)), [1, 2, 4, 6]),
    ("one value, or none at all", Filter((Condition("labels", any_of=("x",), or_missing=True),)), [1, 3, 4, 5, 6]),
    ("no value, or none at all", Filter((Condition("labels", any_of=(), or_missing=True),)), [3, 5, 6]),
    (
        "either, or at no time",
        Filter((has("user", "b"),), (Condition("at", low=30.0, or_missing=True), has("labels", "x"))),
        [4, 5, 6],
    ),
    ("parts of one condition", Filter((Condition("labels", any_of=("x", "y"), none_of=("x",)),)), [2]),
    ("either", Filter(either=(has("state", "merged"), Condition("at", low=20.0, high=21.0))), [2, 3, 4]),
    ("either one", Filter(either=(has("user", "b"),)), [4, 5, 6]),
    ("either or none of", Filter(either=(has("user", "a"), Condition("state", none_of=("active",)))), [1, 2, 3, 5, 6]),
    ("either of nothing", Filter(either=(has("state"), has("user", "b"))), [4, 5, 6]),
    (
        "conditions and either",
        Filter(
            (has("user", "a"), Condition("state", none_of=("merged",))), (has("labels", "x"), Condition("at", low=30.0))
        ),
        [1],
    ),
]


async def test_a_filter_means_the_same_everywhere(filtered: Backend) -> None:
    for name, where, expected in FILTERS:
        assert sorted(await scrolled(filtered, where)) == expected, name
        assert await scrolled(filtered, where, order_by="order") == expected, name
        assert await filtered.count("notes", where) == len(expected), name
        assert sum((await filtered.facet("notes", "user", where)).values()) == len(expected), name
        near, last = await filtered.rank(
            "notes",
            [
                Ranking("near", 9, where, "dense", [1, 0, 0, 0]),
                Ranking("last", 9, where, order_by="order", descending=True),
            ],
        )
        assert sorted(numbers([hit.id for hit in near])) == expected, name
        assert numbers([hit.id for hit in last]) == expected[::-1], name


TENANTS = ["a.b@c.example", "a", "A", "1", " ", "a b", "日本", "🐙", "x" * 300, "a/b\\c", '"', "null", "true", "\u0000"]


async def test_tenants_are_kept_apart(backend: Backend) -> None:
    vectors: dict[str, list[float] | Sparse] = {"dense": [1, 0, 0, 0], "words": words(1)}
    await backend.upsert(
        "notes", [note(n, user=user, at=float(n), vectors=vectors) for n, user in enumerate(TENANTS, 1)]
    )
    assert await backend.facet("notes", "user", ALL) == dict.fromkeys(TENANTS, 1)
    for number, user in enumerate(TENANTS, 1):
        own = Filter((has("user", user),))
        assert await scrolled(backend, own) == [number]
        assert await backend.count("notes", own) == 1
        assert await backend.facet("notes", "user", own) == {user: 1}
        ranked = await backend.rank(
            "notes",
            [
                Ranking("near", 9, own, "dense", [1, 0, 0, 0]),
                Ranking("words", 9, own, "words", words(1)),
                Ranking("late", 9, own, order_by="at"),
            ],
        )
        assert [[hit.payload["user"] for hit in hits] for hits in ranked] == [[user]] * 3


async def test_facets_count_every_value(backend: Backend) -> None:
    points = [note(n, user=f"u{n % 1203}", labels=["all", f"l{n % 2}"], state="a") for n in range(1, 1501)]
    await backend.upsert("notes", points)
    users = await backend.facet("notes", "user", ALL)
    assert (len(users), sum(users.values()), users["u5"], users["u900"]) == (1203, 1500, 2, 1)
    assert await backend.facet("notes", "labels", ALL) == {"all": 1500, "l0": 750, "l1": 750}
    assert await backend.facet("notes", "labels", Filter((has("user", "u5"),))) == {"all": 2, "l0": 1, "l1": 1}
    assert await backend.facet("notes", "labels", Filter((has("user", "nobody"),))) == {}


async def test_facets_leave_out_values_that_are_gone(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, user="a", state="old"), note(2, user="b", state="old"), note(3, user="b")])
    await backend.delete("notes", [point_id(1)])
    await backend.set_payload("notes", [point_id(2)], {"state": "new"})
    await backend.upsert("notes", [note(3, user="c")])
    assert await backend.facet("notes", "user", ALL) == {"b": 1, "c": 1}
    assert await backend.facet("notes", "state", ALL) == {"new": 1}


# Ranking


async def test_a_dense_ranking_is_by_cosine_under_the_filter(backend: Backend) -> None:
    await backend.upsert(
        "notes",
        [
            note(1, user="a", vectors={"dense": [0, 5, 0, 0]}),
            note(2, user="a", vectors={"dense": [3, 4, 0, 0]}),
            note(3, user="a", vectors={"dense": [-1, 0, 0, 0]}),
            note(4, user="b", vectors={"dense": [1, 0, 0, 0]}),
            note(5, user="a"),
            note(6, user="a", vectors={"other": [1, 0, 0], "words": words(1)}),
        ],
    )
    own = Filter((has("user", "a"),))
    (hits,) = await backend.rank("notes", [Ranking("near", 9, own, "dense", [2, 0, 0, 0])])
    assert numbers([hit.id for hit in hits]) == [2, 1, 3]
    assert [hit.score for hit in hits] == pytest.approx([0.6, 0.0, -1.0])
    assert [hit.payload for hit in hits] == [{"user": "a"}] * 3
    (hits,) = await backend.rank("notes", [Ranking("near", 1, own, "dense", [2, 0, 0, 0])])
    assert numbers([hit.id for hit in hits]) == [2]


async def test_a_sparse_ranking_prefers_rare_terms(backend: Backend) -> None:
    common, rare = 3, 2**32 - 1
    await backend.upsert("notes", [note(n, user="a", vectors={"words": words(common)}) for n in range(1, 41)])
    await backend.upsert(
        "notes",
        [
            note(50, user="a", vectors={"words": words(rare)}),
            note(51, user="a", vectors={"words": words(common, rare)}),
            note(52, user="a", vectors={"words": words(7)}),
            note(53, user="a", vectors={"dense": [1, 0, 0, 0]}),
            note(54, user="b", vectors={"words": words(common, rare)}),
        ],
    )
    own = Filter((has("user", "a"),))
    (hits,) = await backend.rank("notes", [Ranking("words", 99, own, "words", words(common, rare))])
    assert numbers([hit.id for hit in hits[:2]]) == [51, 50]
    assert len(hits) == 42
    assert hits[0].score > hits[1].score > 10 * hits[2].score > 0


async def test_the_weights_of_a_sparse_vector_count(backend: Backend) -> None:
    await backend.upsert(
        "notes",
        [
            note(1, vectors={"words": Sparse((1, 2), (0.5, 2.0))}),
            note(2, vectors={"words": Sparse((1, 2), (2.0, 0.5))}),
        ],
    )
    first, second = await backend.rank(
        "notes",
        [
            Ranking("first", 9, ALL, "words", Sparse((1, 2), (1.0, 0.1))),
            Ranking("second", 9, ALL, "words", Sparse((1, 2), (0.1, 1.0))),
        ],
    )
    assert (numbers([hit.id for hit in first]), numbers([hit.id for hit in second])) == ([2, 1], [1, 2])


async def test_no_shared_term_is_no_hit(backend: Backend) -> None:
    await backend.upsert("notes", [note(n, user="a", vectors={"words": words(n)}) for n in range(1, 4)])
    for where in (ALL, Filter((has("user", "a"),))):
        ranked = await backend.rank(
            "notes",
            [
                Ranking("other", 9, where, "words", words(99)),
                Ranking("empty", 9, where, "words", words()),
                Ranking("tags", 9, where, "tags", words(1)),
            ],
        )
        assert ranked == [[], [], []]


async def test_a_point_may_have_an_empty_sparse_vector(backend: Backend) -> None:
    await backend.upsert("notes", [note(1, vectors={"words": words(), "tags": words(4)})])
    ranked = await backend.rank(
        "notes", [Ranking("w", 9, ALL, "words", words(4)), Ranking("t", 9, ALL, "tags", words(4))]
    )
    assert [[hit.id for hit in hits] for hits in ranked] == [[], [point_id(1)]]


async def test_several_rankings_come_in_one_call_each_in_its_order(backend: Backend) -> None:
    await backend.upsert(
        "notes",
        [
            note(1, at=3.0, order=1, vectors={"dense": [1, 0, 0, 0], "other": [0, 1, 0], "words": words(1, 2)}),
            note(2, at=1.0, order=2, vectors={"dense": [0, 1, 0, 0], "other": [1, 0, 0], "words": words(2)}),
            note(3, at=2.0, order=3, vectors={"dense": [1, 1, 0, 0], "tags": words(2)}),
        ],
    )
    ranked = await backend.rank(
        "notes",
        [
            Ranking("dense", 2, ALL, "dense", [1, 0, 0, 0]),
            Ranking("early", 9, ALL, order_by="at"),
            Ranking("none", 0, ALL, "dense", [1, 0, 0, 0]),
            Ranking("other", 9, ALL, "other", [1, 0, 0]),
            Ranking("words", 9, ALL, "words", words(1)),
            Ranking("tags", 9, ALL, "tags", words(2)),
            Ranking("late", 2, Filter((Condition("order", low=2),)), order_by="at", descending=True),
        ],
    )
    assert [numbers([hit.id for hit in hits]) for hits in ranked] == [[1, 3], [2, 3, 1], [], [2, 1], [1], [3], [3, 2]]
    assert [hit.score for hit in ranked[1]] == [0.0, 0.0, 0.0]
    assert ranked[6][0].payload == {"at": 2.0, "order": 3}


async def test_a_ranking_by_an_unknown_vector_is_an_error(backend: Backend) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        await backend.rank("notes", [Ranking("x", 3, ALL, "nowhere", [1.0, 0.0, 0.0, 0.0])])


# Tasks, threads and event loops


async def test_sixteen_tasks_write_at_once(backend: Backend) -> None:
    async def write(task: int) -> None:
        for step in range(5):
            start = 1 + (task * 5 + step) * 10
            await backend.upsert("notes", [note(n, user=f"t{task}", state="a") for n in range(start, start + 10)])
            await backend.set_payload("notes", [point_id(start)], {"state": "b"})
            await backend.count("notes", Filter((has("user", f"t{task}"),)))
            await backend.delete("notes", [point_id(start + 9)])

    await asyncio.gather(*(write(task) for task in range(16)))
    assert await backend.facet("notes", "user", ALL) == {f"t{task}": 45 for task in range(16)}
    assert await backend.facet("notes", "state", ALL) == {"a": 640, "b": 80}


async def test_concurrent_conditional_writes_leave_one_winner(backend: Backend) -> None:
    await asyncio.gather(*(backend.upsert("notes", [note(1, state=str(task))], only_new=True) for task in range(16)))
    winner = await backend.retrieve("notes", [point_id(1)])
    await backend.upsert("notes", [note(1, state="late")], only_new=True)
    assert await backend.retrieve("notes", [point_id(1)]) == winner


def test_a_second_event_loop_may_use_it(unopened: Backend, specs: Any) -> None:
    async def first() -> None:
        assert await unopened.open(specs, create=True)
        await unopened.upsert("notes", [note(1, state="a")])

    async def second() -> dict[str, Any]:
        found = await unopened.retrieve("notes", [point_id(1)])
        await unopened.close()
        return found

    asyncio.run(first())
    assert asyncio.run(second()) == {point_id(1): {"state": "a"}}


async def test_threads_with_event_loops_of_their_own_may_use_it(backend: Backend) -> None:
    async def write(thread: int) -> None:
        for step in range(10):
            await backend.upsert("notes", [note(1 + thread * 10 + step, user=f"t{thread}")])
            await backend.count("notes", ALL)

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(thread)) for thread in range(6)))
    assert await backend.facet("notes", "user", ALL) == {f"t{thread}": 10 for thread in range(6)}


# Pure functions


def test_batches_cut_without_loss() -> None:
    assert [list(batch) for batch in batches(range(5), 2)] == [[0, 1], [2, 3], [4]]
    assert list(batches([], 2)) == []


def test_distinct_keeps_one_of_each_id() -> None:
    points = [note(1, state="first"), note(2), note(1, state="last")]
    assert {p.id: p.payload for p in distinct(points, only_new=False)}[point_id(1)] == {"state": "last"}
    assert {p.id: p.payload for p in distinct(points, only_new=True)}[point_id(1)] == {"state": "first"}
