"""What the commands do and print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from dualmem.cli import render
from dualmem.cli.arguments import asking_time, zone_of
from dualmem.config import Settings
from dualmem.errors import InputError
from dualmem.presets import PRESETS

Run = Callable[..., Any]
SCRIPT = Path(sysconfig.get_path("scripts")) / "dualmem"
LINES = (
    "Ana: Ana lives in Berlin.",
    "Bot: And now?",
    "Ana: Ana lives in [bold]Porto[/bold] 🏠.",
    "Ana: Ana owns a boat.",
)
ANSWER = "In [bold]Porto[/bold]."


def fast(prompt: str) -> dict[str, Any]:
    """Answer from the memory that is in force."""
    label = re.search(r"^\[(M\d+)\] Ana lives in \[bold\]Porto", prompt, re.MULTILINE)
    return {"cites": [label[1]] if label else [], "found": True, "answer": ANSWER}


@pytest.fixture
def ingested(dualmem: Run, scripted: Run, reader: Run, chat_file: Run, grades: Run) -> Run:
    """Ingest the conversation with a model that can answer; give the command line back."""
    scripted(reader(answer=fast, gate=grades(reason="it says so")))
    assert dualmem("ingest", chat_file(*LINES), "--user", "ana", "--json").status == 0
    return dualmem


# ingest


def test_ingest_prints_a_receipt(dualmem: Run, scripted: Run, reader: Run, chat_file: Run) -> None:
    scripted(reader())
    done = dualmem("ingest", chat_file(*LINES), "--user", "ana")
    assert done.status == 0
    for words in ("chat", "turns stored", "memories made", "superseded"):
        assert words in done.out


def test_ingest_prints_json_and_nothing_else(dualmem: Run, scripted: Run, reader: Run, chat_file: Run) -> None:
    scripted(reader())
    done = dualmem("ingest", chat_file(*LINES), "--user", "ana", "--conversation", "first", "--json")
    receipt = done.json
    assert (receipt["conversation_id"], receipt["turns_stored"], receipt["memories_made"]) == ("first", 4, 3)
    assert (done.status, done.err) == (0, "")


def test_ingest_again_stores_nothing_twice(ingested: Run, chat_file: Run) -> None:
    receipt = ingested("ingest", chat_file(*LINES), "--user", "ana", "--json").json
    assert (receipt["turns_stored"], receipt["turns_known"], receipt["memories_made"]) == (0, 4, 0)


def test_ingest_with_turns_left_pending_says_why_and_has_status_1(
    dualmem: Run, scripted: Run, reader: Run, chat_file: Run
) -> None:
    scripted(reader(extract=ConnectionError("refused")))
    done = dualmem("ingest", chat_file(*LINES), "--user", "ana")
    assert done.status == 1
    assert "pending because:" in done.out
    assert "refused" in done.out


def test_ingest_takes_the_first_sessions(dualmem: Run, scripted: Run, reader: Run, tmp_path: Path) -> None:
    scripted(reader())
    messages = [{"role": "user", "content": f"Ana owns boat {n}.", "session": str(n)} for n in (1, 2, 3)]
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps(messages), encoding="utf-8")
    receipt = dualmem("ingest", str(path), "--user", "ana", "--limit-sessions", "2", "--json").json
    assert receipt["turns_stored"] == 2


# ask


def test_ask_prints_answer_route_and_evidence(ingested: Run) -> None:
    done = ingested("ask", "Where does Ana live?", "--user", "ana")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0] == ANSWER
    assert lines[1] == "fast · gate quality passed: it says so"
    assert any("superseded" in line and "Ana lives in Berlin." in line for line in lines)
    assert any(line.startswith(" *") and "[bold]Porto[/bold] 🏠" in line for line in lines)


def test_ask_explains(ingested: Run) -> None:
    done = ingested("ask", "Where does Ana live?", "--user", "ana", "--explain")
    assert "Ana owns a boat." in done.out
    assert "2 calls" in done.out


def test_ask_prints_json_and_nothing_else(ingested: Run) -> None:
    done = ingested("ask", "Where does Ana live?", "--user", "ana", "--json")
    found = done.json
    assert (found["answer"], found["route"], found["outcome"]) == (ANSWER, "fast", "answered")
    assert found["verdict"]["passed"] is True
    assert [item["text"] for item in found["evidence"] if item["cited"]] == ["Ana lives in [bold]Porto[/bold] 🏠."]
    assert "🏠" in done.out
    assert done.err == ""


def test_ask_shows_what_deliberation_did(ingested: Run, scripted: Run, reader: Run, grades: Run) -> None:
    fact = {"facts": [{"turns": [3], "fact": "Ana has lived in Porto since March.", "score": 9}]}
    deep = {"cites": ["F1"], "found": True, "answer": "In Porto, since March."}
    more = {"deliberate.extract": fact, "consolidate": {"decisions": []}}
    scripted(
        reader(
            answer=[{**deep, "cites": [], "answer": ANSWER}, deep],
            gate=[grades(complete=False, reason="no date")],
            **more,
        )
    )
    done = ingested("ask", "Since when does Ana live there?", "--user", "ana")
    assert "deliberate · gate quality not passed: no date" in done.out
    assert "read 4 of 4 turns in 1 chunks; 1 facts used" in done.out
    assert f"the fast answer was: {ANSWER}" in done.out


def test_ask_says_when_it_is_degraded(ingested: Run, scripted: Run, reader: Run) -> None:
    scripted(reader(answer=fast, gate=ConnectionError("refused")))
    done = ingested("ask", "Where does Ana live?", "--user", "ana")
    assert done.status == 0
    assert "degraded: " in done.out
    assert "refused" in done.out


def test_ask_someone_unknown_says_that_nothing_is_stored(ingested: Run) -> None:
    found = ingested("ask", "Where does Ana live?", "--user", "bea", "--json").json
    assert (found["outcome"], found["evidence"]) == ("nothing_stored", [])


def test_a_preset_and_a_time_can_be_given(ingested: Run) -> None:
    found = ingested(
        "ask",
        "Where did Ana live last week?",
        "--user",
        "ana",
        "--preset",
        "mem0star",
        "--asked-at",
        "2024-03-08",
        "--json",
    ).json
    assert found["verdict"]["policy"] == "never"


@pytest.mark.parametrize(
    ("question", "asked"),
    [("Where did I go last week?", True), ("Where do I live?", False), ("What did I do in May 2023?", False)],
)
def test_the_time_is_now_where_the_question_needs_one(question: str, asked: bool) -> None:
    assert (asking_time(question, None) is not None) is asked


@pytest.mark.parametrize(
    ("given", "hours"),
    [(None, 0), ("+02:00", 2), ("-0330", -3.5), ("UTC+5", 5), ("Asia/Kolkata", 5.5), ("utc", 0)],
)
def test_a_zone_is_a_name_or_an_offset(given: str | None, hours: float) -> None:
    offset = zone_of(given).utcoffset(datetime(2024, 1, 1))
    assert offset == timedelta(hours=hours)


@pytest.mark.parametrize("given", ["", "Mars/Olympus", "+25:00", "+01:75", "../etc/passwd", "Europe", "/etc", "\0"])
def test_what_is_no_zone_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="Europe/Berlin"):
        zone_of(given)


def test_ingest_reads_times_in_the_zone_that_is_given(dualmem: Run, scripted: Run, reader: Run, tmp_path: Path) -> None:
    scripted(reader())
    path = tmp_path / "local.json"
    path.write_text(
        json.dumps([{"role": "user", "content": "Ana owns a boat.", "timestamp": "2024-05-08 13:30"}]), encoding="utf-8"
    )
    dualmem("ingest", str(path), "--user", "ana", "--timezone", "+02:00")
    (memory,) = dualmem("memories", "list", "--user", "ana", "--json").json
    assert memory["known_at"] == "2024-05-08T11:30:00Z"


def test_a_time_without_a_zone_is_utc() -> None:
    moment = asking_time("?", "2024-05-08T13:30")
    assert moment is not None
    assert moment.isoformat() == "2024-05-08T13:30:00+00:00"


# memories


def test_memories_are_listed(ingested: Run) -> None:
    active = ingested("memories", "list", "--user", "ana")
    every = ingested("memories", "list", "--user", "ana", "--all")
    assert ("Berlin" in active.out, "Berlin" in every.out) == (False, True)
    assert "Ana lives in [bold]Porto[/bold] 🏠." in active.out
    listed = ingested("memories", "list", "--user", "ana", "--all", "--json").json
    assert [memory["state"] for memory in listed] == ["superseded", "active", "active"]


def test_tables_fit_a_narrow_terminal(ingested: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render.console, "_width", 80)
    commands = (
        ("memories", "list", "--user", "ana", "--all"),
        ("ask", "Where does Ana live?", "--user", "ana", "--explain"),
        ("config",),
        ("config", "--explain"),
    )
    for command in commands:
        lines = ingested(*command).out.splitlines()
        assert lines
        assert max(cell_len(line) for line in lines) <= 80, command


def test_what_is_piped_is_not_folded_and_has_no_colour() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([str(SCRIPT), "config", "--explain"], capture_output=True, text=True, check=False, env=plain)
    assert str(Settings.model_fields["chat_model"].description) in done.stdout
    assert "\x1b" not in done.stdout


def test_a_user_without_memories(dualmem: Run, scripted: Run, reader: Run) -> None:
    scripted(reader())
    assert dualmem("memories", "list", "--user", "bea").out.strip() == "nothing is remembered for this user"
    assert dualmem("memories", "list", "--user", "bea", "--json").json == []


def test_looking_needs_no_model(dualmem: Run, tmp_path: Path) -> None:
    done = dualmem("memories", "list", "--user", "ana", "--store", str(tmp_path / "none"))
    assert (done.status, done.out.strip()) == (0, "nothing is remembered for this user")
    assert not (tmp_path / "none").exists()


def test_a_memory_is_shown_by_the_start_of_its_id(ingested: Run) -> None:
    listed = ingested("memories", "list", "--user", "ana", "--json").json
    memory = next(one for one in listed if "Porto" in one["text"])
    shown = ingested("memories", "show", memory["id"][:8], "--user", "ana")
    for words in (memory["text"], memory["id"], "supersedes", 'Ana: "Ana lives in [bold]Porto[/bold] 🏠."'):
        assert words in shown.out
    as_json = ingested("memories", "show", memory["id"], "--user", "ana", "--json").json
    assert [turn["text"] for turn in as_json["turns"]] == [memory["text"]]


def test_the_history_of_a_memory_is_shown_from_either_end(ingested: Run) -> None:
    listed = ingested("memories", "list", "--user", "ana", "--all", "--json").json
    chains = [
        [one["text"] for one in ingested("memories", "history", memory["id"], "--user", "ana", "--json").json]
        for memory in listed
        if "lives" in memory["text"]
    ]
    assert chains == [["Ana lives in Berlin.", "Ana lives in [bold]Porto[/bold] 🏠."]] * 2
    shown = ingested("memories", "history", listed[0]["id"], "--user", "ana").out
    assert shown.index("Berlin") < shown.index("Porto")
    assert "replaced: lives changed" in shown


# config, graph


def test_config_says_what_a_setting_means(dualmem: Run) -> None:
    shown = dualmem("config", "top_k", "store").out
    assert "Memories taken per speaker" in shown
    assert "Qdrant Edge" in shown
    assert "rrf_k" not in shown
    assert "Constant of reciprocal rank fusion" in dualmem("config", "--explain").out
    assert set(dualmem("config", "top_k", "--json").json) == {"top_k"}


def test_config_says_which_models_are_in_force(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there are three ways" in dualmem("config").out
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert "chat model: openai:" in dualmem("config").out


def test_config_shows_every_setting_and_where_it_comes_from(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_TOP_K", "9")
    monkeypatch.setenv("DUALMEM_QDRANT_API_KEY", "hush-hush")
    shown = dualmem("config", "--preset", "dmem", "--json").json
    assert set(shown) == set(Settings.model_fields)
    assert shown["top_k"] == {"value": 9, "from": "environment (DUALMEM_TOP_K)"}
    assert shown["strategy"] == {"value": "mem0star", "from": "preset dmem"}
    assert shown["rrf_k"]["from"] == "default"
    table = dualmem("config")
    assert table.status == 0
    assert all(name in table.out for name in Settings.model_fields)
    assert "hush-hush" not in table.out + json.dumps(shown)


@pytest.mark.parametrize("preset", PRESETS)
def test_config_takes_every_preset(dualmem: Run, preset: str) -> None:
    assert dualmem("config", "--preset", preset, "--json").json["preset"]["value"] == preset


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("recall", ["retrieve", "filter", "answer", "gate", "deliberation"]),
        ("deliberation", ["plan", "extract", "threshold", "reconcile", "remember"]),
        ("ingestion", ["record", "index", "extract", "dedupe", "integrate", "receipt"]),
    ],
)
def test_graph_draws_a_graph_as_it_compiles(dualmem: Run, name: str, nodes: list[str]) -> None:
    done = dualmem("graph", name)
    assert done.status == 0
    assert "graph TD" in done.out
    assert all(node in done.out for node in nodes)


def test_graph_gives_nodes_and_edges_as_json(dualmem: Run) -> None:
    drawn = dualmem("graph", "--json").json
    assert {"retrieve", "gate", "deliberation"} <= {node["id"] for node in drawn["nodes"]}
    assert {"source": "retrieve", "target": "filter"} in drawn["edges"]


def test_graph_draws_subgraphs_from_inside(dualmem: Run) -> None:
    assert "reconcile" not in dualmem("graph").out
    assert "reconcile" in dualmem("graph", "--deep").out
