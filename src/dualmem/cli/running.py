"""How every command runs and prints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from dualmem.config import load_settings
from dualmem.errors import InputError

if TYPE_CHECKING:
    from dualmem.memory import DualMem

T = TypeVar("T")


def run(work: Callable[[DualMem], Coroutine[Any, Any, T]], *, store: str | None = None, **options: Any) -> T:
    """Run `work` on a memory with what the environment configures, and release it."""
    given = {key: value for key, value in {"store": store, **options}.items() if value is not None}
    settings = load_settings(**given)

    async def main() -> T:
        from dualmem.memory import DualMem

        async with DualMem(settings) as memory:
            return await work(memory)

    return asyncio.run(main())


def say_json(value: Any) -> None:
    """Print a value as JSON, in UTF-8 and with a line for each entry."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def moment_of(given: str | None, option: str) -> datetime | None:
    """Return the time that an option names; UTC where it names no zone.

    Raises:
        InputError: It is no time.
    """
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        message = f"{option} {given!r} is no time; write it like 2024-05-08 or 2024-05-08T13:30"
        raise InputError(message) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
