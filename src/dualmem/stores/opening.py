"""Which database a store is in, and its own record: which embedding model it was made with, and which key opens it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from dualmem.errors import EmbeddingMismatch, KeyMismatch, StoreError
from dualmem.identity import stable_id
from dualmem.stores.backend import Filter, Point
from dualmem.stores.encryption import MARK, EncryptedBackend
from dualmem.stores.keys import HOW_TO_SET
from dualmem.stores.payload import CONTROL, MEMORIES, is_any, of_user, specs

if TYPE_CHECKING:
    from dualmem.config import Settings
    from dualmem.embedding import Embedder
    from dualmem.stores.backend import Backend, Payload
    from dualmem.stores.keys import EncryptionKey

SCHEMA: Final = 2
"""Version of the payloads and vectors."""

IDENTITY: Final = stable_id("control", "identity")


def open_backend(settings: Settings) -> Backend:
    """Return the backend that `settings.store` names; nothing is opened yet."""
    if settings.store == ":memory:" or "://" in settings.store:
        from dualmem.stores.qdrant import QdrantBackend  # noqa: PLC0415 - the client is heavy

        key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
        return QdrantBackend(settings.store, api_key=key, prefix=settings.collection_prefix)
    from dualmem.stores.edge import EdgeBackend  # noqa: PLC0415 - the engine is heavy

    return EdgeBackend(Path(settings.store).expanduser())


async def identity_of(backend: Backend) -> Payload | None:
    """Return a store's own record; the backend must be open."""
    return (await backend.retrieve(CONTROL, [IDENTITY])).get(IDENTITY)


async def is_encrypted(backend: Backend) -> bool:
    """Whether a store is there and encrypted; opens the backend."""
    if not await backend.open(specs(0), create=False):
        return False
    return MARK in (await identity_of(backend) or {})


async def identified(backend: Backend, embedder: Embedder | None, dimension: int | None, *, create: bool) -> bool:
    """Check that a store is read with its own embedding model and key; with `create`, write its record where none is.

    Args:
        backend: Where it is; open.
        embedder: The embedding model; looking needs none.
        dimension: Numbers of its vectors, for a new store.
        create: Whether to write the record.

    Returns:
        Whether there is a record.

    Raises:
        EmbeddingMismatch: It was made with another embedding model.
        KeyMismatch: It is encrypted and no key or another one is set, or it is plain and a key is set.
        StoreError: A later version made it.
    """
    found = await identity_of(backend)
    if found is None and create and embedder is not None:
        made: Payload = {"what": "identity", "model": embedder.name, "dimension": dimension, "schema": SCHEMA}
        if isinstance(backend, EncryptedBackend):
            made[MARK] = backend.user_key.new_mark()
        await backend.upsert(CONTROL, [Point(IDENTITY, made, {})], only_new=True)
        # Of several processes that make it at once, one did.
        found = await identity_of(backend)
    if found is None:
        return False
    mark = found.get(MARK)
    if isinstance(backend, EncryptedBackend):
        backend.unlock(mark)
    elif mark is not None:
        message = (
            f"{backend.place} is encrypted, and no key is set; set that with the id {mark['key']!r} ({HOW_TO_SET})"
        )
        raise KeyMismatch(message)
    if embedder is not None:
        _check_model(embedder, str(found["model"]), int(found["dimension"]))
    await _bring_up_to_date(backend, int(found["schema"]))
    return True


async def _bring_up_to_date(backend: Backend, schema: int) -> None:
    """Change what an earlier version wrote to what this one reads; what was cut short is done again."""
    if schema > SCHEMA:
        message = f"the store was made by a later version of dualmem (its schema is {schema}, this one reads {SCHEMA})"
        raise StoreError(message)
    if schema == SCHEMA:
        return
    for user_id in await backend.facet(MEMORIES, "user_id", Filter()):
        where = of_user(user_id, is_any("state", "active"))
        active = [memory_id for memory_id, _ in await backend.scroll(MEMORIES, where, ids_only=True)]
        await backend.set_payload(MEMORIES, active, {"active_of": user_id})
    await backend.set_payload(CONTROL, [IDENTITY], {"schema": SCHEMA})


def _check_model(embedder: Embedder, model: str, dimension: int) -> None:
    mine = embedder.known_dimension
    if model == embedder.name and (mine is None or mine == dimension):
        return
    message = (
        f"the store was made with the embedding model {model!r} ({dimension} dimensions), and the settings "
        f"name {embedder.name!r} ({mine or 'unknown'} dimensions); set DUALMEM_EMBEDDING_MODEL to the "
        f"first, or make the store anew with `dualmem reembed`"
    )
    raise EmbeddingMismatch(message)


async def rekey(backend: Backend, key: EncryptionKey) -> None:
    """Let `key` open an encrypted store in place of the one before.

    It is one write, whatever the store's size. The files of an embedded store are written anew after it, so that what
    the old key opened is in none of them.

    Args:
        backend: Where it is; open.
        key: What opens it from now on.

    Raises:
        KeyMismatch: The store is not encrypted.
    """
    if not isinstance(backend, EncryptedBackend):
        message = f"{backend.place} is not encrypted; make an encrypted store of it with `dualmem reembed`"
        raise KeyMismatch(message)
    await backend.set_payload(CONTROL, [IDENTITY], {MARK: key.mark_of(backend.data_key)})
    await backend.compact()
