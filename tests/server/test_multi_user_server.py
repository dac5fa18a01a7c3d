"""The example of a server with several users: nobody reaches another's memory, whatever they send."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

pytestmark = pytest.mark.server

EXAMPLE = Path(__file__).parents[2] / "examples" / "multi_user_server"
DOUBLES = Path(__file__).parent / "doubles.py"


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example's server, with its graphs over doubles."""
    config = json.loads((EXAMPLE / "langgraph.json").read_text(encoding="utf-8"))
    config["graphs"] = {name: f"{DOUBLES}:{name}" for name in config["graphs"]}
    config["auth"]["path"] = str(EXAMPLE / "auth.py:auth")
    store = tmp_path_factory.mktemp("guarded") / "store"
    return serve(config, DUALMEM_STORE=str(store), TOKENS="a-secret=ana,b-secret=bea")


@pytest.fixture
def as_user(guarded: Any) -> Callable[[str | None], AbstractAsyncContextManager[Any]]:
    """Make a client that sends a token."""

    def make(token: str | None) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return get_client(url=guarded.url, api_key=None, headers=headers)

    return make


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_everyone_has_their_own_memory(as_user: Callable[..., Any]) -> None:
    asked = {"user_id": "ana", "question": "Where does Ana live?"}
    async with as_user("a-secret") as ana, as_user("b-secret") as bea:
        told = {"user_id": "ana", "messages": say("Ana lives in Porto.")}
        receipt = (await ana.runs.wait(None, "ingestion", input=told))["receipt"]
        assert receipt["user_id"] == "ana"
        assert (await ana.runs.wait(None, "recall", input=asked))["recollection"]["outcome"] == "answered"
        hers = (await bea.runs.wait(None, "recall", input=asked))["recollection"]
        assert (hers["user_id"], hers["outcome"]) == ("bea", "nothing_stored")


async def test_nobody_sees_another_thread(as_user: Callable[..., Any]) -> None:
    async with as_user("a-secret") as ana, as_user("b-secret") as bea:
        thread = (await ana.threads.create())["thread_id"]
        await ana.runs.wait(thread, "recall", input={"question": "Where?"})
        assert [found["thread_id"] for found in await ana.threads.search()] == [thread]
        assert await bea.threads.search() == []
        with pytest.raises(Exception, match="not found"):
            await bea.threads.get_state(thread)


async def test_nobody_goes_on_with_another_memory(as_user: Callable[..., Any]) -> None:
    """A thread's owner can write its state, and must not come to another's memory by it."""
    async with as_user("a-secret") as ana, as_user("b-secret") as bea:
        told = {"messages": say("Ana lives in Porto.")}
        await ana.runs.wait(None, "ingestion", input=told)
        thread = (await bea.threads.create())["thread_id"]
        await bea.runs.wait(thread, "recall", input={"question": "Where does Ana live?"})
        await bea.threads.update_state(thread, {"user_id": "ana", "stored": True}, as_node="retrieve")
        for run in ({}, {"command": {"update": {"user_id": "ana"}}}, {"command": {"goto": "retrieve"}}):
            with pytest.raises(Exception, match="a run starts with an input"):
                await bea.runs.wait(thread, "recall", **run)
        found = await bea.runs.wait(thread, "recall", input={"user_id": "ana", "question": "Where?"})
        assert found["recollection"]["outcome"] == "nothing_stored"


@pytest.mark.parametrize("token", [None, "guessed"])
async def test_without_a_known_token_nothing_is_served(as_user: Callable[..., Any], token: str | None) -> None:
    async with as_user(token) as client:
        with pytest.raises(Exception, match="401"):
            await client.runs.wait(None, "recall", input={"user_id": "ana", "question": "Where?"})
