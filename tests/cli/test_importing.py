"""`dualmem import`: memories of other systems, told by what they are kept in."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import AsyncSqliteStore
from qdrant_client import QdrantClient, models

Run = Callable[..., Any]


@pytest.fixture
def taken_over(dualmem: Run, scripted: Run, reader: Run) -> Run:
    """Run the command with a model that must not be called."""
    scripted(reader(extract=[]))

    def run(*arguments: str) -> dict[str, list[str]]:
        done = dualmem("import", *arguments, "--json")
        assert (done.status, done.err) == (0, "")
        receipts = done.json if isinstance(done.json, list) else [done.json]
        assert all(receipt["usage"]["calls"] == 0 for receipt in receipts)
        return {
            receipt["user_id"]: [
                memory["text"] for memory in dualmem("memories", "list", "--user", receipt["user_id"], "--json").json
            ]
            for receipt in receipts
        }

    return run


@pytest.fixture
def export(tmp_path: Path) -> str:
    path = tmp_path / "export.json"
    rows = [
        {"id": "1", "memory": "Ana plays the cello.", "user_id": "ana", "created_at": "2024-03-02T10:00:00Z"},
        {"id": "2", "memory": "Bea likes figs.", "user_id": "bea", "created_at": "2024-03-02T10:00:00Z"},
    ]
    path.write_text(json.dumps({"results": rows}), encoding="utf-8")
    return str(path)


def test_an_export_of_mem0(taken_over: Run, export: str) -> None:
    assert taken_over(export) == {"ana": ["Ana plays the cello."], "bea": ["Bea likes figs."]}


def test_again_it_adds_nothing(dualmem: Run, taken_over: Run, export: str) -> None:
    taken_over(export)
    again = dualmem("import", export, "--user", "ana", "--json").json
    assert (again["turns_stored"], again["turns_known"], again["memories_made"]) == (0, 1, 0)


def test_one_user_of_several(taken_over: Run, export: str) -> None:
    assert taken_over(export, "--user", "bea") == {"bea": ["Bea likes figs."]}


def test_the_folder_of_mem0s_qdrant(taken_over: Run, tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path / "qdrant"))
    client.create_collection("mem0", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    payload = {"data": "Ana lives in Porto.", "user_id": "ana", "created_at": "2024-03-02T10:00:00Z"}
    client.upsert("mem0", [models.PointStruct(id=1, vector=[1.0, 0.0], payload=payload)])
    client.close()
    assert taken_over(str(tmp_path / "qdrant")) == {"ana": ["Ana lives in Porto."]}


@pytest.fixture
def langmem(tmp_path: Path) -> Path:
    """A LangGraph store in a file, as LangMem fills it."""
    path = tmp_path / "store.sqlite"

    async def fill() -> None:
        async with AsyncSqliteStore.from_conn_string(str(path)) as store:
            await store.setup()
            value = {"kind": "Memory", "content": {"content": "Ana lives in Porto."}}
            await store.aput(("memories", "ana"), "1", value)

    asyncio.run(fill())
    return path


def test_a_langgraph_store_in_a_file_which_stays_as_it_is(taken_over: Run, langmem: Path) -> None:
    before = langmem.read_bytes()
    assert taken_over(str(langmem)) == {"ana": ["Ana lives in Porto."]}
    assert langmem.read_bytes() == before
    assert [path.name for path in langmem.parent.glob("store.sqlite*")] == ["store.sqlite"]


def test_a_namespace_of_another_form(dualmem: Run, scripted: Run, reader: Run, langmem: Path) -> None:
    scripted(reader())
    complaint = dualmem("import", str(langmem), "--namespace", "facts/{user_id}").complaint
    assert "names no user" in complaint
    assert "{user_id}" in dualmem("import", str(langmem), "--namespace", "memories").complaint


@pytest.mark.parametrize("command", [["--user", "cy"], []])
def test_what_it_is_kept_in_is_not_known(
    dualmem: Run, scripted: Run, reader: Run, tmp_path: Path, export: str, command: list[str]
) -> None:
    scripted(reader())
    if command:
        complaint = dualmem("import", export, *command).complaint
        assert all(word in complaint for word in ("'cy'", "'ana'", "'bea'"))
        return
    (tmp_path / "other.json").write_text('{"weather": "sunny"}', encoding="utf-8")
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE songs (name)")
    other.close()
    (tmp_path / "folder").mkdir()
    for source, words in (
        ("nowhere.json", "nowhere.json"),
        (str(tmp_path / "other.json"), "no export of mem0"),
        (str(tmp_path / "other.sqlite"), "songs"),
        (str(tmp_path / "folder"), "none of a Qdrant"),
    ):
        assert words in dualmem("import", source).complaint
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_qdrant_folder_without_the_collection(dualmem: Run, scripted: Run, reader: Run, tmp_path: Path) -> None:
    scripted(reader())
    client = QdrantClient(path=str(tmp_path / "qdrant"))
    client.create_collection("facts", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
    client.close()
    assert "'facts'" in dualmem("import", str(tmp_path / "qdrant")).complaint


def test_a_postgres_store_needs_its_package(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.store.postgres", None)
    complaint = dualmem("import", "postgresql://ana:secret@127.0.0.1/store").complaint
    assert 'pip install langgraph-checkpoint-postgres "psycopg[binary]"' in complaint
    assert "secret" not in complaint
