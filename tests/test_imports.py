"""Imports point one way, and importing costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dualmem

ROOT = Path(dualmem.__file__).parent

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("records",),
    # What stands alone or on records: text, files, stores, models, settings, and the state of the graphs.
    (
        "chat",
        "cleaning",
        "clocks",
        "config",
        "connections",
        "context",
        "embedding",
        "identity",
        "inputs",
        "labels",
        "lifecycle",
        "loaders",
        "local",
        "models",
        "ordering",
        "presets",
        "prompting",
        "redaction",
        "reply",
        "retrieval",
        "state",
        "stores",
        "tracing",
    ),
    ("prompts",),
    # What nodes are made of.
    (
        "checking",
        "deliberation",
        "finding",
        "forgetting",
        "gating",
        "ingestion",
        "mending",
        "rebuilding",
        "recollecting",
        "reviewing",
        "searching",
        "transfer",
    ),
    ("nodes",),
    ("graphs",),
    ("memory", "testing"),
    ("integrations",),
    ("cli", "evals", "explorer"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name, also those that the folders at the top hold."""
    found: dict[str, Path] = {}
    folders = [ROOT, *(Path(path) for name in ("graphs", "nodes", "prompts") for path in _home(name))]
    for folder in folders:
        prefix = () if folder == ROOT else (folder.name,)
        for path in folder.rglob("*.py"):
            parts = (*prefix, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(("dualmem", *(part for part in parts if part != "__init__")))] = path
    return found


def _home(name: str) -> list[str]:
    module = __import__(f"dualmem.{name}", fromlist=["__path__"])
    return list(module.__path__)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports at run time, also inside functions."""
    tree = parsed(path)
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path.name}: a relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.startswith("dualmem.")}


def test_every_module_has_a_layer() -> None:
    tops = {name.split(".")[1] for name in modules() if "." in name}
    assert len(modules()) > 60
    assert tops - LEVEL.keys() == set()


def test_no_module_imports_from_a_layer_above_its_own() -> None:
    upward = [
        f"{name} imports {other}"
        for name, path in modules().items()
        if "." in name
        for other in imported(path)
        if LEVEL.get(other.split(".")[1], -1) > LEVEL[name.split(".")[1]]
    ]
    assert upward == []


def test_nothing_imports_the_folders_at_the_top_by_their_own_names() -> None:
    for name, path in modules().items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in {"graphs", "nodes", "prompts", "src"}, name


def test_only_the_backends_know_a_vector_database() -> None:
    clients = ("qdrant_client", "qdrant_edge")
    users = {
        name
        for name, path in modules().items()
        for node in ast.walk(parsed(path))
        for imported_name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if imported_name.split(".")[0] in clients
    }
    assert users
    # What is integrated may bring a client of its own.
    assert [name for name in users if not name.startswith(("dualmem.stores.", "dualmem.integrations."))] == []


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import dualmem",
            ["langgraph", "langchain_core", "langchain_openai", "qdrant_client", "qdrant_edge", "pydantic", "typer"],
        ),
        ("from dualmem import DualMem", ["langchain_openai", "qdrant_client", "qdrant_edge", "fastembed", "typer"]),
        ("import dualmem.cli.app", ["langgraph", "langchain_core", "qdrant_client", "qdrant_edge"]),
        ("import dualmem.loaders", ["langgraph", "langchain_core", "qdrant_client", "qdrant_edge"]),
    ],
)
def test_what_is_heavy_is_imported_when_it_is_used(statement: str, heavy: list[str]) -> None:
    code = f"{statement}\nimport sys\nprint([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_that_is_exported_exists_and_nothing_else() -> None:
    assert sorted(dualmem.__all__) == dir(dualmem)
    assert all(getattr(dualmem, name) is not None for name in dualmem.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = dualmem.nothing_like_it
