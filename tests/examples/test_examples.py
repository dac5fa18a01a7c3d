"""Every example runs as it stands, on scripted models."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from dualmem import DualMem
from dualmem.testing import WordEmbeddings

EXAMPLES = Path(__file__).parents[2] / "examples"


class Talker(BaseChatModel):
    """The model of an agent: it replies with `replies` in order, and keeps what it was sent."""

    replies: list[Any]
    requests: list[list[Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "talker"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.requests.append(list(messages))
        reply = self.replies[len(self.requests) - 1]
        message = reply if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


def load(name: str) -> ModuleType:
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def known(reader: Callable[..., Any], grades: Callable[..., Any]) -> Callable[..., Any]:
    """Make the model of a memory: it learns statements, and answers with the first line of the evidence."""

    def answer(prompt: str) -> dict[str, Any]:
        line = next((line for line in prompt.splitlines() if line.startswith("[M1] ")), "")
        return {"answer": line.removeprefix("[M1] ").partition(" (")[0], "found": bool(line), "cites": ["M1"]}

    return lambda **script: reader(**{"answer": answer, "gate": grades(reason="as remembered"), **script})


@pytest.fixture
def memory(open_memory: Callable[..., DualMem], known: Callable[..., Any]) -> DualMem:
    return open_memory(known())


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f'load("{path.stem}")' in tested, path.name


async def test_quick_tour(memory: DualMem, capsys: pytest.CaptureFixture[str]) -> None:
    await load("quick_tour").main(memory)
    shown = capsys.readouterr().out
    assert "stored 3 turns, made 2 memories" in shown
    assert "route fast: as remembered" in shown
    assert "forgot 3 turns and 2 memories" in shown


def test_the_agent_of_thirty_lines_has_thirty() -> None:
    assert len((EXAMPLES / "thirty_lines.py").read_text(encoding="utf-8").splitlines()) <= 30


async def test_the_agent_of_thirty_lines_remembers_across_threads_and_restarts(
    known: Callable[..., Any], tmp_path: Path
) -> None:
    build = load("thirty_lines").build
    settings: dict[str, Any] = {"embeddings": WordEmbeddings(), "store": str(tmp_path / "store")}

    async def say(agent: Any, text: str, thread: str, user: str = "ana") -> str:
        given = {"user_id": user, "messages": [HumanMessage(text)]}
        result = await agent.ainvoke(given, {"configurable": {"thread_id": thread}})
        assert [message.text for message in result["messages"]][-2] == text
        return str(result["messages"][-1].text)

    async with DualMem(chat_model=known(), **settings) as memory:
        agent = build(memory)
        assert "no memories" in await say(agent, "Ana lives in Porto.", "monday")
        assert await say(agent, "Where does Ana live?", "tuesday") == "Ana lives in Porto."
        assert "no memories" in await say(agent, "Where does Ana live?", "monday", user="bea")
    # The checkpointer of before is gone, and with it every thread.
    async with DualMem(chat_model=known(), **settings) as memory:
        assert await say(build(memory), "Where does Ana live?", "wednesday") == "Ana lives in Porto."


async def test_subgraph_agent(memory: DualMem) -> None:
    example = load("subgraph_agent")
    talker = Talker(replies=["Nice!", "In Porto."])
    agent = example.build_agent(talker, memory.resources).copy(update={"checkpointer": InMemorySaver()})
    assert await example.chat("Ana lives in Porto.", user_id="ana", thread_id="one", agent=agent) == "Nice!"
    assert await example.chat("Where does Ana live?", user_id="ana", thread_id="two", agent=agent)
    assert "Ana lives in Porto." in talker.requests[1][0].text
    turns = await memory.resources.store.turns("ana", conversation_id="two")
    assert [turn.text for turn in turns] == ["Where does Ana live?", "In Porto."]
    drawn = example.graph.get_graph(xray=True).draw_mermaid()
    assert "recall" in drawn
    assert "ingestion" in drawn


async def test_tools_agent(memory: DualMem, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langchain.agents")

    def calls(name: str, **arguments: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name, "type": "tool_call"}])

    talker = Talker(
        replies=[
            calls("remember", statement="Ana plays the cello."),
            "I will.",
            calls("recall", question="What does Ana play?"),
            "The cello.",
        ]
    )
    assert await load("tools_agent").main(memory, talker) == ["I will.", "The cello."]
    assert talker.requests[3][-1].text.startswith("Ana plays the cello.")
    assert "The cello." in capsys.readouterr().out


async def test_middleware_agent(memory: DualMem) -> None:
    pytest.importorskip("langchain.agents")
    talker = Talker(replies=["Nice!", "The cello."])
    assert await load("middleware_agent").main(memory, talker) == ["Nice!", "The cello."]
    assert "I play the cello." in talker.requests[1][-2].text


async def test_background_ingestion(memory: DualMem) -> None:
    receipts = await load("background_ingestion").main(memory)
    assert [(receipt.turns_stored, receipt.turns_known, receipt.memories_made) for receipt in receipts] == [
        (2, 0, 1),
        (2, 2, 1),
    ]


async def test_replacing_summary_memory(memory: DualMem) -> None:
    example = load("replacing_summary_memory")
    talker = Talker(replies=["Nice!", "Hi!", "Well!", "Good!", "The cello."])
    assert (await example.main(memory, talker))[-1] == "The cello."
    last = talker.requests[-1]
    assert len(last) == example.LAST + 1
    assert "I play the cello." in last[0].text
    assert not any("cello" in message.text for message in last[1:])
