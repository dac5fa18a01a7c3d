"""Commands that keep a store in good order: check it, take it elsewhere, make it anew."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualmem.cli.arguments import AsJson, Preset, Store, User
from dualmem.cli.running import run, say_json
from dualmem.config import load_settings
from dualmem.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from dualmem.checking import Diagnosis
    from dualmem.memory import DualMem
    from dualmem.records import IngestReceipt


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(doctor)
    app.command()(compact)
    app.command()(export)
    app.command()(resume)
    app.command()(reextract)
    app.command()(reembed)
    app.command(name="new-key")(new_key)
    app.command()(rekey)


def doctor(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user; else everybody.")] = None,
    mend: Annotated[bool, typer.Option("--mend", help="Mend what is broken.")] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Check the store against its rules: links, chains, states, sources, positions and indexes.

    The status is 1 where faults are left. Example: dualmem doctor --mend
    """

    async def work(memory: DualMem) -> list[Diagnosis]:
        return await memory.doctor(user_id=user, repair=mend)

    found = run(work, store=store)
    if as_json:
        say_json([one.model_dump(mode="json") for one in found])
    else:
        _show(found)
    if not all(one.healthy for one in found):
        raise typer.Exit(1)


def compact(store: Store = None, as_json: AsJson = False) -> None:
    """Write the files of an embedded store anew, so that what was forgotten is in none of them.

    It takes as long as writing all that is kept, and room for a second copy. Example: dualmem compact
    """

    async def work(memory: DualMem) -> bool:
        return await memory.compact()

    done = run(work, store=store)
    if as_json:
        say_json({"compacted": done})
    else:
        typer.echo("the files hold only what is kept" if done else "nothing is stored")


def _show(found: list[Diagnosis]) -> None:
    from rich.markup import escape

    from dualmem.cli.render import console

    if not found:
        console.print("nothing is stored")
    for one in found:
        faults = len(one.faults)
        verdict = "whole" if not faults else f"{faults} faults mended" if one.mended else f"{faults} faults"
        style = "green" if one.healthy else "red"
        pending = f", {one.pending} turns pending (`dualmem resume`)" if one.pending else ""
        held = f"{one.turns} turns, {one.memories} memories"
        console.print(f"{escape(one.user_id)}: {held}: [{style}]{verdict}[/{style}]{pending}")
        for fault in one.faults:
            console.print(f"  {escape(fault)}")
    if not all(one.healthy for one in found):
        console.print("`dualmem doctor --mend` mends links, states, positions and indexes")


def export(
    user: User,
    file: Annotated[Path | None, typer.Argument(help="Where to; else standard output.")] = None,
    store: Store = None,
) -> None:
    """Write all that is remembered of a user as JSON lines, with links and provenance; `dualmem import` reads it.

    Example: dualmem export --user ana ana.jsonl
    """

    async def work(memory: DualMem) -> int:
        count = 0
        with nullcontext(sys.stdout) if file is None else file.open("w", encoding="utf-8") as out:
            async for line in memory.export(user_id=user):
                out.write(f"{line}\n")
                count += 1
        return count - 1

    try:
        records = run(work, store=store)
    except OSError as error:
        message = f"{file} cannot be written: {error}"
        raise InputError(message) from error
    if file is not None:
        typer.echo(f"{records} turns and memories of {user} are in {file}")


def is_export_file(source: str) -> bool:
    """Whether `source` is a file that `dualmem export` wrote."""
    from dualmem.transfer import is_export

    try:
        with Path(source).expanduser().open(encoding="utf-8") as lines:
            return is_export(lines.readline(10_000))
    except (OSError, UnicodeDecodeError, ValueError):
        return False


def load_export(source: str, *, user: str | None, store: str | None, as_json: bool) -> None:
    """Read an export of dualmem into the store."""
    lines = Path(source).expanduser().read_text(encoding="utf-8").splitlines()

    async def work(memory: DualMem) -> Any:
        return await memory.load(lines, user_id=user or "")

    receipt = run(work, store=store)
    if as_json:
        say_json(receipt.model_dump(mode="json"))
        return
    typer.echo(
        f"{receipt.turns_stored} turns and {receipt.memories_stored} memories are stored for {receipt.user_id}; "
        f"{receipt.turns_known} and {receipt.memories_known} were there before"
    )


def resume(user: User, store: Store = None, preset: Preset = None, as_json: AsJson = False) -> None:
    """Extract memories from the turns that are pending, as after a model was down.

    Example: dualmem resume --user ana
    """

    async def work(memory: DualMem) -> list[IngestReceipt]:
        return await memory.resume(user_id=user)

    _say(run(work, store=store, preset=preset), "nothing is pending", as_json=as_json)


def reextract(
    user: User,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    store: Store = None,
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Extract memories from the raw turns again, as after a change of the model; the old ones go.

    Example: dualmem reextract --user ana --conversation "march 2024"
    """

    async def work(memory: DualMem) -> list[IngestReceipt]:
        return await memory.reextract(user_id=user, conversation_id=conversation)

    _say(run(work, store=store, preset=preset), "there are no turns to read", as_json=as_json)


def _say(receipts: list[IngestReceipt], nothing: str, *, as_json: bool) -> None:
    from dualmem.cli import render

    if as_json:
        say_json([receipt.model_dump(mode="json") for receipt in receipts])
    elif not receipts:
        typer.echo(nothing)
    else:
        for receipt in receipts:
            render.show_receipt(receipt)
    if any(receipt.turns_pending for receipt in receipts):
        raise typer.Exit(1)


def reembed(
    into: Annotated[
        str | None,
        typer.Option(help="Folder or URL of another store; else the folder in use is made anew, and the old one kept."),
    ] = None,
    into_prefix: Annotated[
        str | None, typer.Option(help="Prefix of the new collections, where they are on the same server.")
    ] = None,
    old_key_file: Annotated[
        str | None, typer.Option(help="File with the key of the store that is copied, where that is another one.")
    ] = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Make the store anew with the embedding model and encryption key that are configured now, or copy it elsewhere.

    Interrupted, it goes on where it was when it is called again. The old store is never changed.

    Example: DUALMEM_EMBEDDING_MODEL=local:multilingual dualmem reembed
    """
    from dualmem.cli.reembedding import rebuild

    settings = load_settings(**({"store": store} if store else {}))
    if into is None and into_prefix is None and "://" in settings.store:
        message = (
            "collections on a server cannot be swapped: name new ones with --into-prefix, then set "
            "DUALMEM_COLLECTION_PREFIX to it"
        )
        raise ConfigurationError(message)
    done = rebuild(settings, into=into, prefix=into_prefix, old_key=old_key_file, quiet=as_json)
    receipt = done.receipt
    if as_json:
        say_json({**receipt.model_dump(mode="json"), "store": done.place, "old_store": done.old})
        return
    known = f" ({receipt.known} more were there from a run before)" if receipt.known else ""
    typer.echo(
        f"{receipt.turns} turns and {receipt.memories} memories of {receipt.users} users were copied to {done.place}"
        f"{known}"
    )
    typer.echo(f"the old store is kept in {done.old}; remove it when you are content")


def new_key(
    file: Annotated[Path, typer.Argument(help="Where to; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Write a new encryption key to a file that only its owner can read.

    Example: dualmem new-key ~/dualmem.key
    """
    from dualmem.stores.keys import write_new_key

    key = write_new_key(file)
    if as_json:
        say_json({"file": str(file), "key": key.id})
    else:
        typer.echo(f"a key with the id {key.id} is in {file}; without it nobody can read what it encrypts: keep a copy")
        typer.echo("set DUALMEM_ENCRYPTION_KEY_FILE to that file, and new stores are encrypted")


def rekey(
    file: Annotated[Path, typer.Argument(help="File with the new key, as `dualmem new-key` writes it.")],
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Let another key open an encrypted store; the one before opens it no longer.

    The texts are not encrypted anew: for that, as when a copy of the files and the old key may be in wrong hands, there
    is `dualmem reembed`. Example: dualmem rekey ~/new.key
    """
    from dualmem.stores.keys import read_key

    key = read_key(file)

    async def work(memory: DualMem) -> bool:
        return await memory.resources.store.rekey(key)

    done = run(work, store=store)
    if as_json:
        say_json({"rekeyed": done, "key": key.id})
    elif done:
        typer.echo(f"the store is opened by the key with the id {key.id}; set DUALMEM_ENCRYPTION_KEY_FILE to {file}")
    else:
        typer.echo("nothing is stored")
