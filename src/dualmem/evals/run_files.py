"""A run is a folder: what it was run with, one line a sample, and the stores it filled.

run.json       settings, versions, hashes of the prompts, machine, commit, command
answers.jsonl  answers as they come, before they are scored (so a kill costs no answer)
samples.jsonl  one line a sample: question, target, answer, route, verdict, evidence, scores, cost, timings
summary.json   means with their errors, by category, and totals
stores/        the filled stores, and ingestion.jsonl beside each with what filling it cost
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from dualmem.errors import ConfigurationError, InputError
from dualmem.records import Usage

RUN: Final = "run.json"
ANSWERS: Final = "answers.jsonl"
SAMPLES: Final = "samples.jsonl"
SUMMARY: Final = "summary.json"
INGESTION: Final = "ingestion.jsonl"

PACKAGES: Final = (
    "dualmem",
    "langchain-core",
    "langchain-openai",
    "langgraph",
    "nltk",
    "numpy",
    "pydantic",
    "qdrant-client",
    "qdrant-edge-py",
    "rouge-score",
    "xllamacpp",
)


class SampleRecord(BaseModel):
    """One line of a run: everything about one sample."""

    model_config = ConfigDict(frozen=True)

    id: str
    conversation: str
    scenario: str = ""
    category: str
    question: str
    target: str
    answer: str = ""
    route: str = ""
    outcome: str = ""
    verdict: dict[str, Any] = {}
    degraded_reason: str = ""
    evidence: tuple[str, ...] | None = ()
    """What was presented as evidence: ids of the benchmark's own messages; None where that is not known."""
    wanted: tuple[str, ...] = ()
    """The evidence the benchmark names."""
    memory_ids: tuple[str, ...] = ()
    scores: dict[str, float] = {}
    unscored: dict[str, str] = {}
    """Why there is no score, by metric; under `answer` why there is no answer at all."""
    judgement: str = ""
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    seconds: float = 0.0
    timings: dict[str, float] = {}
    """Seconds by step."""
    phases: dict[str, float] = {}
    """Seconds by phase: retrieve, filter, answer, gate, deliberate."""

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return "answer" in self.unscored


class Ingested(BaseModel):
    """What it cost to fill the memory of one conversation."""

    model_config = ConfigDict(frozen=True)

    conversation: str
    turns: int
    memories: int = 0
    pending: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    failures: tuple[str, ...] = ()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines; a last line that a kill cut off is left out."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text("utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def append_line(path: Path, value: BaseModel) -> None:
    """Add a record to a file of JSON lines, durably; a torn line before it is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
            file.write(b"\n" if torn else b"")
        file.write(value.model_dump_json().encode("utf-8", "surrogatepass") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_samples(folder: Path, name: str = SAMPLES) -> dict[str, SampleRecord]:
    """Return the samples of a run by id; of several lines for one sample the last counts."""
    records = (SampleRecord.model_validate(line) for line in read_lines(folder / name))
    return {record.id: record for record in records}


def read_run(folder: Path) -> dict[str, Any]:
    """Return what a run was run with.

    Raises:
        InputError: The folder holds no run.
    """
    try:
        run: dict[str, Any] = json.loads((folder / RUN).read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"{str(folder)!r} holds no run of `dualmem bench run`: {error}"
        raise InputError(message) from error
    return run


def open_run(folder: Path, run: Mapping[str, Any], *, resume: bool) -> None:
    """Begin a run in `folder`, or go on with the one that is there.

    Raises:
        ConfigurationError: The folder holds a run and `resume` is not set, or that run differs from this one.
    """
    there = folder / RUN
    if there.exists():
        if not resume:
            message = f"{str(folder)!r} holds a run already; go on with --resume, or give another --out"
            raise ConfigurationError(message)
        before = read_run(folder)
        differing = [key for key in IDENTITY if before.get(key) != run.get(key)]
        if differing:
            shown = ", ".join(f"{key} (was {_short(before.get(key))}, is {_short(run.get(key))})" for key in differing)
            message = f"the run in {str(folder)!r} cannot go on, it differs in: {shown}; give another --out"
            raise ConfigurationError(message)
        return
    folder.mkdir(parents=True, exist_ok=True)
    there.write_text(json.dumps(run, ensure_ascii=False, indent=2, default=str) + "\n", "utf-8")


IDENTITY: Final = ("dataset", "task", "system", "preset", "options", "selection", "judge", "prompts")
"""What must be equal for a run to go on: a mean over samples that were made differently is none."""


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:200]}..."  # noqa: PLR2004 - a line of a message


def store_folder(folder: Path, fingerprint: str) -> Path:
    """Return the folder of the store with the memories of one way to make them."""
    return folder / fingerprint / "store"


def fingerprint(value: object) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prompt_hashes() -> dict[str, str]:
    """Return the hash of every prompt's file, by its name."""
    folder = files("dualmem.prompts")
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name.endswith(".py") and entry.name != "__init__.py":
            found[entry.name.removesuffix(".py")] = hashlib.sha256(entry.read_bytes()).hexdigest()[:16]
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose behaviour figures depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Describe the machine: its kind, cores and memory."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):  # not on every system
        memory = 0.0
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
    }


def commit() -> str:
    """Return the commit that the package is run from, or "" where it is not run from a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    home = Path(__file__).resolve().parent
    found = subprocess.run(
        [git, "-C", str(home), "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def command() -> str:
    """Return the command line as it was given, without the path of the program."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
