"""The graphs inside larger ones: streaming, checkpoints, foreign contexts and wrappers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from dualmem import DualMem, Options, build_deliberation_graph, build_ingestion_graph, build_recall_graph
from dualmem.errors import ConfigurationError
from dualmem.graphs import deliberation, ingestion, recall
from dualmem.loaders import from_messages
from dualmem.records import Recollection, Scope
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
FAST = {"cites": ["M1"], "found": True, "answer": "In Porto."}
DEEP = {"cites": ["F1"], "found": True, "answer": "In Porto, since March."}
FACTS = {"facts": [{"turns": [1], "fact": "Ana has lived in Porto since March.", "score": 9}]}


class HostState(TypedDict, total=False):
    """A host that shares recall's keys, and has one of its own."""

    user_id: str
    question: str
    messages: list[AnyMessage]
    answer: str
    route: str
    recollection: Recollection
    mine: str


class WrapperState(TypedDict, total=False):
    """A host with other keys."""

    who: str
    asked: str
    said: str


@dataclass
class HostContext:
    """What the host's runs carry."""

    tenant: str = "acme"
    gate: str = "quality"


@pytest.fixture
async def asked(open_memory: Open, reader: Make, chat_of: Make, grades: Make) -> DualMem:
    """A memory with one conversation, and a model that answers, fails the gate and finds a fact."""
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    model = reader(
        answer=[FAST, DEEP],
        gate=[grades(complete=False)],
        consolidate={"decisions": []},
        **{"deliberate.extract": [FACTS]},
    )
    return open_memory(model)


def host_of(memory: DualMem, checkpointer: Any = None) -> Any:
    def before(state: HostState) -> HostState:
        return {"mine": f"{state['question']}!"}

    return (
        StateGraph(HostState, context_schema=HostContext)
        .add_node("before", before)
        .add_node("recall", build_recall_graph(memory.resources))
        .add_edge(START, "before")
        .add_edge("before", "recall")
        .add_edge("recall", END)
        .compile(checkpointer=checkpointer)
    )


GIVEN = {"user_id": "ana", "question": "Where does Ana live?"}


async def test_recall_works_as_a_subgraph_by_shared_keys(asked: DualMem) -> None:
    result = await host_of(asked).ainvoke(GIVEN)
    assert (result["answer"], result["route"], result["mine"]) == (
        DEEP["answer"],
        "deliberate",
        "Where does Ana live?!",
    )
    assert set(result) <= set(HostState.__annotations__)


async def test_what_the_hosts_context_says_counts(asked: DualMem) -> None:
    result = await host_of(asked).ainvoke(GIVEN, context=HostContext(gate="never"))
    assert (result["answer"], result["route"]) == ("In Porto.", "fast")


async def test_recall_works_under_a_checkpointer(asked: DualMem, caplog: pytest.LogCaptureFixture) -> None:
    host = host_of(asked, InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    with caplog.at_level(logging.WARNING):
        result = await host.ainvoke(GIVEN, config)
    assert result["route"] == "deliberate"
    state = await host.aget_state(config)
    recollection = state.values["recollection"]
    assert isinstance(recollection, Recollection)
    assert (recollection.answer, recollection.coverage is not None) == (DEEP["answer"], True)


async def test_one_thread_can_ask_again_and_nothing_piles_up(
    open_memory: Open, reader: Make, chat_of: Make, grades: Make
) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    memory = open_memory(reader(answer=FAST, gate=grades()))
    host = host_of(memory, InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    results = [await host.ainvoke({**GIVEN, "question": question}, config) for question in ("Where?", "And now?")]
    assert [result["recollection"].question for result in results] == ["Where?", "And now?"]
    assert [result["recollection"].usage.calls for result in results] == [2, 2]


async def test_recall_of_its_own_under_a_checkpointer_does_not_pile_up(
    open_memory: Open, reader: Make, chat_of: Make, grades: Make
) -> None:
    """Run by a server, the graph itself has a thread, and its lists of calls must not grow from run to run."""
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    memory = open_memory(reader(answer=FAST, gate=grades()))
    graph = build_recall_graph(memory.resources)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    found = [(await graph.ainvoke(GIVEN, config))["recollection"] for _ in range(2)]
    assert [one.usage.calls for one in found] == [2, 2]


async def test_ingestion_of_its_own_under_a_checkpointer_does_not_pile_up(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader())
    graph = build_ingestion_graph(memory.resources)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    first = chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.")
    second = [*first, *chat_of("Ana: Ana owns a boat.", start=2)]
    receipts = [
        (await graph.ainvoke({"user_id": "ana", "messages": given}, config))["receipt"] for given in (first, second)
    ]
    assert [receipt.turns_stored for receipt in receipts] == [2, 1]
    assert [receipt.memories_made for receipt in receipts] == [2, 1]
    assert [receipt.superseded for receipt in receipts] == [1, 0]


async def test_the_next_question_of_a_thread_keeps_nothing_of_the_last(
    open_memory: Open, reader: Make, chat_of: Make, grades: Make
) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana", conversation_id="chat")
    graph = build_recall_graph(open_memory(reader(answer=FAST, gate=grades())).resources)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    nowhere: Any = {**GIVEN, "scope": Scope(conversation_ids=("none",)), "asked_at": datetime(2024, 5, 8, tzinfo=UTC)}
    await graph.ainvoke(nowhere, config)
    messages: Any = {"user_id": "ana", "messages": [HumanMessage("And where now?")]}
    found = (await graph.ainvoke(messages, config))["recollection"]
    assert (found.question, found.outcome) == ("And where now?", "answered")


async def test_the_next_conversation_of_a_thread_is_not_the_last_one_again(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader())
    graph = build_ingestion_graph(memory.resources)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    transcript = from_messages(chat_of("Ana: Ana owns a boat."), conversation_id="first")
    await graph.ainvoke({"user_id": "ana", "transcript": transcript}, config)
    await graph.ainvoke({"user_id": "ana", "messages": chat_of("Ana: Ana owns a car.", start=1)}, config)
    turns = await memory.resources.store.turns("ana")
    assert [(turn.text, turn.conversation_id) for turn in turns] == [
        ("Ana owns a boat.", "first"),
        ("Ana owns a car.", "default"),
    ]


async def test_deliberation_of_its_own_under_a_checkpointer_does_not_pile_up(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    replies: Any = {"answer": DEEP, "deliberate.extract": FACTS, "consolidate": {"decisions": []}}
    graph = build_deliberation_graph(open_memory(reader(**replies)).resources)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    found = [(await graph.ainvoke(GIVEN, config))["recollection"] for _ in range(2)]
    assert [str(one.coverage) for one in found] == ["read 1 of 1 turns"] * 2
    assert [one.coverage.facts_found for one in found] == [1, 1]


async def test_recall_works_in_a_wrapper_with_other_keys(asked: DualMem) -> None:
    graph = build_recall_graph(asked.resources)

    async def remember(state: WrapperState) -> WrapperState:
        result = await graph.ainvoke({"user_id": state["who"], "question": state["asked"]})
        return {"said": result["answer"]}

    builder = StateGraph(WrapperState).add_node("remember", remember).add_edge(START, "remember")
    host = builder.compile(checkpointer=InMemorySaver())
    result = await host.ainvoke({"who": "ana", "asked": "Where?"}, {"configurable": {"thread_id": "1"}})
    assert result == {"who": "ana", "asked": "Where?", "said": DEEP["answer"]}


async def test_ingestion_works_as_a_subgraph_under_a_checkpointer(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    class State(TypedDict, total=False):
        user_id: str
        messages: list[Any]
        receipt: Any

    memory = open_memory(reader())
    host = (
        StateGraph(State)
        .add_node("remember", build_ingestion_graph(memory.resources))
        .add_edge(START, "remember")
        .compile(checkpointer=InMemorySaver())
    )
    given: Any = {"user_id": "ana", "messages": chat_of("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.")}
    result = await host.ainvoke(given, {"configurable": {"thread_id": "1"}})
    assert (result["receipt"].memories_made, result["receipt"].superseded) == (2, 1)


async def test_every_node_can_be_watched(asked: DualMem) -> None:
    nodes: list[str] = []
    async for namespace, update in asked.recall_graph.astream(GIVEN, subgraphs=True, stream_mode="updates"):
        nodes += [f"{namespace[0].partition(':')[0]}.{name}" if namespace else name for name in update]
    assert nodes == [
        "retrieve",
        "filter",
        "answer",
        "gate",
        *(
            f"deliberation.{name}"
            for name in ("plan", "extract", "threshold", "filter", "reconcile", "answer", "gate", "remember")
        ),
        "deliberation",
    ]


async def test_verdict_chunks_and_coverage_are_streamed(asked: DualMem) -> None:
    events = [
        update
        async for _, update in asked.recall_graph.astream(GIVEN, subgraphs=True, stream_mode="custom")
        if isinstance(update, dict)
    ]
    assert [event["event"] for event in events] == ["verdict", "chunk", "coverage"]
    assert events[0]["route"] == "deliberate"
    assert events[2]["coverage"]["turns_read"] == 1


@pytest.mark.parametrize("module", [recall, deliberation, ingestion])
def test_a_graph_is_ready_without_any_configuration(module: Any) -> None:
    graph = module.graph
    assert graph.name == module.NAME
    assert "__start__" in graph.get_graph(xray=True).draw_mermaid()
    context = graph.get_context_jsonschema()
    assert set(Options.model_fields) == set(context["properties"])
    assert all("description" in field for field in context["properties"].values())
    for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        assert schema["properties"]


@pytest.mark.parametrize(
    ("module", "given", "result"),
    [
        (recall, {"user_id", "question", "messages", "scope", "asked_at"}, {"answer", "route", "verdict"}),
        (ingestion, {"user_id", "conversation_id", "messages", "transcript"}, {"receipt"}),
        (deliberation, {"user_id", "question"}, {"answer", "route", "recollection"}),
    ],
)
def test_a_graph_shows_what_it_takes_and_gives(module: Any, given: set[str], result: set[str]) -> None:
    assert given <= set(module.graph.get_input_jsonschema()["properties"])
    assert result <= set(module.graph.get_output_jsonschema()["properties"])
    assert not {"calls", "spans"} & set(module.graph.get_output_jsonschema()["properties"])


async def test_the_process_graph_opens_what_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("DUALMEM_STORE", str(tmp_path / "nothing"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    result = await recall.graph.ainvoke(GIVEN)
    assert result["recollection"].outcome == "nothing_stored"
    assert not (tmp_path / "nothing").exists()


async def test_an_option_that_does_not_exist_is_named(asked: DualMem) -> None:
    """Whoever runs the graph by itself gives it options; what it does not know is a mistake."""
    for context in ({"gaet": "never"}, {"gate": "sometimes"}):
        with pytest.raises((ConfigurationError, ValueError), match="ga"):
            await asked.recall_graph.ainvoke(GIVEN, context=context)


async def test_a_host_may_pass_a_mapping_with_keys_of_its_own(open_memory: Open, reader: Make, chat_of: Make) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    memory = open_memory(reader(answer=FAST))

    class HostOptions(TypedDict, total=False):
        tenant: str
        dualmem: dict[str, Any]

    host: Any = (
        StateGraph(HostState, context_schema=HostOptions)
        .add_node("recall", build_recall_graph(memory.resources))
        .add_edge(START, "recall")
        .compile()
    )
    context = {"tenant": "acme", "dualmem": {"gate": "never"}}
    assert (await host.ainvoke(GIVEN, context=context))["route"] == "fast"


async def test_messages_of_the_host_are_the_question(open_memory: Open, reader: Make, chat_of: Make) -> None:
    await open_memory(reader()).remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    model = reader(answer=FAST)
    assert isinstance(model, ScriptedChatModel)
    messages = [HumanMessage("Where do I live?")]
    result = await host_of(open_memory(model, gate="never")).ainvoke(
        {"user_id": "ana", "question": "", "messages": messages}, context=HostContext(gate="never")
    )
    assert result["recollection"].question == "Where do I live?"
    assert result["messages"] == messages
