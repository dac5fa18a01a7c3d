"""`dualmem reembed`: copy a store into a new one, and put that in its place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dualmem.errors import ConfigurationError, StoreError
from dualmem.models import make_embedder
from dualmem.rebuilding import copy_store
from dualmem.records import CopyReceipt
from dualmem.stores.keys import key_of, read_key
from dualmem.stores.opening import is_encrypted, open_backend
from dualmem.stores.store import Store

if TYPE_CHECKING:
    from dualmem.config import Settings

MADE = ".reembedding"
"""Ends the name of a folder under construction."""

KEPT = ".before-reembedding"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was copied, where the new store is, and where the old one."""

    receipt: CopyReceipt
    place: str
    old: str


def rebuild(
    settings: Settings, *, into: str | None, prefix: str | None, old_key: str | None = None, quiet: bool = False
) -> Rebuilt:
    """Copy the store of `settings` with the embedding model and the encryption key of `settings`.

    Args:
        settings: What is in force for the new store.
        into: Another place for it.
        prefix: Another prefix of its collections.
        old_key: File with the key of the old store, where it is encrypted with another one.
        quiet: Whether to say nothing of the progress.

    Raises:
        ConfigurationError: The new store would be the old one, or what is to be kept is in the way.
        StoreError: There is nothing to copy, or the new store cannot be put in its place.
    """
    place = settings.store if prefix is not None else settings.store.rstrip("/") + MADE
    target = settings.override(
        {"store": into or place, **({"collection_prefix": prefix} if prefix is not None else {})}
    )
    if into is not None or prefix is not None:
        receipt = asyncio.run(_copied(settings, target, old_key, quiet=quiet))
        return Rebuilt(receipt, target.store, settings.store)
    old, made = Path(settings.store).expanduser(), Path(target.store).expanduser()
    kept = old.with_name(old.name + KEPT)
    receipt = CopyReceipt()
    # With no old one in its place, an earlier run was stopped between the two renames below.
    if old.exists() or not kept.exists():
        if kept.exists():
            message = f"{kept} is there from an earlier run; remove it, or move it away"
            raise ConfigurationError(message)
        receipt = asyncio.run(_copied(settings, target, old_key, quiet=quiet))
        _rename(old, kept)
    _rename(made, old)
    return Rebuilt(receipt, str(old), str(kept))


async def _copied(settings: Settings, target: Settings, old_key: str | None, *, quiet: bool) -> CopyReceipt:
    old, new = open_backend(settings), open_backend(target)
    if old.key == new.key:
        message = f"{target.store} is the store itself; name another one"
        raise ConfigurationError(message)
    stderr = Console(stderr=True, quiet=quiet, highlight=False)
    key = key_of(settings)
    # A plain store is copied whether or not the copy is to be encrypted.
    source_key = (read_key(old_key) if old_key else key) if await is_encrypted(old) else None
    source = Store(old, None, key=source_key)
    made = Store(new, make_embedder(settings), lease_seconds=settings.lease_seconds, key=key)
    try:
        return await copy_store(
            source, made, progress=lambda user, count: stderr.print(f"{user}: {count} turns and memories", markup=False)
        )
    finally:
        await source.close()
        await made.close()


def _rename(place: Path, to: Path) -> None:
    try:
        place.rename(to)
    except OSError as error:
        message = f"the new store is complete, but {place} could not be moved to {to}: {error}; call it again"
        raise StoreError(message) from error
