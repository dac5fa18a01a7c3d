"""Forgetting, and recalls that are watched."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from dualmem import DualMem
from dualmem.evals.prices import Price, PriceTable
from dualmem.explorer.console import as_event
from dualmem.records import Memory

ANSWER = {"cites": ["M1"], "found": True, "answer": "In Porto <b>now</b>."}


async def events(browser: Any, page: str) -> list[tuple[str, str]]:
    """Follow every recall that a page shows to its end."""
    told = []
    for part in page.split('sse-connect="')[1:]:
        stream = await browser.get(part.partition('"')[0])
        assert stream.headers["content-type"].startswith("text/event-stream")
        for block in stream.text.strip().split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith("data"))
            data = "\n".join(line[6:] for line in block.splitlines() if line.startswith("data"))
            told.append((lines["event"], data))
    return told


async def test_forget_shows_what_it_did(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory, writable=True)
    done = await browser.post("/forget", user="mara", memory=made["porto"].id)
    assert done.status_code == 303
    receipt = await browser.get(done.headers["location"])
    assert "<dt>memories erased</dt><dd>1</dd>" in receipt.text
    assert "<dt>earlier states in force again</dt><dd>1</dd>" in receipt.text
    assert (await memory.memory(made["lisbon"].id, user_id="mara")).active
    assert (await browser.get(f"/memory/{made['porto'].id}", user="mara")).status_code == 404


async def test_forget_a_turn_a_conversation_and_everything(
    mara: tuple[DualMem, dict[str, Memory]], explore: Any, like_mara: Any
) -> None:
    memory, made = mara
    browser = await explore(memory, writable=True)
    turn = made["cat"].sources[0].turn_id
    page = await browser.get("/forget", user="mara", turn=turn)
    assert "His name is Fado" in page.text
    done = await browser.post("/forget", user="mara", turn=turn)
    assert "<dt>turns erased</dt><dd>1</dd>" in (await browser.get(done.headers["location"])).text
    await like_mara(memory, "ben")
    done = await browser.post("/forget", user="mara", conversation="mara-and-ben")
    assert "<dt>turns erased</dt><dd>27</dd>" in (await browser.get(done.headers["location"])).text
    done = await browser.post("/forget", user="ben", everything="yes")
    assert "<dt>memories erased</dt><dd>14</dd>" in (await browser.get(done.headers["location"])).text
    assert "Nothing is remembered here yet" in (await browser.get("/")).text


async def test_without_write_nothing_is_offered_and_nothing_done(
    mara: tuple[DualMem, dict[str, Memory]], explore: Any
) -> None:
    memory, made = mara
    browser = await explore(memory)
    page = await browser.get(f"/memory/{made['porto'].id}", user="mara")
    assert "Forget" not in page.text
    assert "read only" in page.text
    assert (await browser.get("/forget", user="mara", memory=made["porto"].id)).status_code == 403
    assert (await browser.post("/forget", user="mara", memory=made["porto"].id)).status_code == 403
    assert (await memory.memory(made["porto"].id, user_id="mara")).active


async def test_a_form_that_names_nothing_is_refused(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0], writable=True)
    assert (await browser.post("/forget", user="mara")).status_code == 400
    assert (await browser.post("/forget", user=" ", memory="x")).status_code == 400
    assert (await browser.post("/forget", user="mara", turn="x")).status_code == 404


async def test_a_recall_is_told_step_by_step(
    open_memory: Callable[..., DualMem], explore: Any, reader: Any, grades: Any, like_mara: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DUALMEM_CHAT_MODEL", "stub")
    memory = open_memory(reader(answer=ANSWER, gate=grades(reason="It says <i>so</i>.")))
    await like_mara(memory)
    browser = await explore(memory, prices=PriceTable({"stub": Price(input=1.0, output=2.0)}))
    page = await browser.post("/console", user="mara", question="Where does Mara live now?", preset="default")
    told = await events(browser, page.text)
    steps = [data for name, data in told if name == "step"]
    for heading, data in zip(("Retrieve", "Filter", "Answer", "Gate"), steps, strict=True):
        assert f"<b>{heading}</b>" in data
    assert "route: fast" in steps[3]
    assert "It says &lt;i&gt;so&lt;/i&gt;." in steps[3]
    assert told[-1][0] == "done"
    assert "In Porto &lt;b&gt;now&lt;/b&gt;." in told[-1][1]
    assert "<td>0.00" in told[-1][1]  # a cost


async def test_two_presets_side_by_side_and_nothing_written_back(
    open_memory: Callable[..., DualMem], explore: Any, reader: Any, grades: Any, like_mara: Any
) -> None:
    fact = {"facts": [{"turns": [13], "fact": "Mara moved to Porto.", "score": 9}]}
    found = {"cites": ["F1"], "found": True, "answer": "Porto."}
    script = {
        "answer": lambda prompt: ANSWER if "M1" in prompt else found,
        "gate": grades(),
        "deliberate.extract": fact,
    }
    memory = open_memory(reader(**script))
    made = await like_mara(memory)
    browser = await explore(memory)
    page = await browser.post(
        "/console", user="mara", question="Where does Mara live?", preset="default", beside="full"
    )
    assert page.text.count("sse-connect=") == 2
    told = await events(browser, page.text)
    routes = [data.partition("badge route-")[2].partition('"')[0] for name, data in told if name == "done"]
    assert routes == ["fast", "deliberate"]
    assert any("read 28 of 28 turns" in data for name, data in told if name == "done")
    assert any("Read a part of the history" in data for name, data in told if name == "now")
    assert len(await memory.memories(user_id="mara", states=())) == len(made)


async def test_a_recall_that_fails_says_why(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0])
    page = await browser.post("/console", user="mara", question="Where?", preset="default")
    told = await events(browser, page.text)
    assert told[-1][0] == "done"
    assert "No answer" in told[-1][1]
    assert (await browser.get("/runs/unknown")).status_code == 404


async def test_a_stream_goes_on_where_it_broke(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0])
    page = await browser.post("/console", user="mara", question="Where?", preset="default")
    path = page.text.partition('sse-connect="')[2].partition('"')[0]
    whole = (await browser.get(path)).text
    first = whole.split("\n\n")[0]
    rest = await browser.client.get(path, headers={"Last-Event-ID": "0"})
    assert rest.text == whole.removeprefix(f"{first}\n\n")


def test_an_event_keeps_its_lines() -> None:
    assert as_event(3, "step", "<li>\na</li>") == "id: 3\nevent: step\ndata: <li>\ndata: a</li>\n\n"


async def test_bad_questions_are_refused(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0])
    assert (await browser.post("/console", user="mara", question=" ")).status_code == 400
    assert (await browser.post("/console", user="mara", question="x", preset="nope")).status_code == 500
    assert (await browser.post("/console", user="mara", question="x", asked_at="soon")).status_code == 400


async def test_a_decision_is_taken_back_and_stays_so(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory, writable=True)
    page = (await browser.get(f"/memory/{made['lisbon'].id}", user="mara")).text
    link = html.unescape(page.partition('href="/undo?')[2].partition('"')[0])
    asked = await browser.client.get(f"/undo?{link}")
    assert "She moved to Porto." in asked.text
    assert not (await memory.memory(made["lisbon"].id, user_id="mara")).active
    form = dict(parse_qsl(link))
    done = await browser.post("/undo", **form)
    assert done.status_code == 303
    receipt = (await browser.get(done.headers["location"])).text
    assert "<dt>memories in force again</dt><dd>1</dd>" in receipt
    for name in ("lisbon", "porto"):
        assert (await memory.memory(made[name].id, user_id="mara")).active
    # Sent again, there is nothing left to take back.
    assert (await browser.post("/undo", **form)).status_code == 404
    only_looking = await explore(memory)
    assert (await only_looking.post("/undo", **form)).status_code == 403


async def test_a_stream_ends_also_where_the_fault_is_ours(
    mara: tuple[DualMem, dict[str, Memory]], explore: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await explore(mara[0])
    monkeypatch.setattr("dualmem.explorer.console.step_name", lambda *_: 1 / 0)
    page = await browser.post("/console", user="mara", question="Where?", preset="default")
    (last,) = await events(browser, page.text)
    assert last[0] == "done"
    assert "ZeroDivisionError" in last[1]
