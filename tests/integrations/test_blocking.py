"""Synchronous calls: one loop, no graph run taken along, and no waiting for oneself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from dualmem import DualMem
from dualmem.errors import ConfigurationError, StoreError
from dualmem.integrations.blocking import wait_for
from dualmem.integrations.tools import memory_tools


async def here() -> tuple[asyncio.AbstractEventLoop, str]:
    return asyncio.get_running_loop(), threading.current_thread().name


def test_all_calls_share_one_loop() -> None:
    assert wait_for(here()) == wait_for(here())
    assert wait_for(here())[1] == "dualmem"


def test_errors_come_through() -> None:
    async def fail() -> None:
        message = "the disk is full"
        raise StoreError(message)

    with pytest.raises(StoreError, match="the disk is full"):
        wait_for(fail())


def test_a_call_from_inside_another_is_refused_and_does_not_hang() -> None:
    async def outer() -> Any:
        return wait_for(here())

    with pytest.raises(ConfigurationError, match="asynchronous method"):
        wait_for(outer())


def test_the_run_around_it_stays_behind() -> None:
    async def run_of_mine() -> bool:
        try:
            get_config()
        except RuntimeError:
            return False
        return True

    def call(_: object) -> bool:
        assert get_config()
        return wait_for(run_of_mine())

    assert RunnableLambda(call).invoke(None) is False


def test_tools_work_under_a_synchronous_checkpointer(talking: Callable[..., DualMem], tmp_path: Path) -> None:
    """SQLite's own can do nothing asynchronous, and must not reach the graphs that a tool runs."""
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    call = {"name": "remember", "args": {"statement": "Ana lives in Porto."}, "id": "c1", "type": "tool_call"}
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        agent: Any = (
            StateGraph(MessagesState)
            .add_node("tools", ToolNode(memory_tools(talking(), user_id="ana")))
            .add_edge(START, "tools")
            .add_edge("tools", END)
            .compile(checkpointer=saver)
        )
        given = {"messages": [HumanMessage("hi"), AIMessage("", tool_calls=[call])]}
        result = agent.invoke(given, {"configurable": {"thread_id": "t"}})
    assert result["messages"][-1].text == "Remembered."
