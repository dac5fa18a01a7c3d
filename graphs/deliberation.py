"""Read the raw history for one question: plan, read chunks in parallel, select, reconcile, answer."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from dualmem.config import Options
from dualmem.context import Resources, afresh, bound
from dualmem.gating import EVERYTHING
from dualmem.nodes.deliberation.answer import answer
from dualmem.nodes.deliberation.extract import extract
from dualmem.nodes.deliberation.filter import filter_facts
from dualmem.nodes.deliberation.gate import gate
from dualmem.nodes.deliberation.plan import plan
from dualmem.nodes.deliberation.reconcile import reconcile
from dualmem.nodes.deliberation.remember import remember
from dualmem.nodes.deliberation.threshold import threshold
from dualmem.state import Chunk, ChunkTask, DeliberationInput, DeliberationOutput, DeliberationState

NAME = "deliberation"


def build_deliberation_graph(resources: Resources | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the deliberation graph.

    Args:
        resources: Live store and models; by default those that the environment configures.
    """
    return afresh(
        StateGraph(
            DeliberationState,
            context_schema=Options,
            input_schema=DeliberationInput,
            output_schema=DeliberationOutput,
        )
        .add_node("plan", bound(plan, resources, step="deliberate.plan"))
        .add_node("extract", bound(extract, resources, step="deliberate.extract"), input_schema=ChunkTask)
        .add_node("threshold", bound(threshold, resources, step="deliberate.threshold"))
        .add_node("filter", bound(filter_facts, resources, step="deliberate.filter"))
        .add_node("reconcile", bound(reconcile, resources, step="deliberate.reconcile"))
        .add_node("answer", bound(answer, resources, step="deliberate.answer"))
        .add_node("gate", bound(gate, resources, step="deliberate.gate"))
        .add_node("remember", bound(remember, resources, step="deliberate.remember"))
        .add_edge(START, "plan")
        .add_conditional_edges("plan", read_wave, ["extract", "answer"])
        .add_edge("extract", "threshold")
        .add_edge("threshold", "filter")
        .add_edge("filter", "reconcile")
        .add_edge("reconcile", "answer")
        .add_edge("answer", "gate")
        .add_conditional_edges("gate", read_on, ["extract", "remember"])
        .add_edge("remember", END)
        .compile(name=NAME)
    )


def read_wave(state: DeliberationState) -> list[Send] | Literal["answer"]:
    """Send the chunks that are due to be read; with none, go and say so."""
    return _sends(state) or "answer"


def read_on(state: DeliberationState) -> list[Send] | Literal["remember"]:
    """Read the next wave, or finish when the gate is satisfied, everything was read or the budget is spent."""
    return "remember" if state["satisfied"] else _sends(state) or "remember"


def _sends(state: DeliberationState) -> list[Send]:
    missing = state.get("missing", "")
    task = ChunkTask(
        chunk=Chunk(0, ()),
        question=state["question"],
        asked_at=state.get("asked_at"),
        missing="" if missing == EVERYTHING else missing,
        ledger=state.get("ledger", False),
        deadline=state.get("deadline"),
    )
    due = state.get("due", [])
    spare: list[int] | list[None] = state.get("spare") or [None] * len(due)
    return [Send("extract", {**task, "chunk": chunk, "spare": more}) for chunk, more in zip(due, spare, strict=True)]


graph = build_deliberation_graph()
