"""Threads of the graphs in Postgres, and memories taken over from a LangGraph store in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import PutOp
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from dualmem import DualMem
from dualmem.cli.importing import read_source
from dualmem.integrations.checkpoints import serializer
from dualmem.records import Recollection

pytestmark = pytest.mark.postgres

LINES = ("Ana: Ana lives in Porto.", "Ana: Ana plays the cello.")
NAMESPACE = ("memories", "{user_id}")

Connect = Callable[[], AbstractAsyncContextManager[Any]]
Run = Callable[..., Any]


def thread(name: str = "t1") -> Any:
    return {"configurable": {"thread_id": name}}


@pytest.fixture
def connect(database: str) -> Connect:
    """Connect a saver to the test's database; each time is like another process."""
    postgres = pytest.importorskip("langgraph.checkpoint.postgres.aio")

    @asynccontextmanager
    async def saver() -> AsyncIterator[Any]:
        async with postgres.AsyncPostgresSaver.from_conn_string(database, serde=serializer()) as made:
            await made.setup()
            yield made

    return saver


class HostState(TypedDict, total=False):
    """The state of a graph in which a person looks at each answer."""

    user_id: str
    question: str
    messages: list[Any]
    answer: str
    recollection: Recollection


def host(memory: DualMem, saver: Any) -> Any:
    async def check(state: HostState) -> HostState:
        return {"answer": interrupt(state["answer"])}

    return (
        StateGraph(HostState)
        .add_node("ingestion", memory.ingestion_graph)
        .add_node("recall", memory.recall_graph)
        .add_node("check", check)
        .add_edge(START, "ingestion")
        .add_edge("ingestion", "recall")
        .add_edge("recall", "check")
        .add_edge("check", END)
        .compile(checkpointer=saver)
    )


def plain(value: Any) -> Any:
    """Return a state's value with lists for tuples: msgpack, in which every saver keeps dataclasses, has no other."""
    if isinstance(value, Send):
        return [Send, value.node, plain(value.arg)]
    if is_dataclass(value):
        return [type(value), *(plain(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


async def test_a_thread_goes_on_over_another_connection(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], connect: Connect, unwarned: Callable[[], list[str]]
) -> None:
    """After an interrupt, and with the next question: nothing is done twice, and nothing is carried over."""
    memory = talking()
    model: Any = memory.resources.chat(memory.settings).model
    async with connect() as saver:
        given = {"user_id": "ana", "question": "Where does Ana live?", "messages": chat_of(LINES[0])}
        asked = await host(memory, saver).ainvoke(given, thread())
    assert asked["__interrupt__"][0].value == "Ana lives in Porto."
    assert (model.calls("extract"), model.calls("answer")) == (1, 1)

    async with connect() as saver:
        first = await host(memory, saver).ainvoke(Command(resume="In Porto, she says."), thread())
    assert (model.calls("extract"), model.calls("answer")) == (1, 1)
    assert first["answer"] == "In Porto, she says."
    assert first["recollection"].question == "Where does Ana live?"
    assert first["recollection"] == asked["recollection"]

    async with connect() as saver:
        graph = host(memory, saver)
        again = {"question": "What does Ana play?", "messages": chat_of(LINES[1], start=1)}
        await graph.ainvoke(again, thread())
        second = await graph.ainvoke(Command(resume="The cello."), thread())
        assert (await graph.aget_state(thread("t2"))).values == {}
    assert (model.calls("extract"), model.calls("answer")) == (2, 2)
    assert second["answer"] == "The cello."
    assert second["recollection"].question == "What does Ana play?"
    assert second["recollection"].usage.calls == first["recollection"].usage.calls == 2
    assert {memory.text for memory in await memory.memories(user_id="ana")} == {line[5:] for line in LINES}
    assert unwarned() == []


async def test_every_state_comes_back_as_it_was(
    talking: Callable[..., DualMem],
    chat_of: Callable[..., Any],
    grades: Callable[..., Any],
    connect: Connect,
    unwarned: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the host and of all the graphs within: plain values that Postgres keeps as JSON, and records beside them."""
    facts = {"facts": [{"fact": "Ana lives in Porto.", "score": 9, "turns": [1]}]}
    memory = talking(gate=grades(complete=False), **{"deliberate.extract": facts})
    kept: dict[str, dict[str, Any]] = {}
    async with connect() as saver:
        put = saver.aput

        async def keep(config: Any, checkpoint: Any, *more: Any) -> Any:
            kept[checkpoint["id"]] = dict(checkpoint["channel_values"])
            return await put(config, checkpoint, *more)

        monkeypatch.setattr(saver, "aput", keep)
        given = {"user_id": "ana", "question": "Where does Ana live?", "messages": chat_of(*LINES)}
        await host(memory, saver).ainvoke(given, thread(), durability="sync")
    async with connect() as other:
        read = [found async for found in other.alist(thread())]
    states = {found.checkpoint["id"]: found.checkpoint["channel_values"] for found in read}
    assert states.keys() == kept.keys()
    assert plain(states) == plain(kept)
    graphs = {part.partition(":")[0] for f in read for part in f.config["configurable"]["checkpoint_ns"].split("|")}
    assert graphs >= {"", "ingestion", "recall", "deliberation"}
    kinds = {type(value).__name__ for values in states.values() for value in values.values()}
    assert kinds >= {"Recollection", "PackedContext", "Answer", "Verdict", "IngestReceipt", "str", "bool"}
    assert unwarned() == []


async def test_an_answer_that_postgres_could_not_hold(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], connect: Connect
) -> None:
    """It takes no null character in its JSON; a reply can hold one, and an answer is such JSON."""
    reply = json.dumps({"cites": ["M1"], "found": True, "answer": "Ana lives\x00 in Porto."})
    memory = talking(answer=reply)
    async with connect() as saver:
        given = {"user_id": "ana", "question": "Where does Ana live?", "messages": chat_of(LINES[0])}
        asked = await host(memory, saver).ainvoke(given, thread())
    assert asked["__interrupt__"][0].value == "Ana lives in Porto."


async def test_many_threads_share_a_pool(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], database: str, connect: Connect
) -> None:
    saving = pytest.importorskip("langgraph.checkpoint.postgres.aio")
    pooling = pytest.importorskip("psycopg_pool")
    rows = pytest.importorskip("psycopg.rows")
    memory = talking()
    users = [f"user-{number}" for number in range(6)]
    async with connect():
        pass
    how = {"autocommit": True, "prepare_threshold": 0, "row_factory": rows.dict_row}
    async with pooling.AsyncConnectionPool(database, min_size=1, max_size=3, kwargs=how) as pool:
        graph = host(memory, saving.AsyncPostgresSaver(pool, serde=serializer()))

        async def talk(user: str) -> Any:
            said = chat_of(f"{user}: {user} owns a boat.")
            await graph.ainvoke({"user_id": user, "question": "What is owned?", "messages": said}, thread(user))
            return await graph.ainvoke(Command(resume=f"{user}'s boat"), thread(user))

        results = await asyncio.gather(*map(talk, users))
        states = [(await graph.aget_state(thread(user))).values for user in users]
    assert [result["answer"] for result in results] == [f"{user}'s boat" for user in users]
    assert [state["user_id"] for state in states] == users
    assert [state["recollection"] for state in states] == [result["recollection"] for result in results]


# Taking memories over


@pytest.fixture
def langgraph_store(database: str) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Open LangGraph's own store in the test's database."""
    module = pytest.importorskip("langgraph.store.postgres")

    def opened() -> Any:
        return module.PostgresStore.from_conn_string(database)

    return opened


def rows_of(address: str) -> tuple[Any, Any]:
    """Return everything in a LangGraph store's table, and the names of all tables."""
    import psycopg

    with psycopg.connect(address) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        return tables.fetchall(), connection.execute("SELECT * FROM store ORDER BY prefix, key").fetchall()


def test_a_store_is_taken_over_and_stays_as_it_is(
    dualmem: Run, scripted: Run, reader: Run, langgraph_store: Run, database: str
) -> None:
    scripted(reader(extract=[]))
    with langgraph_store() as store:
        store.setup()
        store.put(("memories", "ana"), "1", {"kind": "Memory", "content": {"content": "Ana lives in Porto."}})
        store.put(("memories", "ana", "trips"), "2", {"text": "Ana was in Oslo in March."})
        # Looking at a memory that expires would make it live longer.
        store.put(("memories", "bea%2Elee"), "3", {"content": "Bea likes figs."}, ttl=60)
        store.put(("settings", "cy"), "4", {"content": "No memory."})
        store.put(("memories2", "cy"), "5", {"content": "None either."})
    before = rows_of(database)
    done = dualmem("import", database, "--json")
    assert (done.status, done.err) == (0, "")
    assert {receipt["user_id"]: receipt["memories_made"] for receipt in done.json} == {"ana": 2, "bea.lee": 1}
    assert all(receipt["usage"]["calls"] == 0 for receipt in done.json)
    listed = dualmem("memories", "list", "--user", "ana", "--json").json
    assert {memory["text"] for memory in listed} == {"Ana lives in Porto.", "Ana was in Oslo in March."}
    assert rows_of(database) == before
    again = dualmem("import", database, "--user", "ana", "--json").json
    assert (again["turns_stored"], again["turns_known"], again["memories_made"]) == (0, 2, 0)


def test_memories_written_at_one_moment_are_all_taken_over(langgraph_store: Run, database: str) -> None:
    """Postgres orders them anew for each page; more than a page of them, in one statement."""
    texts = {f"Ana owns boat {number}." for number in range(1000)}
    with langgraph_store() as store:
        store.setup()
        store.batch([PutOp(("memories", f"u{text[-2]}"), text, {"content": text}) for text in sorted(texts)])
    found = read_source(database, collection="", namespace=NAMESPACE)
    read = [message.content for transcript in found.values() for message in transcript.messages]
    assert len(found) == 10
    assert len(read) == len(texts)
    assert set(read) == texts


def test_what_cannot_be_read_is_told_without_the_password(
    dualmem: Run, scripted: Run, reader: Run, postgres: str, database: str
) -> None:
    scripted(reader())
    assert "no table `store`" in dualmem("import", database).complaint
    assert "does not exist" in dualmem("import", f"{postgres}/nowhere").complaint
    for address in (
        postgres.replace(":porto", ":wrong"),
        "postgresql://ana:sec%ret@127.0.0.1/store",
        "postgresql://ana:sec/ret@127.0.0.1/store",
        "postgresql://ana:sec@ret@127.0.0.1:1/store",
        "postgresql://127.0.0.1:1/store?password=sec",
    ):
        complaint = dualmem("import", address).complaint
        assert "Postgres" in complaint
        assert not any(part in complaint for part in ("cello", "sec"))
