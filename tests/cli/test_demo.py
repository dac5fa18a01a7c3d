"""`dualmem demo`, on a model that reads nothing into the conversation that is shipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dualmem.cli.demo import MARK, QUESTIONS

Run = Callable[..., Any]


@pytest.fixture
def shown(scripted: Run, reader: Run, grades: Run) -> None:
    answer = {"answer": "In Porto.", "found": True, "cites": []}
    scripted(reader(extract={"memories": []}, answer=answer, gate=grades(reason="it says so")))


@pytest.mark.usefixtures("shown")
def test_it_says_what_happened_and_leaves_a_store_to_look_at(dualmem: Run, tmp_path: Path) -> None:
    messages = json.loads((files("dualmem") / "demo" / "conversation.json").read_text("utf-8"))["messages"]
    done = dualmem("demo", "--store", str(tmp_path / "demo"))
    assert done.status == 0
    assert re.search(rf"turns stored +{len(messages)}\b", done.out)
    assert all(question in done.out for question in QUESTIONS)
    store = tmp_path / "demo" / "store"
    assert f"--store {store}" in done.out
    assert (tmp_path / "demo" / MARK).exists()
    # What a demo left there before is removed, and nothing is known twice.
    report = dualmem("demo", "--store", str(tmp_path / "demo"), "--json")
    assert (report.status, report.err) == (0, "")
    assert report.json["receipt"]["turns_stored"] == len(messages)
    assert [one["question"] for one in report.json["recollections"]] == list(QUESTIONS)
    assert report.json["store"] == str(store)


def test_the_folder_of_someone_else_is_left_alone(dualmem: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", "utf-8")
    assert "no demo's folder" in dualmem("demo", "--store", str(tmp_path / "mine")).complaint
    assert (tmp_path / "mine" / "letter.txt").exists()
