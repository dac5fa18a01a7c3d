"""What the pages show."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.ingestion.rejections import rejection_of
from dualmem.records import Memory
from dualmem.stores.commit import Commit

Made = tuple[DualMem, dict[str, Memory]]


async def test_an_empty_store_says_how_to_begin(
    open_memory: Callable[..., DualMem], explore: Any, tmp_path: Any
) -> None:
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


async def test_a_memory_shows_its_chain_and_its_contradiction(mara: Made, explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory)
    newer = (await browser.get(f"/memory/{made['porto'].id}", user="mara")).text
    chain = newer.partition('<ol class="chain">')[2].partition("</ol>")[0]
    assert chain.index("Mara lives in Lisbon.") < chain.index("Mara lives in Porto, near the river.")
    assert "She moved to Porto." in chain
    assert "in force" in chain
    both = (await browser.get(f"/memory/{made['only'].id}", user="mara")).text
    sides = both.partition('<div class="sides">')[2]
    assert "<mark>I am an only child, I have no brothers</mark>" in sides
    assert "<mark>I have two brothers, Leo and Jan</mark>" in sides
    assert "Two brothers, or none." in both
    merged = (await browser.get(f"/memory/{made['ticket'].id}", user="mara")).text
    assert "Mara will visit Carlos on 18 October for three days." in merged.partition("Said more than once</h2>")[2]
    # The start of an id will do, as on the command line.
    assert (await browser.get(f"/memory/{made['only'].id[:8]}", user="mara")).status_code == 200


async def shown(browser: Any, **query: Any) -> list[str]:
    page = await browser.get("/memories", user="mara", **query)
    assert page.status_code == 200, page.text
    rows = page.text.partition('<ol class="rows"')[2].partition("</ol>")[0]
    return [part.partition("</a>")[0].partition(">")[2] for part in rows.split("<a ")[1:]]


async def test_filters(mara: Made, explore: Any) -> None:
    browser = await explore(mara[0])
    assert len(await shown(browser)) == 14
    assert len(await shown(browser, kind=["plan", "preference"])) == 3
    assert await shown(browser, status="superseded") == [
        "Mara works as a teacher at a language school.",
        "Mara lives in Lisbon.",
    ]
    assert len(await shown(browser, status="contradicts")) == 2
    assert await shown(browser, status="standing") == ["Mara wants dates with the day first."]
    assert await shown(browser, entity="FADO") == ["Mara has a cat called Fado."]
    assert await shown(browser, topic="sport") == ["Mara ran her first half marathon."]
    assert await shown(browser, conversation="other") == []
    # A form sends what was left empty, too.
    assert len(await shown(browser, kind="", status="", entity="", topic="", known="", held="", order="")) == 14
    assert (await shown(browser, order="oldest"))[0] == "Mara lives in Lisbon."


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("known", [None, datetime(2024, 6, 15, 12, tzinfo=UTC)])
async def test_what_was_true_is_what_the_memory_says(
    mara: Made, explore: Any, month: int, known: datetime | None
) -> None:
    memory, _ = mara
    moment = datetime(2024, month, 15, 12, tzinfo=UTC)
    told = await memory.memories(user_id="mara", as_of=known, valid_at=moment)
    query = {"held": moment.isoformat(), **({} if known is None else {"known": known.isoformat()})}
    found = await shown(await explore(memory), order="oldest", **query)
    assert found == [one.text for one in told]
    plans = await shown(await explore(memory), order="oldest", kind="plan", **query)
    assert plans == [one.text for one in told if one.kind == "plan"]


async def test_two_clocks(mara: Made, explore: Any) -> None:
    browser = await explore(mara[0])
    # What was known: Lisbon was, before Porto was told.
    known = await shown(browser, known="2024-06-20T18:59")
    assert "Mara lives in Lisbon." in known
    assert "Mara lives in Porto, near the river." not in known
    known = await shown(browser, known="2024-06-20T19:00")
    assert "Mara lives in Lisbon." not in known
    assert "Mara lives in Porto, near the river." in known
    # What was true: she lived in Porto before she told it, and nobody knew.
    june = await shown(browser, held="2024-06-15T12:00")
    assert "Mara lives in Porto, near the river." in june
    assert "Mara lives in Lisbon." not in june
    assert "Mara ran her first half marathon." not in june
    then = await shown(browser, held="2024-06-15T12:00", known="2024-06-15T12:00")
    assert "Mara lives in Porto, near the river." not in then
    assert "Mara lives in Lisbon." in then
    assert "Mara ran her first half marathon." in await shown(browser, held="2024-04-14T12:00")
    for clock in ("known", "held"):
        drawn = (await browser.get("/clock", user="mara", clock=clock)).text
        assert f'class="density {clock}"' in drawn
        assert drawn.count("<rect") >= 5


async def test_values_that_do_not_exist_are_refused(mara: Made, explore: Any) -> None:
    browser = await explore(mara[0])
    for query in (
        {"kind": "rumour"},
        {"status": "gone"},
        {"known": "soon"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "x"},
    ):
        page = await browser.get("/memories", user="mara", **query)
        assert page.status_code == 400, query
        assert "Traceback" not in page.text
    assert (await browser.get("/memories")).status_code == 400
    assert (await browser.get("/memories", user="nobody")).status_code == 404
    assert (await browser.get("/memory/none", user="mara")).status_code == 404
    assert (await browser.client.post("/memories", data={})).status_code == 405
    assert (await browser.get("/nothing/like/it")).status_code == 404


async def test_pages_hold_every_memory_once(
    open_memory: Callable[..., DualMem], explore: Any, a_memory: Callable[..., Memory]
) -> None:
    memory = open_memory()
    # Many are told at the same instant, as where a file has no times.
    made = [
        a_memory(str(uuid.uuid5(uuid.NAMESPACE_URL, str(n))), n // 60, text=f"thing {n}.", position=n)
        for n in range(130)
    ]
    async with memory.resources.store.writer("ana"):
        await memory.resources.store.commit(Commit("ana", tuple(made)))
    browser = await explore(memory)
    found: list[str] = []
    for number in (1, 2, 3):
        page = (await browser.get("/memories", user="ana", page=number)).text
        assert f"page {number} of 3" in page
        rows = page.partition('<ol class="rows"')[2].partition("</ol>")[0]
        found += [part.partition("</a>")[0].partition(">")[2] for part in rows.split("<a ")[1:]]
    assert len(found) == 130
    assert set(found) == {item.text for item in made}
    assert found[:10] == [f"thing {n}." for n in range(129, 119, -1)]
    assert "Nothing matches" in (await browser.get("/memories", user="ana", page=4)).text
    # They have no turns: they were imported.
    assert "ana" in (await browser.get("/")).text
    assert "Its turns are no longer stored" in (await browser.get(f"/memory/{made[0].id}", user="ana")).text
    assert "No turns are stored" in (await browser.get("/conversations", user="ana")).text


async def test_a_conversation_shows_what_each_turn_gave_rise_to(mara: Made, explore: Any) -> None:
    browser = await explore(mara[0])
    page = (await browser.get("/conversation", user="mara", id="mara-and-ben")).text
    turns = page.split('<li class="turn ')[1:]
    assert len(turns) == 28
    assert "Mara lives in Lisbon." in turns[0]
    assert "replaced" in turns[0]
    assert "<li class=" not in turns[1].partition('<ul class="made">')[2]
    assert "not read yet" in turns[27]
    assert "mara-and-ben" in (await browser.get("/conversations", user="mara")).text
    assert "mara-and-ben</a>" not in (await browser.get("/conversations", user="mara", page=2)).text


async def test_a_conversation_shows_what_was_rejected_and_why(mara: Made, explore: Any) -> None:
    memory, _ = mara
    store = memory.resources.store
    browser = await explore(memory, writable=True)
    assert (
        "rejected" not in (await browser.get("/conversation", user="mara", id="mara-and-ben")).text.partition("<ol")[2]
    )
    turns = await store.turns("mara")
    quoted = {"text": "Mara likes Lisbon best.", "quote": "I like it best", "turns": [1, 2]}
    refused = [
        rejection_of(quoted, "its quote is not in its source turns", turns[:4]),
        rejection_of({"text": "It rains.", "turns": [9]}, "cites a turn that was not shown", turns[:4]),
    ]
    async with store.writer("mara"):
        await store.commit(Commit("mara", rejections=tuple(refused)))
    page = (await browser.get("/conversation", user="mara", id="mara-and-ben")).text
    rows, _, after = page.partition("</ol>")
    shown = rows.split('<li class="turn ')[1:]
    assert ["Mara likes Lisbon best." in row for row in shown[:4]] == [True, True, False, False]
    assert "its quote is not in its source turns: <q" in shown[0]
    assert "I like it best" in shown[0]
    assert "It rains." not in rows
    assert "It rains." in after
    assert "cites a turn that was not shown" in after
    await browser.post("/forget", user="mara", turn=turns[3].id)
    page = (await browser.get("/conversation", user="mara", id="mara-and-ben")).text
    assert not [text for text in ("likes Lisbon best", "It rains.") if text in page]


async def test_what_cites_no_turn_is_shown_where_it_was_read(
    mara: Made, explore: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, _ = mara
    for name in ("catalogue", "pages"):
        monkeypatch.setattr(f"dualmem.explorer.{name}.TURNS_ON_PAGE", 10)
    store = memory.resources.store
    turns = await store.turns("mara")
    refused = rejection_of({"text": "It rains."}, "says nothing", turns[8:14])
    async with store.writer("mara"):
        await store.commit(Commit("mara", rejections=(refused,)))
    browser = await explore(memory)
    pages = [(await browser.get("/conversation", user="mara", id="mara-and-ben", page=page)).text for page in (1, 2, 3)]
    assert ["It rains." in page for page in pages] == [False, True, False]


async def test_search_shows_what_each_ranking_gave(mara: Made, explore: Any) -> None:
    browser = await explore(mara[0])
    page = (await browser.get("/search", user="mara", q="Where does Mara live now?")).text
    first = page.split('<li class="card unit">')[1]
    # Chains are found as a whole, the earlier state before the one in force.
    assert first.index("Mara lives in Lisbon.") < first.index("Mara lives in Porto")
    assert "semantic 0." in first or "semantic 1." in first
    assert '<rect class="r-semantic"' in page
    nothing = await browser.get("/search", user="mara", q="Where?", kind="decision")
    assert "Mara lives" not in nothing.text


async def test_many_users_are_paged_and_found(
    open_memory: Callable[..., DualMem], explore: Any, a_turn: Callable[..., Any]
) -> None:
    memory = open_memory()
    names = [f"user {number:03}" for number in range(60)]
    for name in names:
        async with memory.resources.store.writer(name):
            key = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
            await memory.resources.store.add_turns([a_turn(user_id=name, id=key)])
    browser = await explore(memory)
    first = (await browser.get("/")).text
    assert "60 users" in first
    assert "user 049" in first
    assert "user 050" not in first
    assert "user 050" in (await browser.get("/", page=2)).text
    found = (await browser.get("/", name="58")).text
    assert "user 058" in found
    assert "user 059" not in found
    assert "No user" in (await browser.get("/", name="nobody")).text
    assert "No memories yet" in (await browser.get("/memories", user="user 001")).text


async def test_without_models_one_can_look_but_not_search_or_ask(mara: Made, explore: Any, shared_store: Any) -> None:
    await mara[0].close()
    async with DualMem(store=str(shared_store)) as bare:
        browser = await explore(bare)
        assert (await browser.get("/memories", user="mara")).status_code == 200
        assert "no embedding model is configured" in (await browser.get("/search", user="mara", q="x")).text
        assert "no chat model is configured" in (await browser.get("/console", user="mara")).text
