"""The graphs under checkpointers: threads, resuming, time travel, interrupts, and what is read back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from dualmem import DualMem
from dualmem.errors import StoreError
from dualmem.graphs.ingestion import build_ingestion_graph
from dualmem.graphs.recall import build_recall_graph
from dualmem.integrations.checkpoints import checkpoint_types, serializer
from dualmem.lifecycle import WorkingSet
from dualmem.records import Draft, EvidenceUnit, Fact, Member, Memory, PackedContext, Recollection, Scope, Turn
from dualmem.state import Chunk, ChunkReading, Window, WindowReading

THREAD: Any = {"configurable": {"thread_id": "t1"}}
LINES = ("Ana: Ana lives in Porto.", "Ana: Ana plays the cello.")


class HostState(TypedDict, total=False):
    """The state of somebody else's graph that shares keys with both of ours."""

    user_id: str
    question: str
    messages: list[Any]
    answer: str
    recollection: Recollection


def host(memory: DualMem, saver: Any, **compiled: Any) -> Any:
    return (
        StateGraph(HostState)
        .add_node("ingestion", build_ingestion_graph(memory.resources))
        .add_node("recall", build_recall_graph(memory.resources))
        .add_edge(START, "ingestion")
        .add_edge("ingestion", "recall")
        .add_edge("recall", END)
        .compile(checkpointer=saver, **compiled)
    )


@pytest.fixture(params=["in memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    if request.param == "in memory":
        yield InMemorySaver(serde=serializer())
        return
    if request.param == "postgres":
        address = request.getfixturevalue("database")
        postgres = pytest.importorskip("langgraph.checkpoint.postgres.aio")
        async with postgres.AsyncPostgresSaver.from_conn_string(address, serde=serializer()) as made:
            await made.setup()
            yield made
        return
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    async with sqlite.AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as made:
        made.serde = serializer()
        yield made


async def test_a_run_that_failed_goes_on_where_it_was(
    talking: Callable[..., DualMem],
    chat_of: Callable[..., Any],
    grades: Callable[..., Any],
    saver: Any,
    unwarned: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With everything in the states read back: packed evidence, chunks, facts."""
    facts = {"facts": [{"fact": "Ana lives in Porto.", "score": 9, "turns": [1]}]}
    memory = talking(gate=grades(complete=False), **{"deliberate.extract": facts})
    whole = memory.resources.store.turns_by_id
    failing = True

    async def fail(*given: Any) -> Any:
        if failing and memory.resources.chat(memory.settings).model.calls("gate"):  # type: ignore[attr-defined] # the scripted model's
            message = "the disk is away"
            raise StoreError(message)
        return await whole(*given)

    monkeypatch.setattr(memory.resources.store, "turns_by_id", fail)
    graph = host(memory, saver)
    given = {"user_id": "ana", "question": "Where does Ana live?", "messages": chat_of(*LINES)}
    with pytest.raises(StoreError):
        await graph.ainvoke(given, THREAD, durability="sync")
    model: Any = memory.resources.chat(memory.settings).model
    assert model.calls("deliberate.extract") == 1
    failing = False
    result = await graph.ainvoke(None, THREAD, durability="sync")
    assert result["recollection"].route == "deliberate"
    assert result["recollection"].coverage.turns_read == 2
    assert (model.calls("extract"), model.calls("deliberate.extract")) == (1, 1)
    state = await graph.aget_state(THREAD)
    assert state.values["recollection"] == result["recollection"]
    assert unwarned() == []


async def test_every_record_in_a_state_is_known_to_the_serializer(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], unwarned: Callable[[], list[str]]
) -> None:
    memory = talking()
    saver = InMemorySaver(serde=serializer())
    recall: Any = build_recall_graph(memory.resources).copy(update={"checkpointer": saver})
    await memory.remember(chat_of(*LINES), user_id="ana")
    await recall.ainvoke({"user_id": "ana", "question": "Where?", "scope": Scope(speakers=("Ana",))}, THREAD)
    history = [state async for state in recall.aget_state_history(THREAD)]
    assert len(history) == 6
    assert type(history[0].values["packed"]).__name__ == "PackedContext"
    assert unwarned() == []
    assert {"Recollection", "PackedContext", "Turn", "Chunk", "Window", "WorkingSet", "Draft", "Fact", "Span"} <= {
        kind.__name__ for kind in checkpoint_types()
    }


class Kept(TypedDict, total=False):
    """A state that holds one record of each kind."""

    records: list[Any]


async def test_what_is_read_back_equals_what_was_written(
    saver: Any, a_turn: Callable[..., Turn], a_memory: Callable[..., Memory], a_draft: Callable[..., Draft]
) -> None:
    turn, fact = a_turn("I live in Porto."), Fact(text="Ana lives in Porto.", score=8, turn_ids=("chat-0",))
    unit = EvidenceUnit((Member(a_memory("porto"), "current"),), 0.5, turns=(turn,), shares={"semantic": 1.0})
    records = [
        Window(1, (turn,), (a_turn("Before.", 1),)),
        WindowReading(
            1, (a_draft("Ana lives in Porto."),), ("chat-0",), failures=("one",), unread_turn_ids=("chat-1",)
        ),
        Chunk(1, (turn,)),
        ChunkReading(1, 1, facts=(fact,)),
        PackedContext((unit,), dropped=("x",), labels={"porto": "M1"}),
    ]
    with_tuples = {kind for kind in checkpoint_types() if is_dataclass(kind) and kind is not WorkingSet}
    assert with_tuples == {type(one) for one in (*records, unit, unit.members[0])}
    graph = StateGraph(Kept).add_node("keep", lambda _: {"records": records}).add_edge(START, "keep")
    compiled = graph.compile(checkpointer=saver)
    await compiled.ainvoke({"records": []}, THREAD)
    state = await compiled.aget_state(THREAD)
    assert state.values["records"] == records


async def test_without_the_serializer_the_checkpointer_complains(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], unwarned: Callable[[], list[str]]
) -> None:
    graph = host(talking(), InMemorySaver())
    await graph.ainvoke({"user_id": "ana", "question": "Where?", "messages": chat_of(*LINES)}, THREAD)
    await graph.aget_state(THREAD)
    assert any("Recollection" in message for message in unwarned())


async def test_goes_back_in_time_and_answers_again(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], saver: Any
) -> None:
    memory = talking()
    graph = host(memory, saver)
    await graph.ainvoke({"user_id": "ana", "question": "Where?", "messages": chat_of(*LINES)}, THREAD)
    before = [state async for state in graph.aget_state_history(THREAD) if state.next == ("recall",)]
    changed = await graph.aupdate_state(before[0].config, {"question": "Which instrument does Ana play?"})
    result = await graph.ainvoke(None, changed)
    assert result["recollection"].question == "Which instrument does Ana play?"
    model: Any = memory.resources.chat(memory.settings).model
    assert model.calls("extract") == 1


async def test_stops_before_recall_and_goes_on(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], saver: Any
) -> None:
    graph = host(talking(), saver, interrupt_before=["recall"])
    stopped = await graph.ainvoke({"user_id": "ana", "question": "Where?", "messages": chat_of(*LINES)}, THREAD)
    assert "recollection" not in stopped
    assert (await graph.ainvoke(None, THREAD))["recollection"].outcome == "answered"


async def test_a_person_is_asked_between_recall_and_the_rest(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], saver: Any
) -> None:
    memory = talking()
    await memory.remember(chat_of(*LINES), user_id="ana")

    async def check(state: HostState) -> HostState:
        return {"answer": interrupt(state["answer"])}

    graph: Any = (
        StateGraph(HostState)
        .add_node("recall", memory.recall_graph)
        .add_node("check", check)
        .add_edge(START, "recall")
        .add_edge("recall", "check")
        .add_edge("check", END)
        .compile(checkpointer=saver)
    )
    asked = await graph.ainvoke({"user_id": "ana", "question": "Where?"}, THREAD)
    assert asked["__interrupt__"][0].value == "Ana lives in Porto."
    result = await graph.ainvoke(Command(resume="In Porto, she says."), THREAD)
    assert result["answer"] == "In Porto, she says."
    model: Any = memory.resources.chat(memory.settings).model
    assert model.calls("answer") == 1


async def test_the_next_recall_of_a_thread_starts_afresh(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any]
) -> None:
    """Neither the question, the scope nor the costs of the run before are carried into a new one."""
    memory = talking()
    await memory.remember(chat_of(*LINES), user_id="ana")
    recall: Any = memory.recall_graph.copy(update={"checkpointer": InMemorySaver(serde=serializer())})
    fast = {"gate": "never"}
    first = await recall.ainvoke(
        {"user_id": "ana", "messages": [HumanMessage("Where?")], "scope": Scope(speakers=("Bea",))},
        THREAD,
        context=fast,
    )
    assert first["recollection"].outcome == "nothing_relevant"
    second = await recall.ainvoke({"user_id": "ana", "messages": [HumanMessage("Which instrument?")]}, THREAD)
    assert second["recollection"].question == "Which instrument?"
    assert second["recollection"].outcome == "answered"
    third = await recall.ainvoke({"user_id": "ana", "question": "Where?"}, THREAD)
    assert second["recollection"].usage.calls == third["recollection"].usage.calls == 2


async def test_the_next_ingestion_of_a_thread_starts_afresh(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any]
) -> None:
    memory = talking()
    ingestion: Any = memory.ingestion_graph.copy(update={"checkpointer": InMemorySaver(serde=serializer())})
    for number, line in enumerate(LINES):
        result = await ingestion.ainvoke({"user_id": "ana", "messages": chat_of(line, start=number)}, THREAD)
        assert (result["receipt"].turns_stored, result["receipt"].memories_made) == (1, 1)
        assert result["receipt"].usage.by_step.keys() <= {"extract", "consolidate", "evolve"}


def test_strict_checkpointers_read_the_states(tmp_path: Path) -> None:
    """LANGGRAPH_STRICT_MSGPACK refuses every class it does not know; it is read when LangGraph is imported."""
    script = textwrap.dedent("""
        import asyncio, sys
        from langgraph.checkpoint.memory import InMemorySaver
        from dualmem import DualMem
        from dualmem.integrations.checkpoints import serializer
        from dualmem.records import Recollection, PackedContext
        from dualmem.testing import ScriptedChatModel, WordEmbeddings

        async def main():
            script = {
                "extract": {"memories": []},
                "answer": {"answer": "In Porto.", "found": True, "cites": ["T1"]},
                "gate": {"relevant": True, "faithful": True, "complete": True, "reason": "", "missing": ""},
            }
            memory = DualMem(chat_model=ScriptedChatModel(script=script), embeddings=WordEmbeddings(), store=":memory:")
            await memory.remember(["I live in Porto."], user_id="ana")
            recall: Any = memory.recall_graph.copy(update={"checkpointer": InMemorySaver(serde=serializer())})
            thread = {"configurable": {"thread_id": "t"}}
            await recall.ainvoke({"user_id": "ana", "question": "Where?"}, thread)
            values = (await recall.aget_state(thread)).values
            assert isinstance(values["recollection"], Recollection), values["recollection"]
            assert isinstance(values["packed"], PackedContext), values["packed"]
            assert values["packed"].units[0].turns[0].text == "I live in Porto."
            await memory.close()

        asyncio.run(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Blocked" not in done.stderr
