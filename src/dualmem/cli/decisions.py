"""Commands on decisions: why a memory is as it is, what a turn led to, what was rejected, taking back, releasing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualmem.cli.arguments import AsJson, Store, User
from dualmem.cli.running import moment_of, run, say_json
from dualmem.errors import InputError

if TYPE_CHECKING:
    from dualmem.memory import DualMem
    from dualmem.records import Decision, Explanation, Memory, Rejection, Turn, TurnEffects

MemoryId = Annotated[str, typer.Argument(help="The id, or its first characters.")]

_WORDS = {
    "supersedes": "replaces",
    "merges": "was written in place of",
    "merged_with": "says the same as",
    "contradicts": "contradicts",
}


def register(app: typer.Typer, memories_app: typer.Typer) -> None:
    """Add the commands."""
    memories_app.command()(why)
    memories_app.command()(undo)
    memories_app.command()(release)
    memories_app.command("from-turn")(from_turn)
    memories_app.command()(rejected)
    app.command()(forget)


def why(memory_id: MemoryId, user: User, store: Store = None, as_json: AsJson = False) -> None:
    """Show why a memory is as it is: who retired it, when, from which turns, and with which reason.

    Example: dualmem memories why 3f2a --user ana
    """

    async def work(memory: DualMem) -> Explanation:
        return await memory.why(memory_id, user_id=user)

    found = run(work, store=store)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    from dualmem.cli.render import console

    console.print(f"[bold]{_line(found.memory)}[/bold]")
    for turn in found.sources:
        console.print(f"  from {_said(turn)}")
    if found.memory.suspicion:
        from rich.markup import escape

        console.print(f"[yellow]reads like an instruction:[/yellow] {escape(found.memory.suspicion)}")
    if not found.decisions:
        console.print("nothing was decided on it")
    for decision in found.decisions:
        _show(decision)


def undo(
    identifier: Annotated[
        str, typer.Argument(help="The id of a decision (`memories why` shows it) or of a memory, or its start.")
    ],
    user: User,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Take a decision back: what it had taken out of force is in force again.

    Example: dualmem memories undo 3f2a --user ana
    """

    async def work(memory: DualMem) -> Any:
        undone = await memory.undo(identifier, user_id=user)
        again = [await memory.memory(one, user_id=user) for one in undone.active_again]
        return undone, again

    undone, again = run(work, store=store)
    if as_json:
        say_json(undone.model_dump(mode="json"))
        return
    from dualmem.cli.render import console

    console.print("taken back:")
    _show(undone.decision)
    for memory in again:
        console.print(f"[green]in force again[/green] {_line(memory)}")


def release(memory_id: MemoryId, user: User, store: Store = None, as_json: AsJson = False) -> None:
    """Keep a memory like any other that reads like an instruction; a quarantined one comes into force.

    `memories list --suspicious` shows them; `forget --memory` takes one out.

    Example: dualmem memories release 3f2a --user ana
    """

    async def work(memory: DualMem) -> Memory:
        return await memory.release(memory_id, user_id=user)

    released = run(work, store=store)
    if as_json:
        say_json(released.model_dump(mode="json"))
        return
    from dualmem.cli.render import console

    console.print(f"[green]released[/green] {_line(released)}")


def from_turn(
    turn_id: Annotated[str, typer.Argument(help="The id of a turn, or its first characters.")],
    user: User,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show what came of a turn, and so what would go with it.

    Example: dualmem memories from-turn 9c41 --user ana
    """

    async def work(memory: DualMem) -> TurnEffects:
        return await memory.from_turn(turn_id, user_id=user)

    found = run(work, store=store)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    from dualmem.cli.render import console

    console.print(f"[bold]{_said(found.turn)}[/bold]")
    for heading, memories in (
        ("from this turn alone", found.alone),
        ("from other turns, too", found.shared),
        ("out of force because of it", found.retired),
    ):
        for memory in memories:
            console.print(f"  {heading}: {_line(memory)}")
    if not (found.alone or found.shared):
        console.print("no memory came of it")


def rejected(
    user: User,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show what was extracted and not kept: each draft with its reason and the turns it cites.

    Example: dualmem memories rejected --user ana --conversation "march 2024"
    """

    async def work(memory: DualMem) -> tuple[list[Rejection], dict[str, Turn]]:
        found = await memory.rejections(user_id=user, conversation_id=conversation)
        ids = dict.fromkeys(turn_id for one in found for turn_id in one.turn_ids)
        if not ids:
            return found, {}
        return found, await memory.resources.store.turns_by_id(found[0].user_id, list(ids))

    found, turns = run(work, store=store)
    if as_json:
        say_json([one.model_dump(mode="json") for one in found])
        return
    from rich.markup import escape

    from dualmem.cli.render import console

    if not found:
        console.print("nothing was rejected")
    for one in found:
        console.print(f"[bold]{escape(one.text)}[/bold]")
        quote = f": {escape(one.quote)}" if one.quote else ""
        console.print(f"  [yellow]{escape(one.reason)}[/yellow]{quote}")
        for turn_id in one.turn_ids:
            console.print(f"  cites {_said(turns[turn_id])}" if turn_id in turns else f"  cites turn {turn_id[:8]}")


def forget(
    user: User,
    memory: Annotated[str | None, typer.Option(help="A memory, by its id or the start of it.")] = None,
    turn: Annotated[str | None, typer.Option(help="A turn, by its id or the start of it.")] = None,
    conversation: Annotated[str | None, typer.Option(help="A conversation, by its name.")] = None,
    since: Annotated[str | None, typer.Option(help="What was said from this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(help="What was said up to this time (ISO 8601).")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All of this user.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Erase a memory, a turn, a conversation, what was said in a time, or all of a user, for good.

    Memories that came from erased turns alone go with them, and what those had replaced is in force again.

    Example: dualmem forget --user ana --conversation "march 2024"
    """
    start, end = moment_of(since, "--since"), moment_of(until, "--until")
    if not yes:
        _confirm(user, as_json=as_json)

    async def work(held: DualMem) -> Any:
        memory_id = (await held.memory(memory, user_id=user)).id if memory is not None else None
        turn_id = (await held.turn(turn, user_id=user)).id if turn is not None else None
        return await held.forget(
            user_id=user,
            memory_id=memory_id,
            turn_id=turn_id,
            conversation_id=conversation,
            since=start,
            until=end,
            everything=everything,
        )

    receipt = run(work, store=store)
    if as_json:
        say_json(receipt.model_dump(mode="json"))
        return
    from dualmem.cli.render import console

    console.print(
        f"erased {receipt.turns} turns, {receipt.memories} memories and {receipt.rejections} rejected drafts; "
        f"{receipt.sources} memories lost a source, {receipt.restored} are in force again"
    )


def _confirm(user: str, *, as_json: bool) -> None:
    """Ask, where somebody can answer.

    Raises:
        InputError: Nobody can.
    """
    import sys

    if as_json or not sys.stdin.isatty():
        message = "forgetting cannot be undone; say --yes to do it without being asked"
        raise InputError(message)
    typer.confirm(f"Erase it from the memory of {user!r}, for good?", abort=True)


def _show(decision: Decision) -> None:
    from rich.markup import escape

    from dualmem.cli.render import console
    from dualmem.prompting import describe_instant

    console.print(f"[cyan]{decision.id[:8]}[/cyan] {_line(decision.later)}")
    console.print(f"  {_WORDS[decision.relation]} {_line(decision.earlier)}")
    reason = f", because: {escape(decision.reason)}" if decision.reason else ""
    console.print(f"  decided {describe_instant(decision.at)}{reason}")
    for turn in decision.turns:
        console.print(f"  from {_said(turn)}")


def _line(memory: Memory) -> str:
    from rich.markup import escape

    state = "" if memory.active else f" [dim]({memory.state})[/dim]"
    return f"{memory.id[:8]} {escape(memory.text)}{state}"


def _said(turn: Turn) -> str:
    from rich.markup import escape

    from dualmem.prompting import describe_instant

    when = f" ({describe_instant(turn.said_at)})" if turn.said_at else ""
    return f"turn {turn.id[:8]}, {escape(turn.speaker)}{when}: {escape(turn.text)}"
