"""`dualmem ask --dry-run`: what a question would cost, and no chat model asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem.testing import ScriptedChatModel

Run = Callable[..., Any]
LINES = ("Ana: Ana lives in Porto.", "Ana: Ana owns a boat.")


@pytest.fixture
def ingested(dualmem: Run, scripted: Run, reader: Run, chat_file: Run) -> ScriptedChatModel:
    model: ScriptedChatModel = scripted(reader())
    assert dualmem("ingest", chat_file(*LINES), "--user", "ana", "--json").status == 0
    model.prompts.clear()
    return model


def test_a_dry_run_says_what_it_would_cost(dualmem: Run, ingested: ScriptedChatModel) -> None:
    done = dualmem("ask", "Where does Ana live?", "--user", "ana", "--dry-run")
    assert done.status == 0
    for words in ("at least 2 calls", "deliberate.extract", "at most", "would read up to 2 turns in 1 chunks"):
        assert words in done.out
    assert ingested.prompts == []


def test_a_dry_run_prints_json_and_nothing_else(dualmem: Run, ingested: ScriptedChatModel) -> None:
    told = dualmem("ask", "Where does Ana live?", "--user", "ana", "--dry-run", "--json").json
    assert (told["least_calls"], told["turns"], told["policy"]) == (2, 2, "quality")
    assert told["most_calls"] == sum(step["calls"] for step in told["fast"] + told["deliberation"])
    assert ingested.prompts == []
