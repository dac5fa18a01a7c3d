"""The graphs behind LangGraph's own server, driven by its own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph_sdk import get_client

pytestmark = pytest.mark.server


@pytest.fixture
async def client(server: Any) -> AsyncIterator[Any]:
    async with get_client(url=server.url) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def _never_blocked(server: Any) -> Iterator[None]:
    """Nothing that ran in this module has blocked the server's event loop."""
    yield
    assert "BlockingError" not in server.said()
    assert "Blocking call to" not in server.said()


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_remembers_and_recalls(client: Any) -> None:
    told = {"user_id": "ana", "conversation_id": "chat", "messages": say("Ana lives in Porto.")}
    receipt = (await client.runs.wait(None, "ingestion", input=told))["receipt"]
    assert (receipt["turns_stored"], receipt["memories_made"], receipt["turns_pending"]) == (1, 1, 0)
    found = await client.runs.wait(None, "recall", input={"user_id": "ana", "question": "Where does Ana live?"})
    assert (found["answer"], found["route"]) == ("as it says", "fast")
    assert found["evidence_ids"] == receipt["memory_ids"]
    assert found["recollection"]["evidence"][0]["text"] == "Ana lives in Porto."
    assert found["verdict"]["policy"] == "quality"


async def test_what_json_can_carry_is_enough_for_an_input(client: Any) -> None:
    """Scopes, times, messages and transcripts arrive as plain objects."""
    transcript = {
        "conversation_id": "club",
        "messages": [{"role": "user", "content": "Tom plays chess.", "name": "Tom", "timestamp": "2024-03-01T10:00Z"}],
    }
    await client.runs.wait(None, "ingestion", input={"user_id": "json", "transcript": transcript})
    asked: dict[str, Any] = {
        "user_id": "json",
        "messages": say("What did Tom play in the week before?"),
        "scope": {"speakers": ["Tom"]},
        "asked_at": "2024-03-04T10:00:00Z",
    }
    found = await client.runs.wait(None, "recall", input=asked)
    assert found["recollection"]["evidence"][0]["text"] == "Tom plays chess."
    elsewhere = await client.runs.wait(
        None, "recall", input={**asked, "scope": {"speakers": ["Bea"]}}, context={"gate": "never"}
    )
    assert elsewhere["recollection"]["outcome"] == "nothing_relevant"
    asked = {key: value for key, value in asked.items() if key != "messages"} | {"question": "What did Tom play?"}
    read = await client.runs.wait(None, "deliberation", input=asked)
    assert read["recollection"]["coverage"]["turns_total"] == 1
    for wrong, message in (({"scope": {"speaker": "Tom"}}, "speaker"), ({"asked_at": "soon"}, "soon")):
        with pytest.raises(Exception, match=message):
            await client.runs.wait(None, "deliberation", input={**asked, **wrong})


async def test_a_form_with_descriptions_bounds_and_defaults(client: Any) -> None:
    for graph in ("recall", "ingestion", "deliberation"):
        (assistant,) = await client.assistants.search(graph_id=graph, metadata={"created_by": "system"})
        form = (await client.assistants.get_schemas(assistant["assistant_id"]))["context_schema"]["properties"]
        assert form["top_k"]["default"] == 30
        assert (form["top_k"]["minimum"], form["top_k"]["maximum"]) == (1, 500)
        assert form["top_k"]["description"].startswith("Memories taken per speaker")
        assert form["gate"]["enum"] == ["quality", "majority", "consensus", "always", "never"]
        assert not {name for name in form if "key" in name or name == "store"}


async def test_schemas_name_what_goes_in_and_comes_out(client: Any) -> None:
    (assistant,) = await client.assistants.search(graph_id="recall", metadata={"created_by": "system"})
    schemas = await client.assistants.get_schemas(assistant["assistant_id"])
    assert {"user_id", "question", "messages", "scope", "asked_at"} == set(schemas["input_schema"]["properties"])
    assert {"answer", "route", "verdict", "evidence_ids", "recollection"} == set(schemas["output_schema"]["properties"])


async def test_the_drawing_shows_both_ways_to_an_answer(client: Any) -> None:
    graph = await client.assistants.get_graph("recall", xray=True)
    edges = {(edge["source"], edge["target"]): edge.get("data") for edge in graph["edges"]}
    assert edges["gate", "__end__"] == "done"
    assert edges["gate", "deliberation:plan"] == "deliberate"
    assert ("deliberation:extract", "deliberation:threshold") in edges


@pytest.mark.parametrize(
    ("options", "policy"), [({"gate": "never"}, "never"), ({"preset": "full"}, "always"), ({}, "quality")]
)
async def test_a_run_is_configured_in_its_context(client: Any, options: dict[str, Any], policy: str) -> None:
    await client.runs.wait(None, "ingestion", input={"user_id": "cy", "messages": say("Cy likes figs.")})
    asked = {"user_id": "cy", "question": "What does Cy like?"}
    found = await client.runs.wait(None, "recall", input=asked, context=options)
    assert found["verdict"]["policy"] == policy


async def test_assistants_keep_their_presets(client: Any) -> None:
    await client.runs.wait(None, "ingestion", input={"user_id": "di", "messages": say("Di likes figs.")})
    asked = {"user_id": "di", "question": "What is everything that Di likes?"}
    routes = {}
    for name, context in {"fast": {"gate": "never"}, "careful": {"preset": "quality"}}.items():
        assistant = await client.assistants.create("recall", context=context, name=name)
        found = await client.runs.wait(None, assistant["assistant_id"], input=asked)
        routes[name] = (found["verdict"]["policy"], found["route"])
    assert routes == {"fast": ("never", "fast"), "careful": ("quality", "deliberate")}


async def test_a_wrong_setting_fails_the_run_and_is_named(client: Any) -> None:
    with pytest.raises(Exception, match="gate"):
        await client.runs.wait(
            None, "recall", input={"user_id": "ana", "question": "Where?"}, context={"gate": "sometimes"}
        )


async def test_streams_each_step_and_those_of_the_subgraph(client: Any) -> None:
    await client.runs.wait(None, "ingestion", input={"user_id": "ed", "messages": say("Ed likes figs.")})
    thread = await client.threads.create()
    steps, events = [], []
    async for part in client.runs.stream(
        thread["thread_id"],
        "recall",
        input={"user_id": "ed", "question": "Tell me everything."},
        stream_mode=["updates", "custom"],
        stream_subgraphs=True,
    ):
        kind, _, place = part.event.partition("|")
        if kind == "updates":
            steps += [f"{place.partition(':')[0]}/{name}" for name in part.data]
        elif kind == "custom":
            events.append(part.data["event"])
    assert steps[:4] == ["/retrieve", "/filter", "/answer", "/gate"]
    assert [step for step in steps if step.startswith("deliberation/")] == [
        f"deliberation/{name}"
        for name in ("plan", "extract", "threshold", "filter", "reconcile", "answer", "gate", "remember")
    ]
    assert steps[-1] == "/deliberation"
    assert events == ["verdict", "chunk", "coverage", "check"]


async def test_the_token_stream_holds_no_internal_replies(client: Any) -> None:
    """What the steps ask of the model is JSON, and no text for a person."""
    await client.runs.wait(None, "ingestion", input={"user_id": "flo", "messages": say("Flo likes figs.")})
    thread = await client.threads.create()
    asked = {"user_id": "flo", "question": "Tell me everything."}
    async for part in client.runs.stream(
        thread["thread_id"], "recall", input=asked, stream_mode="messages-tuple", stream_subgraphs=True
    ):
        assert not part.event.startswith("messages"), part.data


async def test_a_thread_keeps_its_states(client: Any) -> None:
    await client.runs.wait(None, "ingestion", input={"user_id": "gil", "messages": say("Gil likes figs.")})
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "recall", input={"user_id": "gil", "question": "What does Gil like?"})
    await client.runs.wait(thread, "recall", input={"user_id": "gil", "question": "What is everything Gil likes?"})
    state = await client.threads.get_state(thread)
    assert state["values"]["recollection"]["question"] == "What is everything Gil likes?"
    assert state["values"]["route"] == "deliberate"
    history = await client.threads.get_history(thread, limit=50)
    before = next(past for past in history if past["next"] == ["gate"])
    again = await client.runs.wait(thread, "recall", checkpoint_id=before["checkpoint"]["checkpoint_id"])
    assert again["answer"] == "as it says"


async def test_runs_at_once_keep_their_users_apart(client: Any) -> None:
    users = [f"user-{number}" for number in range(4)]
    await asyncio.gather(
        *(
            client.runs.wait(
                None, "ingestion", input={"user_id": user, "messages": say(f"{user} keeps fact {number}.")}
            )
            for user in users
            for number in range(3)
        )
    )
    for user in users:
        found = await client.runs.wait(None, "recall", input={"user_id": user, "question": "Which facts are kept?"})
        known = {item["text"] for item in found["recollection"]["evidence"]}
        assert known == {f"{user} keeps fact {number}." for number in range(3)}


async def test_a_run_can_be_cancelled_and_the_next_one_works(client: Any) -> None:
    await client.runs.wait(None, "ingestion", input={"user_id": "hal", "messages": say("Hal likes figs.")})
    thread = (await client.threads.create())["thread_id"]
    asked = {"user_id": "hal", "question": "What, slowly?"}
    slow = await client.runs.create(thread, "recall", input=asked, stream_mode="updates", stream_resumable=True)
    async for part in client.runs.join_stream(thread, slow["run_id"], stream_mode="updates"):
        if "filter" in (part.data or {}):
            break
    await client.runs.cancel(thread, slow["run_id"], wait=True)
    assert (await client.runs.get(thread, slow["run_id"]))["status"] == "interrupted"
    found = await client.runs.wait(thread, "recall", input={"user_id": "hal", "question": "What does Hal like?"})
    assert found["recollection"]["outcome"] == "answered"


async def test_the_servers_own_mcp_endpoint_offers_the_graphs(client: Any, server: Any) -> None:
    """With the official client, over loopback HTTP."""
    mcp = pytest.importorskip("mcp")
    await client.runs.wait(None, "ingestion", input={"user_id": "ivo", "messages": say("Ivo likes figs.")})
    async with mcp.Client(f"{server.url}/mcp/", mode="legacy") as desk:
        tools = {tool.name: tool for tool in (await desk.list_tools()).tools}
        assert {"recall", "ingestion", "deliberation"} <= set(tools)
        assert "question" in tools["recall"].input_schema["properties"]
        result = await desk.call_tool("recall", {"user_id": "ivo", "question": "What does Ivo like?"})
        assert not result.is_error
        assert "Ivo likes figs." in result.content[0].text
