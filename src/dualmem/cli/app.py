"""The commands of `dualmem`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dualmem.cli.bench import bench_app
from dualmem.config import PRESETS, load_settings, origin_of
from dualmem.errors import ConfigurationError, InputError
from dualmem.records import Memory

if TYPE_CHECKING:
    from dualmem.memory import DualMem

T = TypeVar("T")

app = typer.Typer(
    help="Long-term memory for agents: remember conversations, answer from them, and read the raw history when the "
    "fast answer is not good enough.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
memories_app = typer.Typer(help="Look at what is remembered.", no_args_is_help=True)
app.add_typer(memories_app, name="memories")
app.add_typer(bench_app, name="bench")

User = Annotated[str, typer.Option("--user", "-u", help="Whose memory it is: any non-blank text.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Store = Annotated[str | None, typer.Option(help="Folder, URL or `:memory:`, in place of DUALMEM_STORE.")]
Preset = Annotated[str | None, typer.Option(help=f"A named set of values: {', '.join(PRESETS)}.")]


def run(work: Callable[[DualMem], Coroutine[Any, Any, T]], *, store: str | None = None, **options: Any) -> T:
    """Run `work` on a memory with what the environment configures, and release it."""
    given = {key: value for key, value in {"store": store, **options}.items() if value is not None}
    settings = load_settings(**given)

    async def main() -> T:
        from dualmem.memory import DualMem  # noqa: PLC0415 - help must be fast

        async with DualMem(settings) as memory:
            return await work(memory)

    return asyncio.run(main())


def say_json(value: Any) -> None:
    """Print a value as JSON, in UTF-8 and with a line for each entry."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


@app.command()
def ingest(
    file: Annotated[Path, typer.Argument(help="A conversation, in any format that is known.")],
    user: User,
    conversation: Annotated[str | None, typer.Option(help="Name of the conversation; else the file's own.")] = None,
    limit_sessions: Annotated[int | None, typer.Option(min=1, help="Only the first N sessions.")] = None,
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Remember a conversation from a file.

    Example: dualmem ingest chat.json --user ana
    """
    from dualmem.cleaning import clean_user_id  # noqa: PLC0415
    from dualmem.cli import render  # noqa: PLC0415
    from dualmem.loaders import load_file  # noqa: PLC0415

    user = clean_user_id(user)
    transcripts = load_file(file, conversation_id=conversation, limit_sessions=limit_sessions)

    async def work(memory: DualMem) -> list[Any]:
        return [
            await render.ingest_with_progress(memory, transcript, user, quiet=as_json) for transcript in transcripts
        ]

    receipts = run(work, store=store, preset=preset)
    if as_json:
        dumped = [receipt.model_dump(mode="json") for receipt in receipts]
        say_json(dumped[0] if len(dumped) == 1 else dumped)
    else:
        for receipt in receipts:
            render.show_receipt(receipt)
    if any(receipt.turns_pending for receipt in receipts):
        raise typer.Exit(1)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="In any language.")],
    user: User,
    asked_at: Annotated[
        str | None,
        typer.Option(help="When it is asked (ISO 8601); by default now, where the question needs it."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show all evidence, timings and tokens.")] = False,  # noqa: FBT002
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Answer a question from memory.

    Example: dualmem ask "Where do I live now?" --user ana --explain
    """
    from dualmem.cli import render  # noqa: PLC0415

    moment = asking_time(question, asked_at)

    async def work(memory: DualMem) -> Any:
        return await render.ask_with_progress(memory, question, user, moment, quiet=as_json)

    recollection = run(work, store=store, preset=preset)
    if as_json:
        say_json(recollection.model_dump(mode="json"))
    else:
        render.show_recollection(recollection, explain=explain)


def asking_time(question: str, given: str | None) -> datetime | None:
    """Return when a question is asked: as given, or now where it says something like "last week".

    Raises:
        InputError: What is given is no time.
    """
    if given is not None:
        try:
            moment = datetime.fromisoformat(given)
        except ValueError as error:
            message = f"--asked-at {given!r} is no time; write it like 2024-05-08T13:30"
            raise InputError(message) from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    from dualmem.retrieval.times import find  # noqa: PLC0415

    now = datetime.now(UTC)
    return now if len(find(question, now)) > len(find(question, None)) else None


@memories_app.command("list")
def list_memories(
    user: User,
    every: Annotated[bool, typer.Option("--all", help="Also those that were superseded or merged.")] = False,  # noqa: FBT002
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """List a user's memories, from the earliest told to the latest.

    Example: dualmem memories list --user ana --all
    """
    from dualmem.cli import render  # noqa: PLC0415

    async def work(memory: DualMem) -> list[Memory]:
        return await memory.memories(user_id=user, states=() if every else ("active",))

    found = run(work, store=store)
    if as_json:
        say_json([memory.model_dump(mode="json") for memory in found])
    else:
        render.show_memories(found)


@memories_app.command()
def show(
    memory_id: Annotated[str, typer.Argument(help="The id, or its first characters.")],
    user: User,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show one memory, its links and the turns it comes from.

    Example: dualmem memories show 3f2a --user ana
    """
    from dualmem.cli import render  # noqa: PLC0415

    async def work(memory: DualMem) -> tuple[Memory, list[Any]]:
        found = await memory.memory(memory_id, user_id=user)
        return found, await memory.sources(found)

    found, turns = run(work, store=store)
    if as_json:
        say_json({**found.model_dump(mode="json"), "turns": [turn.model_dump(mode="json") for turn in turns]})
    else:
        render.show_memory(found, turns)


@memories_app.command()
def history(
    memory_id: Annotated[str, typer.Argument(help="The id, or its first characters.")],
    user: User,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show the chain a memory is part of, from its earliest state to the one in force.

    Example: dualmem memories history 3f2a --user ana
    """
    from dualmem.cli import render  # noqa: PLC0415

    async def work(memory: DualMem) -> list[Memory]:
        return await memory.history(memory_id, user_id=user)

    chain = run(work, store=store)
    if as_json:
        say_json([memory.model_dump(mode="json") for memory in chain])
    else:
        render.show_chain(chain)


@app.command()
def config(preset: Preset = None, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Show every setting in force and where its value comes from.

    Example: DUALMEM_CHAT_MODEL=local dualmem config
    """
    from dualmem.cli import render  # noqa: PLC0415

    settings = load_settings(**({"preset": preset} if preset else {}))
    rows = [
        (name, getattr(settings, name), origin_of(settings, name), field.description or "")
        for name, field in type(settings).model_fields.items()
    ]
    if as_json:
        say_json({name: {"value": value, "from": origin} for name, value, origin, _ in rows})
    else:
        render.show_settings(rows)


@app.command()
def graph(
    name: Annotated[str, typer.Argument(help="recall, deliberation or ingestion.")] = "recall",
    deep: Annotated[bool, typer.Option("--deep", help="Draw subgraphs from inside.")] = False,  # noqa: FBT002
) -> None:
    """Print a graph as Mermaid, as it really compiles.

    Example: dualmem graph recall --deep
    """
    from importlib import import_module  # noqa: PLC0415

    if name not in {"recall", "deliberation", "ingestion"}:
        message = f"no graph is named {name!r}; there are 'recall', 'deliberation' and 'ingestion'"
        raise ConfigurationError(message)
    compiled = import_module(f"dualmem.graphs.{name}").graph
    typer.echo(compiled.get_graph(xray=deep).draw_mermaid())


@app.command()
def demo(
    store: Annotated[
        str, typer.Option(help="Folder for the demo's store; what a demo left there before is removed.")
    ] = "~/.dualmem/demo",
) -> None:
    """Remember a conversation that is shipped with the package, and ask about it.

    Without any configuration it runs on the embedded model. Example: dualmem demo
    """
    from dualmem.cli.demo import run_demo  # noqa: PLC0415

    run_demo(Path(store).expanduser())
