"""What the command line says of itself, and the script that is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from dualmem.cli.app import ORDER, START_HERE, app
from dualmem.config import Settings

Run = Callable[..., Any]
SCRIPT = Path(sysconfig.get_path("scripts")) / "dualmem"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every command with the words that call it."""
    below = getattr(group, "commands", None)
    if below is None:
        yield path, group
        return
    for name, command in below.items():
        yield from commands(command, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_known() -> None:
    expected = {("ingest",), ("import",), ("ask",), ("config",), ("graph",), ("demo",), ("mcp",)}
    assert expected | {("memories", name) for name in ("list", "show", "history")} <= set(ALL)


OTHERWISE = {("mcp",), ("explore",), ("export",), ("bench", "report")}
"""Commands that serve until they are stopped, or whose output is a file of its own format."""


@pytest.mark.parametrize("path", [path for path in ALL if path not in OTHERWISE], ids=" ".join)
def test_every_command_can_print_json(path: tuple[str, ...]) -> None:
    assert any("--json" in option.opts for option in ALL[path].params)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_says_what_it_does_with_an_example(dualmem: Run, path: tuple[str, ...]) -> None:
    done = dualmem(*path, "--help")
    text = " ".join(done.out.split())
    assert done.status == 0
    example = text.partition("Example: ")[2]
    assert f"dualmem {' '.join(path)}" in example
    options = [option for option in ALL[path].params if str(option.opts[0]).startswith("-")]
    assert [option.name for option in options if not option.help] == []


def test_without_arguments_help_is_shown(dualmem: Run) -> None:
    for arguments in ((), ("memories",)):
        done = dualmem(*arguments)
        assert "Usage" in done.out + done.err


def test_the_first_thing_said_is_what_to_configure(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = dualmem()
    assert (done.status, "No model is configured yet" in done.out) == (0, True)
    for way in ("dualmem demo", "OPENAI_API_KEY", "DUALMEM_BASE_URL", "DUALMEM_CHAT_MODEL=local", "dualmem[local]"):
        assert way in done.out
    assert max(map(len, START_HERE.splitlines())) <= 80
    monkeypatch.setenv("DUALMEM_CHAT_MODEL", "local")
    assert "No model is configured yet" not in dualmem().out


def test_the_status_is_explained(dualmem: Run) -> None:
    shown = " ".join(dualmem("--help").out.split())
    assert "Exit status: 0 done; 1 done, and something is left to do" in shown
    assert "130 interrupted" in shown


def test_commands_stand_in_the_order_in_which_they_are_needed(dualmem: Run) -> None:
    assert set(ORDER) == {path[0] for path in ALL}
    listed = re.findall(r"^. ([\w-]+) ", dualmem("--help").out.partition("Commands")[2], re.MULTILINE)
    assert tuple(name for name in listed if name in ORDER) == ORDER


def test_the_version_is_the_packages(dualmem: Run) -> None:
    done = dualmem("--version")
    assert (done.status, done.out.strip()) == (0, f"dualmem {version('dualmem')}")


def test_an_interruption_is_no_traceback(dualmem: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dualmem.cli.app.load_settings", interrupt)
    done = dualmem("config")
    assert (done.status, done.out) == (130, "")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("dualmem gra", "graph"),
        ("dualmem graph del", "deliberation"),
        ("dualmem ask where --preset mem", "memlace"),
        ("dualmem memories hi", "history"),
    ],
)
def test_the_shell_completes(words: str, offered: str) -> None:
    asked = {
        "_DUALMEM_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=False, env={**os.environ, **asked})
    assert offered in done.stdout.split()


# The installed script


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_the_script_says_what_is_wrong_in_one_sentence() -> None:
    done = script("ingest", "nowhere.json", "--user", "ana")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("dualmem: ")
    assert "nowhere.json" in line


def test_the_script_prints_json() -> None:
    done = script("config", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(json.loads(done.stdout)) == set(Settings.model_fields)


def test_output_that_is_cut_off_is_no_error() -> None:
    """As with `dualmem config | head -1`."""
    command = f"'{SCRIPT}' config --json | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{\n", "")
