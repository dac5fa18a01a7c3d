"""One self-contained file of a user's memory: no script, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from dualmem.errors import InputError
from dualmem.explorer.catalogue import Catalogue, SourceView
from dualmem.explorer.marking import marked
from dualmem.explorer.rendering import make_environment, static
from dualmem.stores.payload import of_user

if TYPE_CHECKING:
    from dualmem.memory import DualMem
    from dualmem.records import Memory, Turn

_PAGE: Final = 500


async def export(memory: DualMem, user_id: str, path: Path) -> int:
    """Write a user's memories with their sources and relations to an HTML file.

    Args:
        memory: Whose store it is.
        user_id: Whose memories.
        path: Of the file; one that is there is replaced once the new one is whole.

    Returns:
        How many memories it holds.

    Raises:
        NotFound: Nothing is stored of this user.
        InputError: The file cannot be written.
    """
    catalogue = Catalogue(memory)
    row = await catalogue.user(user_id)
    environment = make_environment()
    style = static("explorer.css")
    head = environment.get_template("export_head.html").render(
        user=user_id,
        row=row,
        # A sheet of this package, which no data is in; its hash is what the policy lets through.
        style=Markup(style),  # noqa: S704 - our own style sheet
        digest=_digest(style),
        made=datetime.now(UTC),
        store=memory.settings.store,
    )
    entry = environment.get_template("export_entry.html")
    beside = path.with_name(f".{path.name}.part")
    count = 0
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(head)
            async for found, known, sources in _pages(memory, user_id):
                for item in found:
                    file.write(entry.render(memory=item, known=known, sources=sources.get(item.id, ())))
                count += len(found)
            file.write(environment.get_template("export_foot.html").render())
        beside.replace(path)
    except OSError as error:
        message = f"{str(path)!r} cannot be written: {error.strerror}"
        raise InputError(message) from error
    finally:
        beside.unlink(missing_ok=True)
    return count


async def _pages(
    memory: DualMem, user_id: str
) -> AsyncIterator[tuple[list[Memory], dict[str, Memory], dict[str, list[SourceView]]]]:
    """Return memories by pages, with those they are linked to and the turns they come from."""
    store = memory.resources.store
    offset = 0
    while page := await store.listing.memories(of_user(user_id), offset=offset, limit=_PAGE):
        offset += len(page)
        known = {item.id: item for item in page}
        linked = {link.target for item in page for link in item.links} - known.keys()
        known.update(await store.memories_by_id(user_id, sorted(linked)))
        ids = list(dict.fromkeys(chain.from_iterable(item.turn_ids for item in page)))
        turns = await store.turns_by_id(user_id, ids)
        yield page, known, {item.id: list(_sources(item, turns)) for item in page}


def _sources(memory: Memory, turns: dict[str, Turn]) -> Iterable[SourceView]:
    for turn_id in memory.turn_ids:
        if turn_id in turns:
            quotes = [source.quote for source in memory.sources if source.turn_id == turn_id]
            yield SourceView(turns[turn_id], tuple(marked(turns[turn_id].text, quotes)))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
