"""Read the memories of other systems, ready to be remembered.

Every reader returns a transcript for each user, one message for each memory, oldest first, to be remembered word
for word: `await memory.remember(transcript, user_id=user_id, strategy="verbatim")`. Read again they are the same
turns, so an import can be repeated.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from dualmem.errors import InputError, UnknownFormat
from dualmem.integrations.namespaces import Namespaces
from dualmem.loaders.conversation import Conversation
from dualmem.loaders.times import parse_timestamp
from dualmem.records import Role, Transcript

if TYPE_CHECKING:
    from pathlib import Path

    from langgraph.store.base import BaseStore
    from qdrant_client import QdrantClient

PAGE: Final = 200

EVERYTHING: Final = 2**31 - 1
"""The items a LangGraph store is asked for at once, most often all that it has.

Its own order is the time of writing, which items that were put together share; a database may order those anew for
each page, so that one page repeats what another leaves out.
"""

TEXT_KEYS: Final = ("content", "text", "memory", "data", "value")
"""Where the text of a memory is, by common custom; LangMem nests `content` in `content`."""

_ROLES: Final[dict[str, Role]] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}


async def read_langgraph_store(
    store: BaseStore, *, namespace: tuple[str, ...] = ("memories", "{user_id}")
) -> dict[str, Transcript]:
    """Return what a LangGraph store holds (LangMem's, InMemoryStore, PostgresStore), by user.

    Args:
        store: The store.
        namespace: Where its namespaces name the user; parts behind that become the session. Items in namespaces of
            another form are left out.

    Raises:
        ConfigurationError: `namespace` has no place for the user.
    """
    form = Namespaces(namespace)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    fixed = form.of("*")
    start = fixed[: fixed.index("*")]
    offset = 0
    # Being looked at prolongs the life of an item that expires, which would write to the store.
    while page := await store.asearch(start, limit=EVERYTHING, offset=offset, refresh_ttl=False):
        offset += len(page)
        for item in page:
            place = form.split(item.namespace)
            if place is None:
                continue
            user_id, rest = place
            rows[user_id].append(
                {
                    "id": item.key,
                    "content": _text_in(item.value),
                    "timestamp": item.updated_at,
                    "session": "/".join(rest) or None,
                }
            )
    return {user_id: _transcript(found, "langgraph-store") for user_id, found in rows.items()}


def read_mem0_export(path: Path) -> dict[str, Transcript]:
    """Return the memories in a JSON file of mem0, by user: what `get_all` or an export gave.

    Raises:
        InputError: The file cannot be read.
        UnknownFormat: It holds no memories of mem0.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        message = f"{str(path)!r} cannot be read: {error}"
        raise InputError(message) from error
    rows = value
    if isinstance(value, Mapping):
        rows = next((value[key] for key in ("results", "memories") if isinstance(value.get(key), list)), None)
    if not isinstance(rows, list) or not any(isinstance(row, Mapping) and "memory" in row for row in rows):
        message = f"{str(path)!r} is no export of mem0: a list of objects with `memory` and `user_id` is expected"
        raise UnknownFormat(message)
    return _mem0(row for row in rows if isinstance(row, Mapping))


def read_mem0_database(place: str, collection: str = "mem0", *, api_key: str | None = None) -> dict[str, Transcript]:
    """Return the memories in mem0's Qdrant, by user.

    Args:
        place: The folder of an embedded one, or the URL of a server.
        collection: Its collection.
        api_key: Key of the server.

    Raises:
        InputError: It cannot be read, or there is no such collection.
    """
    from qdrant_client import QdrantClient  # noqa: PLC0415 - heavy
    from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415 - heavy

    where: dict[str, Any] = {"url": place, "api_key": api_key} if "://" in place else {"path": place}
    try:
        with closing(QdrantClient(**where)) as client:
            return read_mem0_collection(client, collection)
    except InputError:
        raise
    except (ApiException, RuntimeError, ValueError) as error:
        # RuntimeError: another process has the folder open.
        message = f"the Qdrant at {place!r} cannot be read: {' '.join(str(error).split())[:300]}"
        raise InputError(message) from error


def read_mem0_collection(client: QdrantClient, collection: str = "mem0") -> dict[str, Transcript]:
    """Return the memories in mem0's Qdrant collection, by user.

    Args:
        client: A client of mem0's database, `QdrantClient(path=...)` where it is embedded.
        collection: Its collection.

    Raises:
        InputError: There is no such collection.
    """
    if not client.collection_exists(collection):
        names = [found.name for found in client.get_collections().collections]
        message = f"there is no collection {collection!r} in this Qdrant; it has {names!r}"
        raise InputError(message)
    rows: list[Mapping[str, Any]] = []
    offset: Any = None
    while True:
        points, offset = client.scroll(collection, limit=PAGE, offset=offset, with_payload=True)
        rows += [{**(point.payload or {}), "id": str(point.id)} for point in points]
        if offset is None:
            return _mem0(rows)


def _mem0(rows: Iterable[Mapping[str, Any]]) -> dict[str, Transcript]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        user_id = row.get("user_id")
        if user_id is None or _expired(row.get("expiration_date")):
            continue
        found[str(user_id)].append(
            {
                "id": row.get("id"),
                "content": str(row.get("memory") or row.get("data") or ""),
                "role": _ROLES.get(str(row.get("role") or row.get("attributed_to") or "user").lower(), "user"),
                "name": row.get("actor_id"),
                # What is there is how it was last told.
                "timestamp": row.get("updated_at") or row.get("created_at"),
                "session": row.get("run_id"),
            }
        )
    return {user_id: _transcript(messages, "mem0") for user_id, messages in found.items()}


def _expired(date: object) -> bool:
    """Tell whether mem0 would not show a memory any more."""
    moment = parse_timestamp(date, UTC) if date else None
    return moment is not None and moment < datetime.now(UTC)


def _transcript(messages: list[dict[str, Any]], source: str) -> Transcript:
    conversation = Conversation(UTC)
    moments = [parse_timestamp(message["timestamp"], UTC) if message["timestamp"] else None for message in messages]
    order = sorted(range(len(messages)), key=lambda place: moments[place] or datetime.min.replace(tzinfo=UTC))
    for place in order:
        conversation.add(**{"role": "user", **messages[place]})
    return conversation.transcript(source, source)


def _text_in(value: Mapping[str, Any]) -> str:
    """Return the text of a stored value, or its JSON where no part of it is the text."""
    for key in TEXT_KEYS:
        held = value.get(key)
        if isinstance(held, str):
            return held
        if isinstance(held, Mapping):
            return _text_in(held)
    return json.dumps(value, ensure_ascii=False, default=str)
