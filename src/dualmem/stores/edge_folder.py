"""The folder of an embedded store: making it, opening it, and sharing it inside one process."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

import qdrant_edge as qe

from dualmem.errors import StoreError
from dualmem.stores.edge_shard import Shard, edge_errors
from dualmem.stores.folder_lock import FolderLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dualmem.stores.backend import CollectionSpec

_CONFIG = "edge_config.json"
"""The file by which a folder is known to be one of Edge's."""

_BUILDING = ".building-"
"""Prefix of a collection that is being made. It takes its name in one step, so that it is there whole or not."""

_REPLACED = ".replaced-"
"""Prefix of a collection that was written anew, until the new one is in its place."""

_QUANTIZATION = qe.TurboQuantQuantizationConfig(bits=qe.TurboQuantBitSize.Bits8)
"""A scan reads one byte a number instead of four."""

_THREADS = 1
"""Threads that a collection is searched by: the caller's own.

Edge gives each segment of a collection a thread and none of ours has more than one segment, so that another thread
brings nothing but the wait for its start, which on busy cores was three times the search itself.
"""

_PLACEHOLDER = "none"
"""Edge makes no collection without a vector; one that needs none has this sparse one."""


@dataclass(eq=False)
class Folder:
    """A store that is open in this process, and who uses it."""

    path: Path
    lock: FolderLock
    shards: dict[str, Shard] = field(default_factory=dict)
    holders: WeakSet[object] = field(default_factory=WeakSet)
    """Those who opened it; weak, so that one who forgot to close it does not keep it open for ever."""

    def exists(self) -> bool:
        """Tell whether its files are still there."""
        return all(_is_there(self.path, name) for name in self.shards)


def _is_there(path: Path, name: str) -> bool:
    """Whether a collection has files, if only those that were just about to be replaced."""
    return any((path / place / _CONFIG).is_file() for place in (name, f"{_REPLACED}{name}"))


_OPEN: dict[tuple[int, Path], Folder] = {}
"""The stores that are open, by process (a forked one must not use its parent's) and path."""

_GUARD = threading.Lock()


def acquire(holder: object, path: Path, specs: Sequence[CollectionSpec], *, create: bool) -> Folder | None:
    """Open the collections of `specs` for `holder`, or share them where this process has them open.

    Returns:
        The open folder; None when not all collections exist and `create` is False.

    Raises:
        StoreLocked: Another process has them open.
        StoreError: The folder cannot be used, or is no store.
    """
    with _GUARD, edge_errors(path):
        path = path.expanduser().resolve()
        key = (os.getpid(), path)
        folder = _OPEN.get(key)
        if folder is not None and not folder.exists():
            # Somebody removed it. What is still written to it would be lost without a word, and there is no
            # place any more to flush to.
            _OPEN.pop(key)
            with suppress(StoreError):
                _close(folder)
            folder = None
        if folder is not None:
            fresh = _open_missing(path, specs, folder.shards, create=create)
            if fresh is None:
                return None
        else:
            if not _prepared(path, specs, create=create):
                return None
            folder = Folder(path, FolderLock(path))
            try:
                fresh = _open_missing(path, specs, {}, create=create)
            except BaseException:
                folder.lock.release()
                raise
            if fresh is None:
                folder.lock.release()
                return None
            _OPEN[key] = folder
        folder.shards.update(fresh)
        folder.holders.add(holder)
        return folder


def release(holder: object, folder: Folder) -> None:
    """Let go of a folder; the last to do so closes it."""
    with _GUARD:
        folder.holders.discard(holder)
        if folder.holders:
            return
        key = (os.getpid(), folder.path)
        if _OPEN.get(key) is folder:
            _OPEN.pop(key)
            _close(folder)


def _close(folder: Folder) -> None:
    """Close all collections, also when one of them fails to, and then let others have the folder."""
    with ExitStack() as closing:
        closing.callback(folder.lock.release)
        for shard in folder.shards.values():
            closing.callback(shard.close)


def _prepared(path: Path, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
    """Have a folder to lock; False when there is none with all collections, and none is to be made."""
    if any(not _is_there(path, spec.name) for spec in specs):
        _refuse_other_folders(path)
        if not create:
            return False
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return True


def _open_missing(
    path: Path, specs: Sequence[CollectionSpec], opened: Mapping[str, Shard], *, create: bool
) -> dict[str, Shard] | None:
    wanted = [spec for spec in specs if spec.name not in opened]
    missing = [spec for spec in wanted if not _is_there(path, spec.name)]
    if missing and not create:
        return None
    fresh: dict[str, Shard] = {}
    try:
        # Those that exist first: their locks tell whether this process may write here at all.
        for spec in sorted(wanted, key=lambda spec: not (path / spec.name / _CONFIG).is_file()):
            if spec in missing:
                _make(path, spec)
            _put_back(path, spec.name)
            fresh[spec.name] = _load(path / spec.name, spec)
        if create:
            for spec in specs:
                (opened.get(spec.name) or fresh[spec.name]).index(spec.fields)
    except BaseException:
        with ExitStack() as closing:
            for shard in fresh.values():
                closing.callback(shard.close)
        raise
    if not opened:
        # All locks are held now: what others were making here, or were killed over, will not be used.
        for left in (*path.glob(f"{_BUILDING}*"), *path.glob(f"{_REPLACED}*")):
            shutil.rmtree(left, ignore_errors=True)
    return fresh


def _put_back(path: Path, name: str) -> None:
    """Give a collection its place again, where a process was killed just before the new one took it."""
    place, aside = path / name, path / f"{_REPLACED}{name}"
    if not (place / _CONFIG).is_file() and (aside / _CONFIG).is_file():
        aside.rename(place)


def _refuse_other_folders(path: Path) -> None:
    """Keep a mistyped path from filling somebody's folder with a store."""
    if not path.exists():
        return
    if not path.is_dir():
        raise StoreError(f"{path} is not a folder: name a folder for the store, or the URL of a Qdrant server")
    names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    if any((path / name / _CONFIG).is_file() for name in names):
        return
    if names:
        raise StoreError(f"{path} is not a store: it holds {sorted(names)[:3]!r}; name an empty or a new folder")


def _make(path: Path, spec: CollectionSpec) -> None:
    """Make a collection beside its place, whole with its indexes, and then move it there."""
    building = _build(path, spec)
    place = path / spec.name
    try:
        building.rename(place)
    except OSError:
        # Another process was faster; loading finds out whether it still has it open.
        if not (place / _CONFIG).is_file():
            raise


def _build(path: Path, spec: CollectionSpec, points: Iterable[Sequence[qe.Point]] = ()) -> Path:
    """Make a collection in a folder of its own, whole with its indexes, and fill it with batches of points."""
    building = path / tempfile.mkdtemp(prefix=_BUILDING, dir=path)
    dense, sparse = _vectors(spec.dense, spec.sparse or (() if spec.dense else (_PLACEHOLDER,)))
    try:
        # Payloads are read into memory on opening: one by one from a disk, those of a search cost more than all else.
        config = qe.EdgeConfig(
            dense,
            sparse,
            quantization_config=_QUANTIZATION,
            payload_memory=qe.Memory.Cached,
            max_search_threads=_THREADS,
        )
        edge = qe.EdgeShard.create(str(building), config)
        for batch in points:
            edge.update(qe.UpdateOperation.upsert_points(list(batch)))
        shard = Shard(building, edge, spec)
        shard.index(spec.fields)
        shard.close()
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return building


def _vectors(
    dense: Mapping[str, int], sparse: Iterable[str]
) -> tuple[dict[str, qe.EdgeVectorParams], dict[str, qe.EdgeSparseVectorParams]]:
    """Return Edge's description of dense vectors, by their sizes, and of sparse ones."""
    return (
        {name: qe.EdgeVectorParams(size=size, distance=qe.Distance.Cosine) for name, size in dense.items()},
        {name: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf) for name in sparse},
    )


def compact(folder: Folder) -> None:
    """Write every collection anew, with what is in it, so that what was deleted is in no file any more.

    Edge marks what is deleted and keeps its bytes, in segments and in the write-ahead log; they go only with the
    files. The new collection takes the place of the old one in two renames; a process that is killed between them is
    made up for when the store is opened again. While a collection is written anew, calls to it wait.

    Raises:
        StoreError: There is no room for a second copy, or the folder cannot be written; nothing was changed.
    """
    for name, shard in list(folder.shards.items()):
        aside = folder.path / f"{_REPLACED}{name}"
        with edge_errors(folder.path):
            shard.replace(folder.path / name, aside, partial(_build, folder.path, shard.spec))
            shutil.rmtree(aside)


def _load(path: Path, spec: CollectionSpec) -> Shard:
    with edge_errors(path.parent):
        stored = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
        sizes = {name: int(vector["size"]) for name, vector in stored.get("vectors", {}).items()}
        sparse = tuple(stored.get("sparse_vectors", {}))
        lacking = sorted({*spec.dense, *spec.sparse} - {*sizes, *sparse})
        if lacking:
            raise StoreError(f"the store at {path.parent} is of another version: {spec.name!r} lacks {lacking!r}")
        # What is not named here stays as the collection has it.
        edge = qe.EdgeShard.load(str(path), qe.EdgeConfig(*_vectors(sizes, sparse), max_search_threads=_THREADS))
        return Shard(path.parent, edge, replace(spec, dense=sizes, sparse=sparse))
