"""Memory as tools: LangChain's own suites, whose memory is used, and what the model gets to read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from dualmem import DualMem
from dualmem.errors import InvalidUser, ModelUnavailable
from dualmem.integrations.tools import memory_tools

ARGUMENTS: dict[str, dict[str, Any]] = {
    "recall": {"question": "Where does Ana live?"},
    "remember": {"statement": "Ana plays the cello."},
    "list_memories": {"about": "home", "limit": 3},
}


def by_name(memory: DualMem, **options: Any) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in memory_tools(memory, **options)}


class Filled:
    """A tool of a memory that holds something, for LangChain's suites."""

    name = ""

    @pytest.fixture(autouse=True)
    async def _filled(self, talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
        memory = talking()
        await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
        self._tool = by_name(memory, user_id="ana")[self.name]
        (known,) = await memory.memories(user_id="ana")
        self._arguments = {**ARGUMENTS, "forget": {"memory_id": known.id[:8]}}[self.name]

    @property
    def tool_constructor(self) -> BaseTool:
        return self._tool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return self._arguments


class TestRecallUnit(Filled, ToolsUnitTests):
    name = "recall"


class TestRecallIntegration(Filled, ToolsIntegrationTests):
    name = "recall"


class TestRememberUnit(Filled, ToolsUnitTests):
    name = "remember"


class TestRememberIntegration(Filled, ToolsIntegrationTests):
    name = "remember"


class TestForgetUnit(Filled, ToolsUnitTests):
    name = "forget"


class TestForgetIntegration(Filled, ToolsIntegrationTests):
    name = "forget"


class TestListMemoriesUnit(Filled, ToolsUnitTests):
    name = "list_memories"


class TestListMemoriesIntegration(Filled, ToolsIntegrationTests):
    name = "list_memories"


@dataclass
class Host:
    """The context of somebody else's graph."""

    user_id: str


def agent_with(memory: DualMem, **options: Any) -> Any:
    """A graph of nothing but a tool node."""
    return (
        StateGraph(MessagesState, context_schema=Host)
        .add_node("tools", ToolNode(memory_tools(memory, **options)))
        .add_edge(START, "tools")
        .add_edge("tools", END)
        .compile()
    )


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"name": name, "args": arguments, "id": "call-1", "type": "tool_call"}
    return {"messages": [HumanMessage("hi"), AIMessage("", tool_calls=[call])]}


def told(result: Any) -> ToolMessage:
    return cast("ToolMessage", result["messages"][-1])


def test_no_tool_has_the_user_among_its_arguments(talking: Callable[..., DualMem]) -> None:
    for tool in memory_tools(talking()):
        assert not {name for name in tool.args if "user" in name}, tool.name


async def test_remembers_and_recalls_for_the_user_of_the_run(talking: Callable[..., DualMem]) -> None:
    memory = talking()
    agent = agent_with(memory)
    done = told(await agent.ainvoke(calling("remember", statement="Ana lives in Porto."), context=Host("ana")))
    assert done.content == "Remembered."
    found = told(await agent.ainvoke(calling("recall", question="Where does Ana live?"), context=Host("ana")))
    assert found.text.splitlines()[0] == "Ana lives in Porto."
    assert found.artifact.route == "fast"
    other = told(await agent.ainvoke(calling("recall", question="Where does Ana live?"), context=Host("bea")))
    assert "nothing stored" in other.text


async def test_a_note_is_told_by_the_assistant(talking: Callable[..., DualMem]) -> None:
    memory = talking()
    await by_name(memory, user_id="ana")["remember"].ainvoke({"statement": "Ana lives in Porto."})
    (known,) = await memory.memories(user_id="ana")
    (turn,) = await memory.sources(known)
    assert (turn.role, turn.conversation_id, turn.said_at is not None) == ("assistant", "notes", True)


async def test_a_changed_note_replaces_the_earlier_one(talking: Callable[..., DualMem]) -> None:
    tools = by_name(talking(), user_id="ana")
    await tools["remember"].ainvoke({"statement": "Ana lives in Berlin."})
    assert "1 earlier memories were replaced" in await tools["remember"].ainvoke({"statement": "Ana lives in Porto."})
    assert "Berlin" not in await tools["list_memories"].ainvoke({})


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"configurable": {"user_id": "ana"}}, None),
        ({"configurable": {"user_id": "bea"}}, Host("ana")),
        ({"configurable": {"langgraph_auth_user_id": "ana", "user_id": "bea"}}, Host("bea")),
        ({"configurable": {"langgraph_auth_user": {"identity": "ana"}, "langgraph_auth_user_id": ""}}, Host("bea")),
        ({"configurable": {"langgraph_auth_user_id": ""}}, Host("ana")),
    ],
    ids=["config", "context before config", "login before both", "login as an object", "nobody logged in"],
)
async def test_the_user_comes_from_the_run(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], config: Any, context: Any
) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    result = await agent_with(memory).ainvoke(calling("list_memories"), config, context=context)
    assert "Porto" in told(result).text


async def test_the_application_can_fix_the_user(talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    result = await agent_with(memory, user_id="ana").ainvoke(calling("list_memories"), context=Host("bea"))
    assert "Porto" in told(result).text


async def test_without_a_user_the_run_fails(talking: Callable[..., DualMem]) -> None:
    with pytest.raises(InvalidUser, match="no user is known"):
        await agent_with(talking()).ainvoke(calling("list_memories"))
    with pytest.raises(InvalidUser, match="no user is known"):
        await by_name(talking())["list_memories"].ainvoke({})


async def test_forgets_a_memory_and_where_it_came_from(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any]
) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana lives in Porto.", "Ana: Ana works at Lune."), user_id="ana")
    tools = by_name(memory, user_id="ana")
    listed = (await tools["list_memories"].ainvoke({"about": "lives Porto", "limit": 1})).splitlines()
    assert len(listed) == 1
    identifier = listed[0].removeprefix("[").partition("]")[0]
    assert "Forgotten: Ana lives in Porto." in await tools["forget"].ainvoke({"memory_id": identifier})
    assert [found.text for found in await memory.memories(user_id="ana", states=())] == ["Ana works at Lune."]
    assert not [item for item in await memory.search("Where does Ana live?", user_id="ana") if "Porto" in item.text]


async def test_an_unknown_id_is_explained(talking: Callable[..., DualMem]) -> None:
    result = told(await agent_with(talking()).ainvoke(calling("forget", memory_id="abcd1234"), context=Host("ana")))
    assert result.status == "error"
    assert "abcd1234" in result.text


async def test_a_failing_model_is_explained(talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
    memory = talking(answer=ModelUnavailable("the model is away"))
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    result = told(await agent_with(memory).ainvoke(calling("recall", question="Where?"), context=Host("ana")))
    assert result.status == "error"
    assert "cannot be used at the moment: the model is away" in result.text


async def test_a_statement_that_cannot_be_read_yet_is_stored(talking: Callable[..., DualMem]) -> None:
    memory = talking(extract=ModelUnavailable("the model is away"))
    said = await by_name(memory, user_id="ana")["remember"].ainvoke({"statement": "Ana lives in Porto."})
    assert "not worked into memory yet" in said
    assert [item.text for item in await memory.search("Porto", user_id="ana")] == ["Ana lives in Porto."]


@pytest.mark.parametrize("arguments", [{}, {"question": ""}, {"question": None}])
async def test_wrong_arguments_are_explained(talking: Callable[..., DualMem], arguments: dict[str, Any]) -> None:
    tool = by_name(talking(), user_id="ana")["recall"]
    said = await tool.ainvoke({"name": "recall", "args": arguments, "id": "1", "type": "tool_call"})
    assert said.status == "error"
    assert "question" in said.text


async def test_blank_statements_are_refused(talking: Callable[..., DualMem]) -> None:
    tool = by_name(talking(), user_id="ana")["remember"]
    tool.handle_tool_error = False
    with pytest.raises(ToolException, match="no message to remember"):
        await tool.ainvoke({"statement": "  "})


def test_works_without_an_event_loop(talking: Callable[..., DualMem]) -> None:
    tools = by_name(talking())
    agent = agent_with(tools["recall"].memory)  # type: ignore[attr-defined] # our own tool's
    assert told(agent.invoke(calling("remember", statement="Ana lives in Porto."), context=Host("ana"))).text
    assert "Porto" in told(agent.invoke(calling("recall", question="Where?"), context=Host("ana"))).text


async def test_many_runs_at_once_keep_their_users(talking: Callable[..., DualMem]) -> None:
    memory = talking()
    agent = agent_with(memory)
    users = [f"user-{number}" for number in range(8)]
    await asyncio.gather(
        *(agent.ainvoke(calling("remember", statement=f"{user} lives in Porto."), context=Host(user)) for user in users)
    )
    for user in users:
        assert [found.text for found in await memory.memories(user_id=user)] == [f"{user} lives in Porto."]
