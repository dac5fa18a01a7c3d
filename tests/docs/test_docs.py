"""What the documentation shows works: its commands exist, its programs run, its generated pages are whole."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

import dualmem
from dualmem.cli.app import app
from dualmem.config import Settings
from dualmem.presets import PRESETS

ROOT = Path(dualmem.__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for body in blocks(page, "", "bash", "console", "sh"):
            for line in body.replace("\\\n", " ").splitlines():
                words = shlex.split(line.partition("|")[0], comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words[:1] == ["dualmem"]:
                    yield page.name, words[1:]


def test_every_command_that_is_shown_exists_with_its_options() -> None:
    seen = 0
    for page, given in command_lines():
        words = given
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            assert words[0] in command.commands, (page, words)
            command, words = command.commands[words[0]], words[1:]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if word.startswith("-") and not word.lstrip("-").isdigit():
                assert word.partition("=")[0] in {*options, "--help"}, (page, words)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_that_are_shown_are_python(page: Path) -> None:
    for body in blocks(page, "python"):
        compile(body, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    path = ROOT / "docs" / "hooks" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference_hooks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_settings_page_has_every_setting_and_preset(hooks: ModuleType) -> None:
    page = hooks.settings_page()
    for name in Settings.model_fields:
        assert f"| `{name}` |" in page
    for name in PRESETS:
        assert f"| `{name}` |" in page
    # Every row has as many cells as its head.
    assert {line.replace("\\|", "").count("|") for line in page.splitlines() if line.startswith("|")} == {5, 3}


def test_the_commands_page_has_every_command(hooks: ModuleType) -> None:
    page = hooks.commands_page()
    for name in ("ingest", "ask", "explore", "memories list", "bench run"):
        assert f"## dualmem {name}\n" in page
    assert "`--export`" in page


@pytest.mark.parametrize("name", ["recall", "deliberation", "ingestion"])
def test_a_drawing_has_every_node_of_the_compiled_graph(hooks: ModuleType, name: str) -> None:
    nodes, edges = hooks.graph_of(name)
    drawn = hooks.drawing(nodes, edges)
    assert drawn.count("<rect") == len(nodes)
    assert drawn.count("marker-end") == len(edges)


def test_every_picture_is_there() -> None:
    for page in PAGES:
        for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            made = re.fullmatch(r"images/(recall|deliberation|ingestion)\.svg", picture)
            assert made or "://" in picture or (page.parent / picture).is_file(), (page.name, picture)
