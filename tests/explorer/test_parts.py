"""What the pages are made of: marks, drawings, the exported file, the command."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem import DualMem
from dualmem.errors import InputError, NotFound
from dualmem.explorer.drawing import WIDTH, Span, bars, lifeline, stack, ticks
from dualmem.explorer.export import export
from dualmem.explorer.marking import marked
from dualmem.explorer.rendering import turn_href
from dualmem.records import Interval, Memory

START = datetime(2024, 3, 1, tzinfo=UTC)
YEAR = Span(START, START + timedelta(days=365))


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=4))
def test_marking_loses_no_text(text: str, quotes: list[str]) -> None:
    assert "".join(piece.text for piece in marked(text, quotes)) == text


def test_quotes_that_overlap_are_one_mark() -> None:
    pieces = marked("I moved to Porto last week.", ["I moved to Porto", "Porto last week", "Paris"])
    assert [piece for piece in pieces if piece.marked] == [("I moved to Porto last week", True)]


def test_a_lifeline_ends_where_a_memory_was_replaced(a_memory: Callable[..., Memory]) -> None:
    half = START + timedelta(days=182.5)
    line = lifeline(a_memory("x", retired_at=half, state="superseded"), YEAR)
    assert not line.open
    assert line.told.x + line.told.width == pytest.approx(WIDTH / 2)
    assert lifeline(a_memory("x"), YEAR).told.width > 990
    dated = lifeline(a_memory("x", valid=Interval(start=half)), YEAR).held
    assert dated is not None
    assert (dated.x, dated.width) == (500.0, 500.0)


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    st.one_of(st.none(), st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))),
)
def test_what_is_drawn_stays_in_the_drawing(known: datetime, retired: datetime | None) -> None:
    memory = Memory(
        id="x", user_id="ana", conversation_id="c", text="x", kind="fact", speaker="Ana", subject="Ana",
        known_at=known, recorded_at=START, retired_at=retired, sources=(), valid=Interval(end=known),
    )  # fmt: skip
    line = lifeline(memory, YEAR)
    for bar in (line.told, line.held):
        assert bar is not None
        assert bar.x >= 0
        assert bar.width > 0
        assert bar.x + bar.width <= WIDTH + 0.1


def test_parts_of_a_span_meet_and_cover_it() -> None:
    parts = list(YEAR.parts(7))
    assert parts[0][0] == YEAR.start
    assert parts[-1][1] > YEAR.end
    assert len(list(Span(START, START).parts(3))) == 3


def test_axes_and_bars() -> None:
    assert [tick.label for tick in ticks(YEAR, 2)] == ["Mar 2024", "Aug 2024", "Mar 2025"]
    assert len(ticks(Span(START, START))) == 1
    drawn = bars([0, 5, 10], YEAR, 40.0)
    assert [(bar.count, bar.height) for bar in drawn] == [(5, 20.0), (10, 40.0)]
    assert sum(bar.width for bar in stack({"semantic": 1.0, "keyword": 3.0}, 4.0)) == WIDTH
    assert stack({"semantic": 0.0}, 0.0)[0].width == 0


async def test_the_exported_file_holds_everything_and_loads_nothing(
    mara: tuple[DualMem, dict[str, Memory]], tmp_path: Path
) -> None:
    memory, made = mara
    path = tmp_path / "page.html"
    assert await export(memory, "mara", path) == 14
    page = path.read_text(encoding="utf-8")
    for item in made.values():
        assert f'id="m-{item.id}"' in page
    assert f'href="#m-{made["porto"].id}"' in page
    assert "<mark>I moved to Porto last week</mark>" in page
    assert "<script" not in page
    assert "src=" not in page.replace("style-src=", "")
    assert "http" not in page.replace("http-equiv", "")
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src &#39;sha256-{digest}&#39;" in page or f"style-src 'sha256-{digest}'" in page
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".page")] == []


async def test_an_export_that_cannot_be_written_says_so(
    mara: tuple[DualMem, dict[str, Memory]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        await export(mara[0], "mara", tmp_path / "none" / "page.html")
    with pytest.raises(NotFound, match="nobody"):
        await export(mara[0], "nobody", tmp_path / "page.html")


async def test_hostile_content_is_text_in_the_exported_file(
    open_memory: Callable[..., DualMem], reader: Any, chat_of: Any, tmp_path: Path
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("<b>Eve</b>: </style><script>alert(1)</script>."), user_id="<i>eve</i>")
    await export(memory, "<i>eve</i>", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<i>eve" not in page
    assert page.count("</style>") == 1


def test_a_turn_is_found_on_its_page(a_turn: Callable[..., Any]) -> None:
    assert turn_href("ana", a_turn(number=0)) == "/conversation?user=ana&id=chat#turn-0"
    assert (
        turn_href("a/b", a_turn(number=250, conversation_id="x&y"))
        == "/conversation?user=a%2Fb&id=x%26y&page=3#turn-250"
    )
