"""The graphs inside of a larger one that streams, bounds its concurrency, and runs many times at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from dualmem import DualMem

SAID = tuple(f"Ana: Ana owns boat {number}." for number in range(8))


class Crowd:
    """Reads a chunk slowly, and counts how many are read at once."""

    def __init__(self) -> None:
        self.calls = self.inside = self.most = 0
        self._counting = threading.Lock()

    def __call__(self, prompt: str) -> dict[str, Any]:
        with self._counting:
            self.calls += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.02)
        with self._counting:
            self.inside -= 1
        return {"facts": [{"fact": prompt.rpartition("Ana: ")[2].partition(".")[0], "score": 9, "turns": [1]}]}


class Host(MessagesState, total=False):
    """A chat agent's state."""

    user_id: str
    answer: str


def host(memory: DualMem, model: Any) -> Any:
    async def reply(state: Host) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return (
        StateGraph(Host)
        .add_node("recall", memory.recall_graph)
        .add_node("reply", reply)
        .add_node("ingestion", memory.ingestion_graph)
        .add_edge(START, "recall")
        .add_edge("recall", "reply")
        .add_edge("reply", "ingestion")
        .add_edge("ingestion", END)
        .compile()
    )


def ask(text: str, user: str = "ana") -> dict[str, Any]:
    return {"user_id": user, "messages": [HumanMessage(text)]}


@pytest.mark.parametrize(("bound", "at_once"), [(2, 2), (1, 1)])
async def test_the_hosts_max_concurrency_bounds_the_chunks_that_are_read_at_once(
    open_memory: Callable[..., DualMem],
    reader: Callable[..., Any],
    chat_of: Callable[..., Any],
    agent_model: Callable[..., Any],
    bound: int,
    at_once: int,
) -> None:
    crowd = Crowd()
    answer = {"answer": "Eight.", "found": True, "cites": ["F1"]}
    model = reader(answer=answer, **{"deliberate.extract": crowd, "deliberate.filter": {"keep": [1]}})
    memory = open_memory(
        model,
        gate="always",
        deliberation="exhaustive",
        chunk_turns=1,
        chunk_overlap=0,
        ledger=False,
        check_support=False,
        write_back=False,
    )
    await memory.remember(chat_of(*SAID), user_id="ana")
    agent = host(memory, agent_model("Eight, I think."))
    await agent.ainvoke(ask("How many boats does Ana own?"), {"max_concurrency": bound})
    assert crowd.calls == len(SAID)
    assert crowd.most == at_once


async def test_the_hosts_token_stream_holds_its_own_reply_alone(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    agent = host(memory, agent_model("You live in Porto."))
    streamed = [
        part.text
        async for _, (part, _) in agent.astream(ask("Where do I live?"), stream_mode="messages", subgraphs=True)
        if isinstance(part, AIMessage)
    ]
    assert "".join(streamed) == "You live in Porto."


async def test_many_runs_at_once_share_one_store_and_keep_their_users_apart(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    users = [f"user-{number}" for number in range(5)]
    agent = host(memory, agent_model(*["I see!"] * 15))
    await asyncio.gather(*(agent.ainvoke(ask(f"{user} owns boat {n}.", user)) for user in users for n in range(3)))
    for user in users:
        known = {memory.text for memory in await memory.memories(user_id=user)}
        assert known == {f"{user} owns boat {n}." for n in range(3)}
