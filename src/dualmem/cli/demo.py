"""The main job on a conversation that is shipped with the package."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from rich.markup import escape

from dualmem.cli.render import (
    ask_with_progress,
    console,
    ingest_with_progress,
    show_receipt,
    show_recollection,
)
from dualmem.config import Settings, load_settings
from dualmem.errors import ModelNotConfigured, StoreError
from dualmem.loaders import load_file
from dualmem.memory import DualMem
from dualmem.models import chat_name
from dualmem.records import Memory

USER = "mara"
MARK = "dualmem-demo"
"""Name of an empty file that tells a demo's folder from any other."""

QUESTIONS = (
    "Where does Mara live now?",
    "What was Mara's job before?",
    "Does Mara have brothers?",
    "When did Mara run her first half marathon?",
    "What is the name of Mara's dentist?",
)


def run_demo(folder: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Ingest the shipped conversation, ask about it, and print what happened.

    Args:
        folder: Where the demo's store goes.
        quiet: Print nothing.

    Returns:
        What happened: the receipt, the memories, and what each question came to.

    Raises:
        StoreError: `folder` holds something that no demo put there.
    """
    settings = demo_settings(folder)
    _clear(folder)
    with _silence() if quiet else nullcontext():
        return asyncio.run(_demo(settings, quiet=quiet))


def demo_settings(folder: Path) -> Settings:
    """Return what is configured, or the embedded model where nothing is; always with the demo's store."""
    settings = load_settings(store=str(folder / "store"))
    try:
        chat_name(settings)
    except ModelNotConfigured:
        return settings.override({"chat_model": "local"})
    return settings


def _clear(folder: Path) -> None:
    mark = folder / MARK
    if folder.exists() and any(folder.iterdir()):
        if not mark.exists():
            message = f"{str(folder)!r} is not empty and no demo's folder; name another with --store"
            raise StoreError(message)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()


@contextmanager
def _silence() -> Iterator[None]:
    console.quiet = True
    try:
        yield
    finally:
        console.quiet = False


async def _demo(settings: Settings, *, quiet: bool) -> dict[str, Any]:
    started = time.monotonic()
    async with DualMem(settings) as memory:
        console.print(f"[bold]dualmem demo[/bold] · chat model {escape(chat_name(settings))} · store {settings.store}")
        with as_file(files("dualmem") / "demo" / "conversation.json") as path:
            (transcript,) = load_file(path)
        _heading("1. Remember a conversation of five evenings")
        receipt = await ingest_with_progress(memory, transcript, USER, quiet=quiet)
        show_receipt(receipt)
        memories = await memory.memories(user_id=USER, states=())
        _show_lives(memories)
        _heading("3. Ask")
        recollections = []
        for question in QUESTIONS:
            console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]")
            recollection = await ask_with_progress(memory, question, USER, None, quiet=quiet)
            show_recollection(recollection)
            recollections.append(recollection)
    seconds = time.monotonic() - started
    where = f"--user {USER} --store {settings.store}"
    console.print(f"\n[dim]{seconds:.0f} s; look around with[/dim] dualmem explore {where}\n"
                  f"[dim]or at the terminal with[/dim] dualmem memories list --all {where}")  # fmt: skip
    return {
        "chat_model": chat_name(settings),
        "store": settings.store,
        "seconds": round(seconds, 1),
        "receipt": receipt.model_dump(mode="json"),
        "memories": [one.model_dump(mode="json") for one in memories],
        "recollections": [one.model_dump(mode="json") for one in recollections],
    }


def _heading(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _show_lives(memories: list[Memory]) -> None:
    """Print what changed and what conflicts."""
    _heading("2. What changed, and what does not fit together")
    known = {memory.id: memory for memory in memories}
    for memory in memories:
        for link in memory.links:
            other = known[link.target]
            if link.relation == "superseded_by":
                console.print(f"[dim]{escape(memory.text)}[/dim] → [green]{escape(other.text)}[/green]"
                              f"  ({escape(link.reason)})")  # fmt: skip
            elif link.relation == "contradicts" and memory.told < other.told:
                console.print(f"[yellow]{escape(memory.text)} ↯ {escape(other.text)}[/yellow]  ({escape(link.reason)})")
            elif link.relation == "merged_with" and memory.told < other.told:
                console.print(f"[cyan]{escape(memory.text)} = {escape(other.text)}[/cyan]  ({escape(link.reason)})")
