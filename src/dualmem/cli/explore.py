"""`dualmem explore`: look at what is remembered, in a browser."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualmem.cli.arguments import AsJson, Preset, Store
from dualmem.errors import ConfigurationError, InputError, ModelNotConfigured

if TYPE_CHECKING:
    from dualmem.config import Settings


def explore(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Whose memory to begin with; else all users.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Allow undo and forget, and writing back.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 for any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(help="Write one self-contained HTML file of --user's memory instead.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price table (JSON or TOML), to show what each step of a recall costs.")
    ] = None,
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Look at what is remembered, on a page that only this machine can open.

    It only shows, unless --write is given. The address works once; Ctrl-C ends it.

    Example: dualmem explore --user ana
    """
    from dualmem.config import load_settings

    given = {key: value for key, value in (("store", store), ("preset", preset)) if value}
    settings = _with_the_demos_models(load_settings(**given))
    try:
        if export is not None:
            _export(settings, user, export, as_json=as_json)
        else:
            _serve(settings, user, port, prices, write=write, browser=browser, as_json=as_json)
    except ModuleNotFoundError as error:
        if error.name not in {"jinja2", "markupsafe", "starlette", "uvicorn"}:
            raise
        message = f'the explorer is not installed ({error.name}); install it with: pip install "dualmem[explore]"'
        raise ConfigurationError(message) from error


def _with_the_demos_models(settings: Settings) -> Settings:
    """Return settings with the embedded models where nothing is configured and the store is one a demo left."""
    from dualmem.cli.demo import MARK
    from dualmem.models import chat_name

    try:
        chat_name(settings)
    except ModelNotConfigured:
        if (Path(settings.store).expanduser().parent / MARK).exists():
            return settings.override({"chat_model": "local"})
    return settings


def _export(settings: Settings, user: str | None, path: Path, *, as_json: bool) -> None:
    from dualmem.cleaning import clean_user_id
    from dualmem.cli.running import say_json
    from dualmem.explorer.export import export
    from dualmem.memory import DualMem

    if user is None:
        message = "--export writes one user's memory; name the user with --user"
        raise InputError(message)
    user_id = clean_user_id(user)

    async def work() -> int:
        async with DualMem(settings) as memory:
            return await export(memory, user_id, path)

    count = asyncio.run(work())
    if as_json:
        say_json({"file": str(path), "memories": count})
    else:
        typer.echo(f"{count} {'memory' if count == 1 else 'memories'} written to {path}")


def _serve(
    settings: Settings,
    user: str | None,
    port: int,
    prices: Path | None,
    *,
    write: bool,
    browser: bool,
    as_json: bool,
) -> None:
    from dualmem.cleaning import clean_user_id
    from dualmem.cli.running import say_json
    from dualmem.evals.prices import read_prices
    from dualmem.explorer.serving import serve
    from dualmem.memory import DualMem

    table = read_prices(prices)
    user_id = clean_user_id(user) if user is not None else ""

    def ready(address: str) -> None:
        if as_json:
            say_json({"url": address})
        else:
            typer.echo(f"Open {address}\nThe address works once. Ctrl-C ends it.")
        if browser:
            webbrowser.open(address)

    async def work() -> None:
        async with DualMem(settings) as memory:
            await serve(memory, port=port, writable=write, prices=table, user_id=user_id, ready=ready)

    # Ctrl-C is how it ends.
    with suppress(KeyboardInterrupt):
        asyncio.run(work())
