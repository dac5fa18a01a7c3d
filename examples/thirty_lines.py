"""An agent in thirty lines that remembers across threads and restarts."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from dualmem import DualMem


class State(MessagesState, total=False):
    user_id: str
    answer: str


def reply(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(state["answer"])]}


def build(memory: DualMem) -> Any:
    graph = StateGraph(State)
    graph.add_node("recall", memory.recall_graph)
    graph.add_node("reply", reply)
    graph.add_node("ingestion", memory.ingestion_graph)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "reply")
    graph.add_edge("reply", "ingestion")
    graph.add_edge("ingestion", END)
    return graph.compile(checkpointer=InMemorySaver())
