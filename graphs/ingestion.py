"""Remember a conversation: record, extract by window, relate to what is known, commit.

Windows are read in parallel, without anybody waiting, and the turns are made findable meanwhile. What relates a batch
to what is known, and writes it (`integrate`), is a graph of its own that runs as one step and as the user's one
writer: nobody else changes what its decisions rest on, and a run that was stopped in it takes them anew.
"""

from __future__ import annotations

from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from dualmem.config import Options
from dualmem.context import Context, Resources, afresh, bound
from dualmem.nodes.ingestion.commit import commit
from dualmem.nodes.ingestion.consolidate import consolidate
from dualmem.nodes.ingestion.dedupe import dedupe
from dualmem.nodes.ingestion.evolve import evolve
from dualmem.nodes.ingestion.extract import extract
from dualmem.nodes.ingestion.index import index
from dualmem.nodes.ingestion.receipt import receipt
from dualmem.nodes.ingestion.record import record
from dualmem.state import (
    BatchInput,
    BatchOutput,
    IngestionInput,
    IngestionOutput,
    IngestionState,
    WindowTask,
)

NAME = "ingestion"


def build_ingestion_graph(resources: Resources | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the ingestion graph.

    Args:
        resources: Live store and models; by default those that the environment configures.
    """
    return afresh(
        StateGraph(IngestionState, context_schema=Options, input_schema=IngestionInput, output_schema=IngestionOutput)
        .add_node("record", bound(record, resources, step="record"))
        .add_node("index", bound(index, resources, step="index"))
        .add_node("extract", bound(extract, resources, step="extract"), input_schema=WindowTask)
        .add_node("dedupe", bound(dedupe, resources, step="dedupe"))
        .add_node("integrate", _integrating(resources))
        .add_node("receipt", bound(receipt, resources, step="receipt"))
        .add_edge(START, "record")
        .add_conditional_edges("record", first_batch, ["extract", "index", "receipt"])
        .add_edge("extract", "dedupe")
        .add_edge("dedupe", "integrate")
        .add_conditional_edges("integrate", next_batch, ["extract", "receipt"])
        .add_edge("receipt", END)
        .compile(name=NAME)
    )


def build_integration_graph(resources: Resources | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph that relates one batch to what is known and writes it; to be run by the user's writer.

    It keeps no checkpoints: what it decided is worth nothing once others could write.

    Args:
        resources: Live store and models; by default those that the environment configures.
    """
    return (
        StateGraph(IngestionState, context_schema=Options, input_schema=BatchInput, output_schema=BatchOutput)
        .add_node("consolidate", bound(consolidate, resources, step="consolidate"))
        .add_node("evolve", bound(evolve, resources, step="evolve"))
        .add_node("commit", bound(commit, resources, step="commit"))
        .add_edge(START, "consolidate")
        .add_edge("consolidate", "evolve")
        .add_edge("evolve", "commit")
        .add_edge("commit", END)
        .compile(name="integration", checkpointer=False)
    )


_UNKEPT: RunnableConfig = {"configurable": {"__pregel_durability": "async"}}
"""For a graph without checkpoints inside of a run whose caller asked for `durability="sync"`: it inherits that, and
LangGraph 1.2 would wait for a checkpoint that nobody writes."""


def _integrating(resources: Resources | None) -> Any:
    """Return the node that runs the integration graph."""
    steps = build_integration_graph(resources)

    async def integrate(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
        context = runtime.context
        batch: BatchInput = {
            "user_id": state["user_id"],
            "conversation_id": state["conversation_id"],
            "drafts": state["drafts"],
            "rejections": state.get("rejections", []),
            "batch_turn_ids": state["batch_turn_ids"],
        }
        async with context.store.writer(state["user_id"]):
            return cast("IngestionState", await steps.ainvoke(batch, _UNKEPT, context=context))

    return bound(integrate, resources, step="integrate")


def first_batch(state: IngestionState) -> list[Send | str]:
    """Send the windows of the first batch to be read, and have the turns indexed while the model reads."""
    return [*next_batch(state), "index"]


def next_batch(state: IngestionState) -> list[Send | str]:
    """Send the windows of the next batch to be read; with none left, close the account."""
    start = state["next_window"]
    windows = state["windows"][start : start + state["batch_windows"]]
    sends = [Send("extract", WindowTask(user_id=state["user_id"], window=window)) for window in windows]
    return list(sends) or ["receipt"]


graph = build_ingestion_graph()
