"""`dualmem explore` at the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualmem.cli.explore import _with_the_demos_models
from dualmem.config import load_settings
from dualmem.explorer import serving


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the explorer was asked to serve, instead of serving it."""
    asked: list[dict[str, Any]] = []

    async def serve(memory: Any, *, ready: Callable[[str], None], **options: Any) -> None:
        asked.append({"store": memory.settings.store, **options})
        ready("http://127.0.0.1:1/?token=x")

    monkeypatch.setattr(serving, "serve", serve)
    return asked


def test_the_address_is_said_and_opened(
    dualmem: Callable[..., Any], served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = dualmem("explore", "--user", "ana", "--write", "--store", "here")
    assert done.status == 0
    assert "http://127.0.0.1:1/?token=x" in done.out
    assert opened == ["http://127.0.0.1:1/?token=x"]
    assert served[0]["user_id"] == "ana"
    assert served[0]["writable"]
    assert served[0]["store"] == "here"
    assert dualmem("explore", "--no-browser", "--json").json == {"url": "http://127.0.0.1:1/?token=x"}
    assert len(opened) == 1
    assert not served[1]["writable"]


def test_an_export_is_written(
    dualmem: Callable[..., Any], scripted: Any, reader: Any, chat_file: Any, tmp_path: Path
) -> None:
    scripted(reader())
    assert dualmem("ingest", chat_file("Ana: I moved to Porto."), "--user", "ana").status == 0
    page = tmp_path / "ana.html"
    done = dualmem("explore", "--user", "ana", "--export", str(page), "--json")
    assert done.json == {"file": str(page), "memories": 1}
    assert "<mark>I moved to Porto</mark>" in page.read_text(encoding="utf-8")
    assert "1 memory written" in dualmem("explore", "--user", "ana", "--export", str(page)).out


def test_bad_arguments_are_one_sentence(dualmem: Callable[..., Any], tmp_path: Path) -> None:
    assert "--user" in dualmem("explore", "--export", "page.html").complaint
    assert (
        "nobody"
        in dualmem("explore", "--export", "x.html", "--user", "nobody", "--store", str(tmp_path / "s")).complaint
    )
    assert "price table" in dualmem("explore", "--prices", str(tmp_path / "none.json"), "--no-browser").complaint
    assert "user" in dualmem("explore", "--user", " ", "--no-browser").complaint


def test_without_the_extra_it_says_how_to_get_it(dualmem: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # The package's own attribute too: it would be that of the second import afterwards.
    monkeypatch.delattr("dualmem.explorer", raising=False)
    for name in [name for name in sys.modules if name.startswith("dualmem.explorer")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "dualmem[explore]"' in dualmem("explore", "--no-browser").complaint


def test_a_demos_store_is_opened_with_the_demos_models(tmp_path: Path) -> None:
    settings = load_settings(store=str(tmp_path / "store"))
    assert _with_the_demos_models(settings).chat_model is None
    (tmp_path / "dualmem-demo").touch()
    assert _with_the_demos_models(settings).chat_model == "local"
    assert _with_the_demos_models(settings.override({"chat_model": "openai:x"})).chat_model == "openai:x"
