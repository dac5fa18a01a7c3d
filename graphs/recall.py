"""Answer from memory: retrieve, filter, answer, gate, and, when the gate is not satisfied, deliberate."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from dualmem.config import Options
from dualmem.context import Resources, afresh, bound
from dualmem.graphs.deliberation import build_deliberation_graph
from dualmem.nodes.recall.answer import answer
from dualmem.nodes.recall.filter import filter_evidence
from dualmem.nodes.recall.gate import gate
from dualmem.nodes.recall.retrieve import retrieve
from dualmem.state import RecallInput, RecallOutput, RecallState

NAME = "recall"


def build_recall_graph(resources: Resources | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the recall graph.

    Args:
        resources: Live store and models; by default those that the environment configures.
    """
    return afresh(
        StateGraph(RecallState, context_schema=Options, input_schema=RecallInput, output_schema=RecallOutput)
        .add_node("retrieve", bound(retrieve, resources, step="retrieve"))
        .add_node("filter", bound(filter_evidence, resources, step="filter"))
        .add_node("answer", bound(answer, resources, step="answer"))
        .add_node("gate", bound(gate, resources, step="gate"))
        .add_node("deliberation", build_deliberation_graph(resources))
        .add_edge(START, "retrieve")
        .add_edge("retrieve", "filter")
        .add_edge("filter", "answer")
        .add_edge("answer", "gate")
        .add_conditional_edges("gate", route, {"done": END, "deliberate": "deliberation"})
        .add_edge("deliberation", END)
        .compile(name=NAME)
    )


def route(state: RecallState) -> Literal["done", "deliberate"]:
    """Deliberate when the gate says so; a fast or degraded answer goes out as it is."""
    return "deliberate" if state["route"] == "deliberate" else "done"


graph = build_recall_graph()
