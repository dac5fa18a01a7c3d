"""Who gets in, and what hostile content cannot do."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from dualmem import DualMem
from dualmem.explorer.guard import Access
from dualmem.ingestion.rejections import rejection_of
from dualmem.lifecycle import WorkingSet
from dualmem.records import Memory
from dualmem.stores.commit import Commit

HOST = "127.0.0.1:8123"
START = datetime(2024, 3, 1, tzinfo=UTC)

HOSTILE = (
    "<script>alert(1)</script>.",
    '"><img src=x onerror=alert(1)>.',
    "'-alert(1)-'.",
    "{{ 7 * 7 }} {% raw %}.",
    "</blockquote></style><style>*{display:none}</style>.",
    "javascript:alert(1) \u202e reversed.",
    "<svg/onload=alert(1)> &lt;b&gt;.",
    "hx-get=/forget data-hx-on:click=alert(1) <a hx-post='/forget'>x</a>.",
)


@pytest.fixture
async def hostile(
    open_memory: Callable[..., DualMem], reader: Any, chat_of: Any, a_memory: Callable[..., Memory]
) -> DualMem:
    """A memory that was told hostile things by hostile people."""
    memory = open_memory(reader())
    lines = [f"<b>Eve</b>: {text}" for text in HOSTILE]
    for user in ("eve", "<script>alert('user')</script>"):
        await memory.remember(chat_of(*lines), user_id=user, conversation_id="<img src=x onerror=alert(2)>")
        # What a model makes of them may be hostile in every field.
        working = WorkingSet()
        for day, text in enumerate(HOSTILE):
            key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{user}{day}"))
            fields = dict.fromkeys(("text", "speaker", "subject", "attribute", "topic"), text)
            working.add(a_memory(key, 30 + day, user_id=user, entities=(text,), **fields))
        first, second, third, fourth = list(working.new)[:4]
        now = START + timedelta(days=60)
        assert not working.supersede(second, first, reason=HOSTILE[0], at=now)
        assert not working.contradict(second, third, reason=HOSTILE[1], at=now)
        assert not working.merge(second, fourth, reason=HOSTILE[4], at=now)
        turns = await memory.resources.store.turns(user)
        rejections = [
            rejection_of({"text": text, "quote": text, "turns": cited}, text, turns)
            for text in HOSTILE
            for cited in ([1, 2], [99])
        ]
        async with memory.resources.store.writer(user):
            await memory.resources.store.commit(
                Commit(user, tuple(working.memories.values()), rejections=tuple(rejections))
            )
    return memory


async def every_page(browser: Any, memory: DualMem, user: str) -> dict[str, str]:
    paths: dict[str, dict[str, str]] = {
        "/": {},
        "/memories": {"user": user},
        "/conversations": {"user": user},
        "/conversation": {"user": user, "id": "<img src=x onerror=alert(2)>"},
        "/search": {"user": user, "q": "<script>alert(1)</script>"},
        "/console": {"user": user, "q": "<script>alert(3)</script>"},
        "/clock": {"user": user},
    }
    for found in await memory.memories(user_id=user, states=()):
        paths[f"/memory/{found.id}"] = {"user": user}
    pages = {}
    for path, query in paths.items():
        answer = await browser.get(path, **query)
        assert answer.status_code == 200, (path, answer.text)
        pages[path] = answer.text
    return pages


@pytest.mark.parametrize("user", ["eve", "<script>alert('user')</script>"])
async def test_hostile_content_is_text_on_every_page(hostile: DualMem, explore: Any, user: str) -> None:
    pages = await every_page(await explore(hostile, writable=True), hostile, user)
    for path, text in pages.items():
        lowered = text.casefold()
        assert "<script>alert" not in lowered, path
        assert "<img src=x" not in lowered, path
        assert "<svg/onload" not in lowered, path
        assert "<b>eve" not in lowered, path
        assert "<style>*" not in lowered, path
        assert "hx-post='/forget'" not in lowered, path
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages["/memories"]
    assert "{{ 7 * 7 }}" in pages["/memories"]
    rejected = pages["/conversation"].split('<li class="rejected">')[1:]
    assert len(rejected) == 3 * len(HOSTILE)
    assert all("&lt;script&gt;alert(1)&lt;/script&gt;" in part for part in rejected[:1] + rejected[-8:-7])
    assert "&lt;<mark>script&gt;alert(1)&lt;/script</mark>&gt;" in pages["/conversation"]


async def test_every_answer_carries_a_strict_policy(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0])
    for path in ("/", "/memories?user=mara", "/nothing", "/static/explorer.css", "/memory/x?user=mara"):
        answer = await browser.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    page = (await browser.client.get("/memories?user=mara")).text
    assert " style=" not in page
    assert " onclick" not in page
    # Nothing is loaded from anywhere else.
    assert "//" not in page.replace("http://127.0.0.1:8123", "")


async def test_the_link_works_once(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0], enter=False)
    assert (await browser.get("/")).status_code == 403
    assert (await browser.client.get("/?token=guess")).status_code == 403
    link = browser.access.url("/memories", user="mara")
    first = await browser.client.get(link)
    assert first.status_code == 303
    assert first.headers["location"] == "/memories?user=mara"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await browser.client.get(first.headers["location"])).status_code == 200
    # The same browser may come back by the link; another one may not.
    assert (await browser.client.get(link)).status_code == 303
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=browser.app), base_url=f"http://{HOST}") as other:
        assert (await other.get(link)).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8123", ""]
)
async def test_other_names_of_this_machine_are_refused(mara: Any, explore: Any, host: str) -> None:
    browser = await explore(mara[0])
    assert (await browser.client.get("/", headers={"Host": host})).status_code == 421
    # The one-time link is not used up by such a request.
    fresh = await explore(mara[0], enter=False)
    assert (await fresh.client.get(fresh.access.url(), headers={"Host": host})).status_code == 421
    assert (await fresh.client.get(fresh.access.url())).status_code == 303


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "[::1]:8123"])
def test_names_of_this_machine(host: str) -> None:
    assert Access(8123).names(host)


async def test_forms_need_their_secret_and_their_page(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory, writable=True)
    form = {"user": "mara", "memory": made["cat"].id}
    assert (await browser.post("/forget", csrf="guess", **form)).status_code == 403
    assert (await browser.client.post("/forget", data=form)).status_code == 403
    whole = {"csrf": browser.access.csrf, **form}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert (await browser.client.post("/forget", data=whole, headers=headers)).status_code == 403
    browser.client.cookies.clear()
    assert (await browser.post("/forget", **form)).status_code == 403
    assert len(await memory.memories(user_id="mara", states=())) == len(made)


async def test_nothing_acts_by_a_get(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory, writable=True)
    asked = await browser.get("/forget", user="mara", memory=made["cat"].id, csrf=browser.access.csrf)
    assert asked.status_code == 200
    assert "Forget for good" in asked.text
    assert len(await memory.memories(user_id="mara", states=())) == len(made)
    # Neither does the console ask a model: the scripted one would raise.
    assert (await browser.get("/console", user="mara", question="Where?", csrf=browser.access.csrf)).status_code == 200


async def test_a_large_form_is_refused(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    browser = await explore(mara[0], writable=True)
    answer = await browser.post("/console", user="mara", question="x" * 70_000)
    assert answer.status_code == 400
    assert "larger" in answer.text


async def test_one_user_does_not_see_another(mara: tuple[DualMem, dict[str, Memory]], explore: Any) -> None:
    memory, made = mara
    browser = await explore(memory)
    assert (await browser.get(f"/memory/{made['cat'].id}", user="ben")).status_code == 404
    assert (await browser.get("/conversation", user="ben", id="mara-and-ben")).status_code == 404
    assert (await browser.get("/memories", user="ben")).status_code == 404
