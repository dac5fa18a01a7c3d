"""The explorer in a real browser: each page, keys, light and dark, a narrow screen, and many memories."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from dualmem import DualMem
from dualmem.explorer.app import build_app
from dualmem.explorer.export import export
from dualmem.explorer.guard import Access
from dualmem.explorer.serving import _bound, _Server
from dualmem.ingestion.rejections import rejection_of
from dualmem.records import Memory
from dualmem.stores.commit import Commit
from dualmem.testing import WordEmbeddings

pytestmark = pytest.mark.browser

MANY = 50_000


@asynccontextmanager
async def serving(memory: DualMem, **options: Any) -> AsyncIterator[Access]:
    bound = _bound(0)
    access = Access(bound.getsockname()[1])
    config = uvicorn.Config(build_app(memory, access, **options), log_level="warning", timeout_graceful_shutdown=1)
    ready = asyncio.Event()
    server = _Server(config, ready.set)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    await ready.wait()
    try:
        yield access
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def browsing(access: Access | None = None, **options: Any) -> AsyncIterator[Any]:
    """A page of Chromium that was let in; what it complains about fails the test."""
    from playwright.async_api import async_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "no Chromium on this machine: install it (Debian: apt-get install chromium)"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(**{"viewport": {"width": 1180, "height": 860}, **options})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if access is not None:
            await page.goto(access.url())
        yield page
        await browser.close()
        assert complaints == []


async def at(page: Any, access: Access, path: str) -> None:
    await page.goto(f"http://127.0.0.1:{access.port}{path}")
    await page.wait_for_load_state("networkidle")


async def fits(page: Any) -> bool:
    return bool(await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


@pytest.mark.parametrize("width", [1180, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_page_fits_and_can_be_read(mara: tuple[DualMem, dict[str, Memory]], width: int, scheme: str) -> None:
    memory, made = mara
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with serving(memory, writable=True) as access, browsing(access, **options) as page:
        for path in (
            "/",
            "/memories?user=mara",
            f"/memory/{made['lisbon'].id}?user=mara",
            f"/memory/{made['only'].id}?user=mara",
            "/conversations?user=mara",
            "/conversation?user=mara&id=mara-and-ben",
            "/search?user=mara&q=Where+does+Mara+live",
            "/console?user=mara",
            f"/forget?user=mara&memory={made['cat'].id}",
        ):
            await at(page, access, path)
            assert await fits(page), path
            assert await page.locator("h1").count() == 1
            ink, paper = await page.evaluate(
                "[getComputedStyle(document.querySelector('h1')).color, getComputedStyle(document.documentElement).backgroundColor]"
            )
            assert contrast(ink, paper) > 4.5, path


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG counts it."""

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


async def test_why_a_fact_was_retired_is_found_by_keys_alone(mara: tuple[DualMem, dict[str, Memory]]) -> None:
    async with serving(mara[0]) as access, browsing(access) as page:
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#results")
        for _ in range(14):
            await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".notice.past")
        assert "She moved to Porto." in await page.inner_text(".notice.past")
        assert await page.inner_text(".notice.past mark") == "I moved to Porto last week"
        await page.keyboard.press("/")
        await page.wait_for_selector("#q")
        await page.keyboard.type("Fado")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".unit")
        assert "Fado" in await page.inner_text(".unit >> nth=0")


async def test_a_slider_moves_the_clock(mara: tuple[DualMem, dict[str, Memory]]) -> None:
    async with serving(mara[0]) as access, browsing(access) as page:
        await at(page, access, "/memories?user=mara")
        assert await page.locator(".density.known rect").count() == 5
        slider = page.locator("[data-range]").first
        await slider.focus()
        await page.keyboard.press("Home")
        await page.wait_for_selector("text=3 memories")
        assert "known=2024-03-04" in page.url
        assert "replaced later" in await page.inner_text(".rows")
        await page.click("[data-now] >> nth=0")
        await page.wait_for_selector("text=14 memories")
        await page.check("input[value=plan]", force=True)
        await page.wait_for_selector("text=1 memory")
        await page.go_back()
        await page.wait_for_selector("text=14 memories")


async def test_a_recall_is_watched(
    open_memory: Callable[..., DualMem], reader: Any, grades: Any, like_mara: Any
) -> None:
    answer = {"cites": ["M1"], "found": True, "answer": "In Porto."}
    memory = open_memory(reader(answer=answer, gate=grades()))
    await like_mara(memory)
    async with serving(memory) as access, browsing(access) as page:
        await at(page, access, "/console?user=mara")
        await page.fill("#question", "Where does Mara live?")
        await page.select_option("[name=beside]", "memlace")
        await page.keyboard.press("Tab")
        await page.focus("#question")
        await page.keyboard.press("Control+Enter")
        await page.wait_for_selector(".runs .answer >> nth=1")
        assert await page.locator(".run >> nth=0 >> .step").count() == 4
        assert await page.inner_text(".answer-text >> nth=0") == "In Porto."


async def test_forgetting_by_hand(mara: tuple[DualMem, dict[str, Memory]]) -> None:
    memory, made = mara
    async with serving(memory, writable=True) as access, browsing(access) as page:
        await at(page, access, f"/memory/{made['cat'].id}?user=mara")
        await page.click("text=Forget this memory")
        await page.click("text=Forget for good")
        await page.wait_for_selector(".receipt")
        assert "memories erased" in await page.inner_text(".receipt")


async def test_hostile_content_runs_nothing(open_memory: Callable[..., DualMem], reader: Any, chat_of: Any) -> None:
    memory = open_memory(reader())
    texts = ("<script>window.hit=1</script>.", '"><img src=x onerror=window.hit=1>.', "<svg onload=window.hit=1>.")
    await memory.remember(
        chat_of(*(f"<b>Eve</b>: {text}" for text in texts)), user_id="eve", conversation_id="<i>c</i>"
    )
    store = memory.resources.store
    turns = await store.turns("eve")
    written = [{"text": text, "quote": text, "turns": cited} for text in texts for cited in ([1], [9])]
    async with store.writer("eve"):
        rejections = tuple(rejection_of(item, texts[0], turns) for item in written)
        await store.commit(Commit("eve", rejections=rejections))
    async with serving(memory) as access, browsing(access) as page:
        for path in ("/memories?user=eve", "/conversation?user=eve&id=%3Ci%3Ec%3C/i%3E", "/search?user=eve&q=script"):
            await at(page, access, path)
            assert await page.evaluate("window.hit") is None
            assert await page.locator("main i, main img").count() == 0
            if path.startswith("/conversation"):
                assert await page.locator(".rejected").count() == 6


async def test_the_exported_file_opens_by_itself(mara: tuple[DualMem, dict[str, Memory]], tmp_path: Path) -> None:
    await export(mara[0], "mara", tmp_path / "page.html")
    async with browsing() as page:
        await page.goto((tmp_path / "page.html").as_uri())
        assert await page.locator(".entry").count() == 14
        assert await page.evaluate("getComputedStyle(document.querySelector('.lead')).maxWidth") != "none"
        assert await fits(page)


async def test_fifty_thousand_memories_without_lag(tmp_path: Path, a_memory: Callable[..., Memory]) -> None:
    async with DualMem(store=str(tmp_path / "store"), embeddings=WordEmbeddings(8)) as memory:
        first = a_memory("x")
        for start in range(0, MANY, 5000):
            made = [
                first.model_copy(
                    update={
                        "id": str(uuid.UUID(int=number)),
                        "text": f"Ana did thing {number}.",
                        "known_at": first.known_at + timedelta(hours=number // 5),
                        "topic": f"topic {number % 40}",
                        "entities": (f"Person {number % 900}",),
                        "position": number,
                    }
                )
                for number in range(start, start + 5000)
            ]
            async with memory.resources.store.writer("ana"):
                await memory.resources.store.commit(Commit("ana", tuple(made)))
        async with serving(memory) as access, browsing(access) as page:
            then = (first.known_at + timedelta(hours=MANY // 10)).strftime("%Y-%m-%dT%H:%M")
            for path in (
                "/memories?user=ana",
                "/memories?user=ana&page=1000",
                "/memories?user=ana&topic=topic+3",
                f"/memories?user=ana&held={then}",
                f"/memories?user=ana&known={then}",
                "/",
            ):
                await at(page, access, path)
                began = time.monotonic()
                await at(page, access, path)
                print(path, round(time.monotonic() - began, 2))  # noqa: T201 - to be looked at, not asserted
                # What is on the page does not grow with what is stored.
                assert await page.evaluate("document.querySelectorAll('*').length") < 3000
            await at(page, access, "/memories?user=ana&page=1000")
            assert await page.locator(".row").count() == 50


async def test_the_command_serves_until_it_is_interrupted(
    mara: tuple[DualMem, dict[str, Memory]], shared_store: Path
) -> None:
    store = shutil.copytree(shared_store, Path("copy"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from dualmem.cli import main; main()"),
        *("explore", "--store", str(store), "--user", "mara", "--no-browser", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said = (await process.stdout.readuntil(b"}")).decode()
    async with browsing() as page:
        await page.goto(json.loads(said)["url"])
        assert "mara" in await page.inner_text("h1")
        assert "token" not in page.url
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 0
    assert await process.stderr.read() == b""
