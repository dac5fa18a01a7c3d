"""The commands on decisions and on the upkeep of a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana owns a boat.", "Ana: Ana lives in Porto.")


@pytest.fixture
def filled(dualmem: Make, scripted: Make, reader: Make, chat_file: Make) -> Make:
    """Run `dualmem` on a store that holds one conversation."""
    scripted(reader())
    assert dualmem("ingest", chat_file(*LINES), "--user", "ana").status == 0
    return dualmem


def memories(dualmem: Make, *more: str, user: str = "ana") -> dict[str, Any]:
    listed = dualmem("memories", "list", "--user", user, "--json", "--all", *more).json
    return {one["text"].split()[-1].rstrip("."): one for one in listed}


def test_why_and_undo(filled: Make) -> None:
    berlin = memories(filled)["Berlin"]
    shown = filled("memories", "why", berlin["id"][:8], "--user", "ana").out
    for part in ("Ana lives in Porto.", "replaces", "lives changed", "(superseded)", "3 March 2024"):
        assert part in shown
    (decision,) = filled("memories", "why", berlin["id"], "--user", "ana", "--json").json["decisions"]
    undone = filled("memories", "undo", decision["id"][:8], "--user", "ana")
    assert (undone.status, "in force again" in undone.out) == (0, True)
    assert memories(filled)["Berlin"]["state"] == "active"
    assert "no memory or decision" in filled("memories", "undo", "zzz", "--user", "ana").complaint


def test_what_came_of_a_turn(filled: Make) -> None:
    porto = memories(filled)["Porto"]
    shown = filled("memories", "from-turn", porto["sources"][0]["turn_id"][:8], "--user", "ana").out
    assert "from this turn alone" in shown
    assert "out of force because of it" in shown
    assert "Berlin" in shown
    assert "no turn" in filled("memories", "from-turn", "zzz", "--user", "ana").complaint


def test_what_was_rejected(dualmem: Make, scripted: Make, reader: Make, chat_file: Make) -> None:
    statements = [
        {"turns": [1], "quote": "she [bold]said[/bold]", "text": "Ana lives in [red]Rome."},
        {"turns": [9], "quote": "", "text": "Ana likes rain."},
    ]
    scripted(reader(extract={"memories": statements}))
    assert "nothing was rejected" in dualmem("memories", "rejected", "--user", "ana").out
    dualmem("ingest", chat_file(*LINES), "--user", "ana")
    shown = dualmem("memories", "rejected", "--user", " ana ", "--conversation", "chat").out
    for part in (
        "Ana lives in [red]Rome.",
        "its quote is not in its source turns: she [bold]said[/bold]",
        "Ana (1 March 2024, 10:00): Ana lives in Berlin.",
        "Ana likes rain.",
        "cites a turn that was not shown",
    ):
        assert part in shown
    found = dualmem("memories", "rejected", "--user", "ana", "--json").json
    assert [(one["text"], len(one["turn_ids"])) for one in found] == [
        ("Ana lives in [red]Rome.", 1),
        ("Ana likes rain.", 0),
    ]
    assert dualmem("memories", "rejected", "--user", "ana", "--conversation", "no", "--json").json == []
    receipt = dualmem("forget", "--user", "ana", "--yes", "--turn", found[0]["turn_ids"][0], "--json").json
    assert receipt["rejections"] == 2
    assert dualmem("memories", "rejected", "--user", "ana", "--json").json == []


def test_forgetting_needs_a_word_and_gives_a_receipt(filled: Make) -> None:
    porto = memories(filled)["Porto"]
    assert "--yes" in filled("forget", "--user", "ana", "--everything").complaint
    assert "name one" in filled("forget", "--user", "ana", "--yes").complaint
    assert "--since" in filled("forget", "--user", "ana", "--yes", "--since", "soon").complaint
    receipt = filled("forget", "--user", "ana", "--yes", "--turn", porto["sources"][0]["turn_id"][:8], "--json").json
    assert (receipt["turns"], receipt["memories"], receipt["restored"]) == (1, 1, 1)
    assert (
        "1 memories" in filled("forget", "--user", "ana", "--yes", "--memory", memories(filled)["boat"]["id"][:8]).out
    )
    assert list(memories(filled)) == ["Berlin"]
    receipt = filled(
        "forget", "--user", "ana", "--yes", "--since", "2024-03-02", "--until", "2024-03-09", "--json"
    ).json
    assert receipt["turns"] == 1
    filled("forget", "--user", "ana", "--yes", "--conversation", "chat")
    assert memories(filled) == {}


def test_doctor(filled: Make) -> None:
    done = filled("doctor")
    assert (done.status, "whole" in done.out) == (0, True)
    (found,) = filled("doctor", "--json", "--mend", "--user", "ana").json
    assert (found["faults"], found["memories"]) == ([], 3)


def test_doctor_ends_with_a_status_where_faults_are_left(filled: Make, shared_store: Path) -> None:
    import asyncio

    from dualmem.stores.edge import EdgeBackend
    from dualmem.stores.payload import MEMORIES, specs

    porto = memories(filled)["Porto"]["id"]

    async def tear_porto() -> None:
        backend = EdgeBackend(shared_store)
        await backend.open(specs(64), create=False)
        await backend.set_payload(MEMORIES, [porto], {"links": []})
        await backend.close()

    asyncio.run(tear_porto())
    done = filled("doctor")
    assert (done.status, "no link back" in done.out, "--mend" in done.out) == (1, True, True)
    assert filled("doctor", "--mend").status == 0
    assert filled("doctor").status == 0


def test_an_export_is_imported(filled: Make, tmp_path: Path) -> None:
    file = tmp_path / "ana.jsonl"
    assert "6 turns and memories" in filled("export", "--user", "ana", str(file)).out
    assert filled("export", "--user", "ana").out.splitlines()[1:] == file.read_text(encoding="utf-8").splitlines()[1:]
    before = [(one["text"], one["state"]) for one in memories(filled).values()]
    filled("forget", "--user", "ana", "--yes", "--everything")
    assert "3 turns and 3 memories are stored for ana" in filled("import", str(file)).out
    assert [(one["text"], one["state"]) for one in memories(filled).values()] == before
    assert filled("import", str(file), "--user", "bea", "--json").json["memories_stored"] == 3
    assert [(one["text"], one["state"]) for one in memories(filled, user="bea").values()] == before
    file.write_text(file.read_text(encoding="utf-8").rpartition("{")[0], encoding="utf-8")
    assert "line 7" in filled("import", str(file)).complaint


def test_an_export_that_cannot_be_written(filled: Make, tmp_path: Path) -> None:
    assert str(tmp_path) in filled("export", "--user", "ana", str(tmp_path)).complaint


def test_listing_as_of_a_time(filled: Make) -> None:
    assert memories(filled, "--as-of", "2024-03-02")["Berlin"]["state"] == "active"
    assert list(memories(filled, "--as-of", "2024-03-02")) == ["Berlin"]
    assert list(memories(filled, "--valid-at", "2020-01-01")) == []
    assert "no time" in filled("memories", "list", "--user", "ana", "--as-of", "soon").complaint
    assert list(memories(filled, "--standing")) == []


def test_pending_turns_are_taken_up_and_all_read_again(
    dualmem: Make, scripted: Make, reader: Make, chat_file: Make
) -> None:
    scripted(reader(extract=ConnectionError("refused")))
    assert dualmem("ingest", chat_file(*LINES), "--user", "ana").status == 1
    assert "3 turns pending" in dualmem("doctor").out
    assert dualmem("resume", "--user", "ana").status == 1
    scripted(reader())
    (receipt,) = dualmem("resume", "--user", "ana", "--json").json
    assert (receipt["memories_made"], receipt["turns_pending"]) == (3, 0)
    assert "nothing is pending" in dualmem("resume", "--user", "ana").out
    assert dualmem("reextract", "--user", "ana", "--json").json[0]["memories_made"] == 3
    assert "no turns" in dualmem("reextract", "--user", "nobody").out


def test_a_store_is_made_anew_in_its_place(
    dualmem: Make, scripted: Make, reader: Make, chat_file: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dualmem.cli import reembedding
    from dualmem.embedding import Embedder
    from dualmem.testing import WordEmbeddings

    def use(size: int) -> None:
        words = WordEmbeddings(size)
        words.model_name = f"words-{size}"
        scripted(reader(), words)
        monkeypatch.setattr(reembedding, "make_embedder", lambda *_: Embedder(words, name=words.model_name))
        monkeypatch.setenv("DUALMEM_STORE", str(store))

    store = tmp_path / "store"
    use(64)
    dualmem("ingest", chat_file(*LINES), "--user", "ana")
    use(32)
    assert "dualmem reembed" in dualmem("memories", "list", "--user", "ana").complaint
    done = dualmem("reembed", "--json").json
    assert (done["turns"], done["memories"], done["store"]) == (3, 3, str(store))
    assert len(memories(dualmem)) == 3
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store", "store.before-reembedding"]
    assert "before-reembedding" in dualmem("reembed").complaint
    elsewhere = dualmem("reembed", "--into", str(tmp_path / "copy"))
    assert (elsewhere.status, "a run before" not in elsewhere.out) == (0, True)
    assert "3 turns and 3 memories of 1 users were copied" in " ".join(elsewhere.out.split())
    assert "itself" in dualmem("reembed", "--into", str(store)).complaint
    # Stopped between its two renames, it is finished by the next call.
    (tmp_path / "store").rename(tmp_path / "store.reembedding")
    assert dualmem("reembed").status == 0
    assert len(memories(dualmem)) == 3


def test_a_server_needs_a_prefix(dualmem: Make, scripted: Make, reader: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(reader())
    monkeypatch.setenv("DUALMEM_STORE", "http://localhost:6333")
    assert "--into-prefix" in dualmem("reembed").complaint


def test_json_is_json(filled: Make) -> None:
    boat = memories(filled)["boat"]["id"]
    for command in (
        ("memories", "why", boat, "--user", "ana"),
        ("memories", "from-turn", memories(filled)["boat"]["sources"][0]["turn_id"], "--user", "ana"),
        ("doctor",),
    ):
        assert json.loads(filled(*command, "--json").out)
