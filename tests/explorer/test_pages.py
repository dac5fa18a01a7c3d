"""What the pages show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dualmem import DualMem
from dualmem.records import Memory

Made = tuple[DualMem, dict[str, Memory]]


async def test_an_empty_store_says_how_to_begin(open_memory: Callable[..., DualMem], explore: Any, tmp_path: Any) -> None:
    browser = await explore(open_memory(store=str(tmp_path / "none")))
    page = await browser.get("/")
    assert page.status_code == 200
    assert "Nothing is remembered here yet" in page.text
    assert "dualmem demo" in page.text
    assert not (tmp_path / "none").exists()


async def test_users_are_listed_with_their_counts(mara: Made, explore: Any) -> None:
    page = await (await explore(mara[0])).get("/")
    assert "1 user in this store" in page.text
    assert '<a href="/memories?user=mara" dir="auto">mara</a>' in page.text
    assert "<dt>in force</dt><dd>12</dd>" in page.text
    assert "<dt>replaced</dt><dd>2</dd>" in page.text
    assert "1 turn not read yet" in page.text


async def test_memory_page_explains_why_it_was_retired(mara: Made, explore: Any) -> None:
    memory, made = mara
    page = await (await explore(memory)).get(f"/memory/{made['lisbon'].id}", user="mara")
    assert "Replaced" in page.text
    assert "She moved to Porto." in page.text
    assert "<mark>I moved to Porto last week</mark>" in page.text
    assert "<mark>I live in Lisbon now</mark>" in page.text
