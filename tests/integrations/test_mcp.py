"""The MCP server, used by the official client: in this process, and as a process of its own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from dualmem import DualMem
from dualmem.errors import InvalidUser, ModelUnavailable, StoreLocked
from dualmem.integrations.mcp import TRIES, build_server


def said(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


async def test_lists_its_tools(talking: Callable[..., DualMem]) -> None:
    async with Client(build_server(talking(), user_id="ana")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"recall", "remember", "forget", "list_memories"}
        for tool in tools.values():
            assert tool.description
            assert all(field["description"] for field in tool.input_schema["properties"].values())
            assert not {name for name in tool.input_schema["properties"] if "user" in name}
        assert tools["list_memories"].input_schema["properties"]["limit"]["maximum"] == 100
        assert tools["forget"].annotations is not None
        assert tools["forget"].annotations.destructive_hint is True
        assert client.server_info is not None
        assert client.server_info.name == "dualmem"
        assert "data" in (client.instructions or "")


async def test_remembers_recalls_lists_and_forgets(talking: Callable[..., DualMem]) -> None:
    async with Client(build_server(talking(), user_id="ana")) as client:
        assert said(await client.call_tool("remember", {"statement": "Ana lives in Porto."})) == "Remembered."
        found = await client.call_tool("recall", {"question": "Where does Ana live?"})
        assert said(found).splitlines()[0] == "Ana lives in Porto."
        listed = said(await client.call_tool("list_memories", {}))
        assert "Ana lives in Porto." in listed
        identifier = listed.removeprefix("[").partition("]")[0]
        assert "Forgotten" in said(await client.call_tool("forget", {"memory_id": identifier}))
        assert "no memories" in said(await client.call_tool("list_memories", {}))


async def test_what_goes_wrong_is_a_tool_error(talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
    memory = talking(answer=ModelUnavailable("the model is away"))
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    async with Client(build_server(memory, user_id="ana")) as client:
        for name, arguments, message in (
            ("recall", {"question": "Where?"}, "the model is away"),
            ("forget", {"memory_id": "abcd1234"}, "abcd1234"),
            ("recall", {"question": ""}, "question"),
            ("list_memories", {"limit": 0}, "limit"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert message in said(result)


@pytest.mark.parametrize("user", ["", "  "])
def test_a_blank_user_is_refused(talking: Callable[..., DualMem], user: str) -> None:
    with pytest.raises(InvalidUser):
        build_server(talking(), user_id=user)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Let the store be open elsewhere for the first `times` openings; return what happens to it."""

    def lock(times: int) -> list[str]:
        happened: list[str] = []
        look, close = DualMem.memories, DualMem.close

        async def memories(self: DualMem, **given: Any) -> Any:
            happened.append("opened")
            if happened.count("opened") <= times:
                message = "the store is open in another process"
                raise StoreLocked(message)
            return await look(self, **given)

        async def closing(self: DualMem) -> None:
            happened.append("closed")
            await close(self)

        monkeypatch.setattr(DualMem, "memories", memories)
        monkeypatch.setattr(DualMem, "close", closing)
        monkeypatch.setattr("dualmem.integrations.mcp.PAUSE", 0.0)
        return happened

    return lock


async def test_a_shared_store_is_waited_for_and_closed_after_each_call(
    talking: Callable[..., DualMem], locked: Callable[[int], list[str]]
) -> None:
    memory = talking()
    happened = locked(2)
    async with Client(build_server(memory, user_id="ana", share_store=True)) as client:
        for _ in range(2):
            assert "no memories" in said(await client.call_tool("list_memories", {}))
    assert happened == ["opened", "closed"] * 4


async def test_a_shared_store_is_not_waited_for_without_end(
    talking: Callable[..., DualMem], locked: Callable[[int], list[str]]
) -> None:
    memory = talking()
    happened = locked(1000)
    async with Client(build_server(memory, user_id="ana", share_store=True)) as client:
        result = await client.call_tool("list_memories", {})
    assert result.is_error
    assert "open in another process" in said(result)
    assert happened == ["opened", "closed"] * TRIES


async def test_a_store_of_ones_own_stays_open_and_is_tried_once(
    talking: Callable[..., DualMem], locked: Callable[[int], list[str]]
) -> None:
    memory = talking()
    happened = locked(1)
    async with Client(build_server(memory, user_id="ana")) as client:
        assert (await client.call_tool("list_memories", {})).is_error
        assert "no memories" in said(await client.call_tool("list_memories", {}))
    assert happened == ["opened", "opened"]


SERVER = textwrap.dedent("""
    import asyncio, logging, sys
    from dualmem import DualMem
    from dualmem.integrations.mcp import serve
    from dualmem.testing import ScriptedChatModel, WordEmbeddings

    async def main():
        script = {
            "answer": {"answer": "In Porto.", "found": True, "cites": ["M1"]},
            "gate": {"relevant": True, "faithful": True, "complete": True, "reason": "", "missing": ""},
        }
        model = ScriptedChatModel(script=script)
        async with DualMem(chat_model=model, embeddings=WordEmbeddings(), store=sys.argv[1]) as memory:
            logging.warning("logs do not disturb the client")
            await serve(memory, user_id="ana", strategy="verbatim")

    asyncio.run(main())
""")


async def test_serves_over_standard_input_and_output_and_remembers_across_processes(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    parameters = StdioServerParameters(command=sys.executable, args=[str(script), str(tmp_path / "store")])
    async with Client(stdio_client(parameters)) as client:
        assert said(await client.call_tool("remember", {"statement": "Ana lives in Porto."})) == "Remembered."
    async with Client(stdio_client(parameters)) as client:
        found = said(await client.call_tool("recall", {"question": "Where does Ana live?"}))
        assert found.startswith("In Porto.")
        assert "Ana lives in Porto." in found
