"""Memory as middleware: what the model is sent, what is remembered, and that nothing else changes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent as typed_create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, SummarizationMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from dualmem import DualMem
from dualmem.cleaning import INJECTED_CLOSE, INJECTED_OPEN
from dualmem.errors import InvalidUser, ModelUnavailable, StoreError
from dualmem.integrations.middleware import MemoryMiddleware

THREAD: Any = {"configurable": {"thread_id": "t1", "user_id": "ana"}}

create_agent: Any = typed_create_agent
"""Without its overloads: what the tests give it is what people give it, and not what its types spell out."""


@tool
def weather(place: str) -> str:
    """Tell the weather."""
    return f"It is sunny in {place}."


CALL = AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "Porto"}, "id": "c1", "type": "tool_call"}])


class LastTwo(AgentMiddleware):
    """Other people's middleware: it sends the last two messages only."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        return await handler(request.override(messages=request.messages[-2:]))


async def knowing(memory: DualMem, chat_of: Callable[..., Any]) -> DualMem:
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana", conversation_id="earlier")
    return memory


def injected(request: list[AnyMessage]) -> list[AnyMessage]:
    return [message for message in request if message.additional_kwargs.get("dualmem")]


async def test_evidence_goes_into_the_request_and_nowhere_else(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    memory = await knowing(talking(), chat_of)
    model = agent_model("In Porto.")
    agent = create_agent(model, middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    asked = HumanMessage("Where does Ana live?")
    given = [asked]
    result = await agent.ainvoke({"messages": given}, THREAD)
    (request,) = model.requests
    assert [message.type for message in request] == ["human", "human"]
    assert request[0].additional_kwargs == {"dualmem": {"injected": True}}
    assert request[0].text.startswith(INJECTED_OPEN)
    assert request[0].text.endswith(INJECTED_CLOSE)
    assert "Ana lives in Porto." in request[0].text
    assert [message.text for message in result["messages"]] == ["Where does Ana live?", "In Porto."]
    assert given == [HumanMessage("Where does Ana live?", id=asked.id)]
    assert asked.additional_kwargs == {}
    assert set(result) == {"messages"}


async def test_what_was_injected_is_not_learned_again(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    memory = await knowing(talking(), chat_of)
    agent = create_agent(agent_model("In Porto."), middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("Where does Ana live?")]}, THREAD)
    turns = await memory.resources.store.turns("ana", conversation_id="t1")
    assert [(turn.role, turn.text) for turn in turns] == [("user", "Where does Ana live?"), ("assistant", "In Porto.")]
    assert all(turn.said_at is not None for turn in turns)


async def test_a_turn_is_recalled_once_and_its_tool_calls_stay_whole(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    memory = await knowing(talking(), chat_of)
    model = agent_model(CALL, "Sunny.")
    agent = create_agent(model, [weather], middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("How is the weather where Ana lives?")]}, THREAD)
    first, second = model.requests
    assert [message.type for message in first] == ["human", "human"]
    assert [message.type for message in second] == ["human", "human", "ai", "tool"]
    assert injected(first)[0].text == injected(second)[0].text
    turns = await memory.resources.store.turns("ana", conversation_id="t1")
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "assistant"]


async def test_later_turns_add_only_what_is_new(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    model = agent_model("Good.", "In Porto.")
    agent = create_agent(model, middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]}, THREAD)
    await agent.ainvoke({"messages": [HumanMessage("Where do I live?")]}, THREAD)
    turns = await memory.resources.store.turns("ana", conversation_id="t1")
    assert [turn.text for turn in turns] == ["Ana lives in Porto.", "Good.", "Where do I live?", "In Porto."]
    assert "Ana lives in Porto." in injected(model.requests[1])[0].text
    assert [message.type for message in model.requests[1]] == ["human", "ai", "human", "human"]


async def test_another_thread_remembers(talking: Callable[..., DualMem], agent_model: Callable[..., Any]) -> None:
    memory = talking()
    model = agent_model("Good.", "In Porto.")
    agent = create_agent(model, middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]}, THREAD)
    other: Any = {"configurable": {"thread_id": "t2", "user_id": "ana"}}
    await agent.ainvoke({"messages": [HumanMessage("Where does Ana live?")]}, other)
    assert "Ana lives in Porto." in injected(model.requests[1])[0].text


async def test_without_a_checkpointer_messages_are_known_by_what_they_say(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    agent = create_agent(agent_model("Good.", "In Porto."), middleware=[MemoryMiddleware(memory, user_id="ana")])
    history: list[Any] = [("user", "Ana lives in Porto.")]
    await agent.ainvoke({"messages": history})
    await agent.ainvoke({"messages": [*history, ("ai", "Good."), ("user", "Where do I live?")]})
    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == ["Ana lives in Porto.", "Good.", "Where do I live?", "In Porto."]


async def test_a_full_recall_puts_its_answer_there(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    memory = await knowing(talking(), chat_of)
    model = agent_model("In Porto.")
    agent = create_agent(model, middleware=[MemoryMiddleware(memory, user_id="ana", recall="answer")])
    await agent.ainvoke({"messages": [HumanMessage("Where does Ana live?")]})
    assert "Answer from memory: Ana lives in Porto." in injected(model.requests[0])[0].text


@pytest.mark.parametrize("recall", ["search", "answer", "off"])
async def test_with_nothing_known_the_request_is_untouched(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any], recall: Any
) -> None:
    model = agent_model("I do not know.")
    middleware = MemoryMiddleware(talking(), user_id="ana", recall=recall, remember="off")
    await create_agent(model, middleware=[middleware]).ainvoke({"messages": [HumanMessage("Where?")]})
    assert [message.text for message in model.requests[0]] == ["Where?"]


async def test_remembering_can_be_switched_off(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    agent = create_agent(agent_model("Good."), middleware=[MemoryMiddleware(memory, user_id="ana", remember="off")])
    await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]})
    assert await memory.resources.store.count("ana") == (0, 0)


async def test_a_store_that_fails_costs_the_memory_and_not_the_answer(
    talking: Callable[..., DualMem],
    agent_model: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = talking()

    async def fail(*_: Any, **__: Any) -> Any:
        message = "the disk is full"
        raise StoreError(message)

    monkeypatch.setattr(memory, "context", fail)
    monkeypatch.setattr(memory, "remember", fail)
    model = agent_model("Hello.")
    agent = create_agent(model, middleware=[MemoryMiddleware(memory, user_id="ana")])
    with caplog.at_level(logging.WARNING):
        result = await agent.ainvoke({"messages": [HumanMessage("Hi, do you know me?")]})
    assert result["messages"][-1].text == "Hello."
    assert "cannot be read at the moment" in injected(model.requests[0])[0].text
    assert caplog.text.count("the disk is full") == 2


async def test_turns_that_wait_for_extraction_are_reported(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    memory = talking(extract=ModelUnavailable("the model is away"))
    agent = create_agent(agent_model("Good."), middleware=[MemoryMiddleware(memory, user_id="ana")])
    with caplog.at_level(logging.WARNING):
        await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]})
    assert "2 turns are stored and wait for extraction" in caplog.text


async def test_without_a_user_the_run_fails(talking: Callable[..., DualMem], agent_model: Callable[..., Any]) -> None:
    agent = create_agent(agent_model("Hello."), middleware=[MemoryMiddleware(talking())])
    with pytest.raises(InvalidUser):
        await agent.ainvoke({"messages": [HumanMessage("Hi, do you know me?")]})


async def test_a_summary_is_neither_a_question_nor_remembered(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    memory = talking()
    model = agent_model("Good.", "In Porto.")
    summarise = SummarizationMiddleware(agent_model("A summary."), trigger=("messages", 3), keep=("messages", 1))
    middleware = [MemoryMiddleware(memory), summarise]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]}, THREAD)
    result = await agent.ainvoke({"messages": [HumanMessage("Where do I live?")]}, THREAD)
    assert "A summary." in result["messages"][0].text
    request = model.requests[1]
    assert [bool(message.additional_kwargs.get("dualmem")) for message in request] == [False, True, False]
    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == ["Ana lives in Porto.", "Good.", "Where do I live?", "In Porto."]


async def test_in_the_background_the_answer_does_not_wait(
    talking: Callable[..., DualMem], agent_model: Callable[..., Any]
) -> None:
    reading = threading.Event()

    def extract(_: str) -> dict[str, Any]:
        assert reading.wait(10)
        return {"memories": []}

    memory = talking(extract=extract)
    middleware = MemoryMiddleware(memory, remember="background")
    agent = create_agent(agent_model("Good.", "Yes."), middleware=[middleware], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [HumanMessage("Ana lives in Porto.")]}, THREAD)
    await agent.ainvoke({"messages": [HumanMessage("Ana works at Lune.")]}, THREAD)
    assert await memory.memories(user_id="ana") == []
    reading.set()
    await middleware.aflush()
    turns = await memory.resources.store.turns("ana", states=("read",))
    assert [turn.text for turn in turns] == ["Ana lives in Porto.", "Good.", "Ana works at Lune.", "Yes."]


def test_works_without_an_event_loop(talking: Callable[..., DualMem], agent_model: Callable[..., Any]) -> None:
    memory = talking()
    model = agent_model("Good.", "In Porto.")
    middleware = MemoryMiddleware(memory, remember="background")
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("Ana lives in Porto.")]}, THREAD)
    middleware.flush()
    agent.invoke({"messages": [HumanMessage("Where does Ana live?")]}, THREAD)
    middleware.flush()
    assert "Ana lives in Porto." in injected(model.requests[1])[0].text


async def test_many_threads_at_once(talking: Callable[..., DualMem], agent_model: Callable[..., Any]) -> None:
    memory = talking()
    agent = create_agent(agent_model(*["ok"] * 6), middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver())
    await asyncio.gather(
        *(
            agent.ainvoke(
                {"messages": [HumanMessage(f"Fact {number} was told.")]},
                {"configurable": {"thread_id": f"t{number}", "user_id": f"user{number % 3}"}},
            )
            for number in range(6)
        )
    )
    for user in range(3):
        known = {found.text for found in await memory.memories(user_id=f"user{user}")}
        assert known == {f"Fact {user} was told.", f"Fact {user + 3} was told."}


async def test_a_cut_history_gets_its_context_all_the_same(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any], agent_model: Callable[..., Any]
) -> None:
    """Other middleware may leave a request without any human message."""
    memory = await knowing(talking(), chat_of)
    model = agent_model("In Porto.")
    agent = create_agent(model, middleware=[LastTwo(), MemoryMiddleware(memory, user_id="ana")])
    result = ToolMessage("It is sunny in Porto.", tool_call_id="c1")
    await agent.ainvoke({"messages": [HumanMessage("Where does Ana live?"), CALL, result]})
    assert [message.type for message in model.requests[0]] == ["human", "ai", "tool"]
    assert injected(model.requests[0])
