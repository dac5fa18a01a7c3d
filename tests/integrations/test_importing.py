"""Memories of LangMem, of LangGraph's stores and of mem0, read and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from qdrant_client import QdrantClient, models

from dualmem import DualMem
from dualmem.errors import ConfigurationError, InputError, UnknownFormat
from dualmem.integrations.importing import read_langgraph_store, read_mem0_collection, read_mem0_export
from dualmem.integrations.langgraph_store import DualMemStore

ROWS: list[dict[str, Any]] = [
    {
        "id": "6d0cb1a2-0d5c-4b33-9b8a-5a6f3e3d1c01",
        "memory": "Ana plays the cello.",
        "hash": "f3a1",
        "metadata": {"category": "music"},
        "created_at": "2024-03-02T10:00:00-08:00",
        "updated_at": None,
        "user_id": "ana",
    },
    {
        "id": "6d0cb1a2-0d5c-4b33-9b8a-5a6f3e3d1c02",
        "memory": "Lives in Porto",
        "created_at": "2024-01-02T10:00:00+00:00",
        "updated_at": "2024-03-01T10:00:00+00:00",
        "user_id": "ana",
        "run_id": "trip",
        "role": "assistant",
        "actor_id": "Bot",
    },
    {"id": "x3", "memory": "Bea likes figs.", "user_id": "bea", "created_at": "2024-03-02"},
    {"id": "x4", "memory": "An agent's own.", "agent_id": "helper"},
    {"id": "x5", "memory": "Was true for a day.", "user_id": "ana", "expiration_date": "2024-03-03"},
    {"id": "x6", "memory": "", "user_id": "ana"},
]


def seen(transcripts: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        user: [
            (m.content, m.role, m.name, m.timestamp.isoformat() if m.timestamp else None, m.session)
            for m in transcript.messages
        ]
        for user, transcript in transcripts.items()
    }


MEM0 = {
    "ana": [
        ("Lives in Porto", "assistant", "Bot", "2024-03-01T10:00:00+00:00", "trip"),
        ("Ana plays the cello.", "user", None, "2024-03-02T10:00:00-08:00", None),
    ],
    "bea": [("Bea likes figs.", "user", None, "2024-03-02T00:00:00+00:00", None)],
}


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"results": rows}, lambda rows: {"memories": rows}])
def test_reads_what_mem0_exports(tmp_path: Path, wrap: Callable[..., Any]) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps(wrap([*ROWS, "noise"])), encoding="utf-8")
    transcripts = read_mem0_export(file)
    assert seen(transcripts) == MEM0
    assert transcripts["ana"].skipped == {"empty message": 1}
    assert transcripts["ana"].messages[0].id == "6d0cb1a2-0d5c-4b33-9b8a-5a6f3e3d1c02"


@pytest.mark.parametrize("value", ["[]", "{}", '{"results": []}', '[{"text": "x"}]', "5", '"memory"'])
def test_other_json_is_refused(tmp_path: Path, value: str) -> None:
    file = tmp_path / "export.json"
    file.write_text(value, encoding="utf-8")
    with pytest.raises(UnknownFormat, match="no export of mem0"):
        read_mem0_export(file)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_mem0_export(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_mem0_export(tmp_path / "bad.json")


@pytest.fixture
def qdrant() -> QdrantClient:
    """A collection as mem0 fills it: the text in `data`, metadata beside it; more points than a page."""
    client = QdrantClient(":memory:")
    client.create_collection("mem0", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    rows = [{("data" if key == "memory" else key): value for key, value in row.items() if key != "id"} for row in ROWS]
    many = [{"data": f"Cy keeps fact {number}.", "user_id": "cy"} for number in range(450)]
    points = [models.PointStruct(id=n, vector=[1.0, 0.0], payload=row) for n, row in enumerate([*rows, *many])]
    client.upsert("mem0", points)
    return client


def test_reads_mem0s_collection(qdrant: QdrantClient) -> None:
    transcripts = read_mem0_collection(qdrant)
    assert len(transcripts.pop("cy").messages) == 450
    assert seen(transcripts) == MEM0


def test_a_missing_collection_is_named(qdrant: QdrantClient) -> None:
    with pytest.raises(InputError, match=r"'memories'.*'mem0'"):
        read_mem0_collection(qdrant, "memories")


async def test_an_import_can_be_repeated(open_memory: Callable[..., DualMem], tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps(ROWS), encoding="utf-8")
    memory = open_memory()
    for _ in range(2):
        for user, transcript in read_mem0_export(file).items():
            await memory.remember(transcript, user_id=user, strategy="verbatim")
    known = await memory.memories(user_id="ana")
    assert [found.text for found in known] == ["Lives in Porto", "Ana plays the cello."]
    assert known[0].known_at.isoformat() == "2024-03-01T10:00:00+00:00"


async def test_reads_a_store_of_langmem() -> None:
    store = InMemoryStore()
    store.put(("memories", "ana"), "k1", {"kind": "Memory", "content": {"content": "Ana plays the cello."}})
    store.put(("memories", "ana"), "k2", {"content": "Ana likes figs."})
    store.put(("memories", "ana", "travel"), "k3", {"text": "Ana goes to Rome."})
    store.put(("memories", "bea"), "k4", {"name": "Bea", "age": 41})
    store.put(("other",), "k5", {"text": "no user's"})
    for number in range(450):
        store.put(("memories", "cy"), str(number), {"text": f"Cy keeps fact {number}."})
    transcripts = await read_langgraph_store(store)
    assert len(transcripts.pop("cy").messages) == 450
    assert [(m.content, m.session, m.id) for m in transcripts["ana"].messages] == [
        ("Ana plays the cello.", None, "k1"),
        ("Ana likes figs.", None, "k2"),
        ("Ana goes to Rome.", "travel", "k3"),
    ]
    assert [m.content for m in transcripts["bea"].messages] == ['{"name": "Bea", "age": 41}']
    assert all(m.timestamp is not None for m in transcripts["ana"].messages)
    assert set(transcripts) == {"ana", "bea"}


async def test_the_user_may_stand_first() -> None:
    store = InMemoryStore()
    store.put(("ana", "memories"), "k1", {"data": "Ana likes figs."})
    store.put(("ana", "files"), "k2", {"data": "a file"})
    transcripts = await read_langgraph_store(store, namespace=("{user_id}", "memories"))
    assert [m.content for m in transcripts["ana"].messages] == ["Ana likes figs."]
    with pytest.raises(ConfigurationError):
        await read_langgraph_store(store, namespace=("memories",))


async def test_moves_a_store_whole(open_memory: Callable[..., DualMem]) -> None:
    """What was in LangGraph's own store is found by the same searches in ours."""
    old = InMemoryStore()
    for number, thing in enumerate(["the cello", "chess", "tennis"]):
        old.put(("memories", "ana"), f"k{number}", {"content": f"Ana plays {thing}."})
    memory = open_memory()
    for user, transcript in (await read_langgraph_store(old)).items():
        await memory.remember(transcript, user_id=user, strategy="verbatim")
    new = DualMemStore(memory, namespace=("memories", "{user_id}"))
    assert (await new.asearch(("memories", "ana"), query="tennis"))[0].value["content"] == "Ana plays tennis."
    assert len(await new.asearch(("memories", "ana"))) == 3
