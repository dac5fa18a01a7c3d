"""The memories through LangGraph's store interface, against what LangGraph's own store does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import SearchItem
from langgraph.store.memory import InMemoryStore

from dualmem import DualMem
from dualmem.errors import ConfigurationError, InputError
from dualmem.integrations.langgraph_store import DualMemStore

ANA = ("ana", "memories")


@pytest.fixture
def memory(open_memory: Callable[..., DualMem]) -> DualMem:
    """A memory whose model is never called."""
    return open_memory()


@pytest.fixture
def store(memory: DualMem) -> DualMemStore:
    return DualMemStore(memory)


@pytest.fixture(params=["dualmem", "langgraph"])
def either(request: pytest.FixtureRequest, memory: DualMem) -> Any:
    """Ours and LangGraph's own: what holds for both."""
    return DualMemStore(memory) if request.param == "dualmem" else InMemoryStore()


def told(items: list[SearchItem]) -> list[Any]:
    return [(item.namespace, item.key, item.value) for item in items]


VALUES: list[dict[str, Any]] = [
    {"content": "Ana plays the cello."},
    {"content": "Ana plays the cello.", "importance": 3},
    {"name": "Ana", "languages": ["Portuguese", "Deutsch"], "age": 41, "married": None},
    {"content": '{"not": "a value"}'},
    {"content": "{curly"},
    {"content": 5},
    {"kind": "Memory", "content": {"content": "Ana plays the cello."}},
    {"text": "安娜拉大提琴。"},
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
async def test_what_was_put_comes_back(either: Any, value: dict[str, Any]) -> None:
    await either.aput(ANA, "k1", value)
    item = await either.aget(ANA, "k1")
    assert (item.namespace, item.key, item.value) == (ANA, "k1", value)
    assert item.created_at.tzinfo is not None
    assert told(await either.asearch(ANA)) == [(ANA, "k1", value)]


async def test_a_key_holds_what_was_put_last(either: Any) -> None:
    for instrument in ("cello", "viola", "cello"):
        await either.aput(ANA, "k1", {"content": f"Ana plays the {instrument}."})
    assert told(await either.asearch(ANA)) == [(ANA, "k1", {"content": "Ana plays the cello."})]


async def test_nothing_is_left_of_what_a_key_held(store: DualMemStore, memory: DualMem) -> None:
    await store.aput(ANA, "k1", {"content": "Ana plays the cello."})
    await store.aput(ANA, "k1", {"content": "Ana plays the viola."})
    assert await memory.resources.store.count("ana") == (1, 1)
    assert "cello" not in await memory.context("cello", user_id="ana")


async def test_the_same_value_again_changes_nothing(store: DualMemStore, memory: DualMem) -> None:
    await store.aput(ANA, "k1", {"content": "Ana plays the cello."})
    before = await memory.memories(user_id="ana")
    await store.aput(ANA, "k1", {"content": "Ana plays the cello."})
    assert await memory.memories(user_id="ana") == before


async def test_deletes(either: Any) -> None:
    await either.aput(ANA, "k1", {"content": "Ana plays the cello."})
    await either.aput(ANA, "k2", {"content": "Ana likes figs."})
    await either.adelete(ANA, "k1")
    await either.adelete(ANA, "never there")
    assert await either.aget(ANA, "k1") is None
    assert [item.key for item in await either.asearch(ANA)] == ["k2"]


async def test_users_are_apart(either: Any) -> None:
    await either.aput(ANA, "k1", {"content": "Ana plays the cello."})
    await either.aput(("bea", "memories"), "k1", {"content": "Bea likes figs."})
    assert told(await either.asearch(("bea", "memories"))) == [
        (("bea", "memories"), "k1", {"content": "Bea likes figs."})
    ]
    await either.adelete(ANA, "k1")
    assert await either.aget(("bea", "memories"), "k1") is not None


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"colour": "red"}, ["k0", "k3"]),
        ({"colour": {"$ne": "red"}}, ["k1", "k2"]),
        ({"number": {"$gte": 1, "$lt": 3}}, ["k1", "k2"]),
        ({"number": {"$gt": 2}, "colour": {"$eq": "red"}}, ["k3"]),
        ({"number": {"$lte": 0}}, ["k0"]),
        ({"colour": {"$gt": 1}}, []),
        ({"missing": "red"}, []),
        ({}, ["k0", "k1", "k2", "k3"]),
    ],
    ids=str,
)
async def test_filters(store: DualMemStore, wanted: dict[str, Any], keys: list[str]) -> None:
    for number, colour in enumerate(["red", "blue", "green", "red"]):
        await store.aput(ANA, f"k{number}", {"content": f"thing {number}", "colour": colour, "number": number})
    assert [item.key for item in await store.asearch(ANA, filter=wanted)] == keys
    assert [item.key for item in await store.asearch(ANA, filter=wanted, limit=1, offset=1)] == keys[1:2]


async def test_an_unknown_filter_is_refused(store: DualMemStore) -> None:
    await store.aput(ANA, "k1", {"content": "Ana plays the cello."})
    with pytest.raises(InputError, match="near"):
        await store.asearch(ANA, filter={"content": {"$near": 1}})


async def test_a_query_ranks(store: DualMemStore) -> None:
    for number, thing in enumerate(["the cello", "chess", "tennis", "the viola"]):
        await store.aput(ANA, f"k{number}", {"content": f"Ana plays {thing}."})
    found = await store.asearch(ANA, query="Who plays tennis?", limit=2)
    assert found[0].key == "k2"
    assert len(found) == 2
    rest = await store.asearch(ANA, query="Who plays tennis?", offset=2)
    assert {item.key for item in (*found, *rest)} == {"k0", "k1", "k2", "k3"}


async def test_finds_what_was_learned_from_conversations(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any]
) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto."), user_id="ana")
    store = DualMemStore(memory)
    (item,) = await store.asearch(ANA, query="Where does Ana live?")
    assert item.value["content"] == "Ana lives in Porto."
    assert (item.value["attribute"], item.value["conversation_id"]) == ("home", "default")
    again = await store.aget(ANA, item.key)
    assert again is not None
    assert again.value == item.value
    assert await store.aget(("bea", "memories"), item.key) is None
    assert await store.asearch(ANA, filter={"kind": "state"}) == [item]
    await store.adelete(ANA, item.key)
    assert "Porto" not in await memory.context("Where does Ana live?", user_id="ana")


async def test_lists_namespaces(store: DualMemStore) -> None:
    assert await store.alist_namespaces() == []
    for user in ("bea", "ana", "cy"):
        await store.aput((user, "memories"), "k", {"content": "Something is known."})
    every = [("ana", "memories"), ("bea", "memories"), ("cy", "memories")]
    assert await store.alist_namespaces() == every
    assert await store.alist_namespaces(prefix=("bea",)) == every[1:2]
    assert await store.alist_namespaces(prefix=("*", "memories")) == every
    assert await store.alist_namespaces(suffix=("memories",), limit=1, offset=1) == every[1:2]
    assert await store.alist_namespaces(prefix=("dan",)) == []
    assert await store.alist_namespaces(prefix=("ana", "memories", "x")) == []
    assert await store.alist_namespaces(max_depth=1) == [("ana",), ("bea",), ("cy",)]


@pytest.mark.parametrize(
    ("user", "part"), [("ana@example.com", "ana@example%2Ecom"), ("50%.", "50%25%2E"), ("安娜", "安娜"), ("0", "0")]
)
async def test_any_user_has_a_namespace(store: DualMemStore, memory: DualMem, user: str, part: str) -> None:
    await store.aput((part, "memories"), "k", {"content": "Something is known."})
    assert [found.text for found in await memory.memories(user_id=user)] == ["Something is known."]
    assert await store.aget((part, "memories"), "k") is not None
    assert await store.alist_namespaces() == [(part, "memories")]


@pytest.mark.parametrize("namespace", [(), ("memories",), ("ana", "notes"), ("ana", "memories", "x"), ("ana",)])
async def test_other_namespaces_are_refused(store: DualMemStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="not of the form"):
        await store.aget(namespace, "k")
    if namespace:  # LangGraph itself refuses to put into none
        with pytest.raises(InputError, match="not of the form"):
            await store.aput(namespace, "k", {"content": "x"})


async def test_a_search_is_never_wider_than_a_user(memory: DualMem) -> None:
    for form, refused in {("{user_id}", "memories"): (), ("memories", "{user_id}"): ("memories",)}.items():
        with pytest.raises(InputError, match="not of the form"):
            await DualMemStore(memory, namespace=form).asearch(refused)


async def test_the_form_of_a_namespace_can_be_langmems(memory: DualMem) -> None:
    store = DualMemStore(memory, namespace=("memories", "{user_id}"), text_key="text")
    await store.aput(("memories", "ana"), "k", {"text": "Ana plays the cello."})
    assert [found.text for found in await memory.memories(user_id="ana")] == ["Ana plays the cello."]
    assert told(await store.asearch(("memories", "ana"))) == [
        (("memories", "ana"), "k", {"text": "Ana plays the cello."})
    ]


@pytest.mark.parametrize("form", [("memories",), ("{user_id}", "{user_id}"), ()])
def test_a_form_without_a_place_for_the_user_is_refused(memory: DualMem, form: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="user_id"):
        DualMemStore(memory, namespace=form)


async def test_reading_makes_no_store(reader: Callable[..., Any], tmp_path: Any) -> None:
    from dualmem.testing import WordEmbeddings

    async with DualMem(chat_model=reader(), embeddings=WordEmbeddings(), store=str(tmp_path / "none")) as memory:
        store = DualMemStore(memory)
        assert await store.aget(ANA, "k") is None
        assert await store.asearch(ANA) == await store.asearch(ANA, query="x") == await store.alist_namespaces() == []
        await store.adelete(ANA, "k")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("value", [{}, {"": ""}, {"content": {1, 2}}])
async def test_what_cannot_be_kept_is_refused(store: DualMemStore, value: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        await store.aput(ANA, "k", value)


async def test_there_is_no_time_to_live(store: DualMemStore) -> None:
    with pytest.raises(NotImplementedError, match="TTL"):
        await store.aput(ANA, "k", {"content": "x"}, ttl=5)


def test_works_without_an_event_loop(store: DualMemStore) -> None:
    store.put(ANA, "k1", {"content": "Ana plays the cello."})
    assert store.get(ANA, "k1") is not None
    assert [item.key for item in store.search(ANA, query="cello")] == ["k1"]
    assert store.list_namespaces() == [ANA]
    store.delete(ANA, "k1")
    assert store.search(ANA) == []
