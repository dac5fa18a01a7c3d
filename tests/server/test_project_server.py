"""The project's own langgraph.json, as someone starts it who has configured nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

pytestmark = pytest.mark.server

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    config = json.loads((PROJECT / "langgraph.json").read_text(encoding="utf-8"))
    # The server runs elsewhere: it leaves files where it stands.
    config["graphs"] = {
        name: str(PROJECT / place) if place.startswith("./") else place for name, place in config["graphs"].items()
    }
    config.pop("env", None)
    store = tmp_path_factory.mktemp("project") / "store"
    return serve(config, DUALMEM_STORE=str(store))


@pytest.fixture
async def client(project: Any) -> AsyncIterator[Any]:
    async with get_client(url=project.url) as client:
        yield client


async def test_serves_the_graphs_with_their_form(client: Any) -> None:
    assistants = await client.assistants.search(metadata={"created_by": "system"})
    served = {assistant["graph_id"]: assistant["assistant_id"] for assistant in assistants}
    assert set(served) == {"recall", "ingestion", "deliberation", "agent"}
    for graph in ("recall", "ingestion", "deliberation"):
        schemas = await client.assistants.get_schemas(served[graph])
        form = schemas["context_schema"]["properties"]
        assert all(field.get("description") for field in form.values())
        assert all("default" in field for name, field in form.items() if name != "ranking_weights")
        assert "user_id" in schemas["input_schema"]["properties"]
        drawing = await client.assistants.get_graph(served[graph], xray=True)
        assert len(drawing["nodes"]) > 6


async def test_the_example_agent_shows_its_subgraphs(client: Any) -> None:
    (agent,) = await client.assistants.search(graph_id="agent", metadata={"created_by": "system"})
    drawing = await client.assistants.get_graph(agent["assistant_id"], xray=1)
    nodes = {node["id"] for node in drawing["nodes"]}
    assert {"recall:retrieve", "recall:gate", "reply", "ingestion:record", "ingestion:integrate"} <= nodes


async def test_without_a_model_the_run_says_how_to_set_one(client: Any) -> None:
    found = await client.runs.wait(None, "recall", input={"user_id": "ana", "question": "Where do I live?"})
    assert found["recollection"]["outcome"] == "nothing_stored"
    told = {"user_id": "ana", "messages": [{"role": "user", "content": "I live in Porto."}]}
    with pytest.raises(Exception, match="there are three ways"):
        await client.runs.wait(None, "ingestion", input=told)
