"""`dualmem import`: find out what a person's memories of another system are kept in, and read them."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualmem.errors import ConfigurationError, InputError
from dualmem.integrations.importing import read_langgraph_store, read_mem0_database, read_mem0_export

if TYPE_CHECKING:
    from dualmem.records import Transcript

_SQLITE = b"SQLite format 3\0"
_QDRANT_FOLDER = "meta.json"
"""The file by which a folder is known to be one of qdrant-client's local mode."""

KNOWN = (
    "a JSON export of mem0, mem0's Qdrant (its folder, or the URL of its server), or a LangGraph store as LangMem "
    "uses it (a SQLite file, or a postgresql:// address)"
)


def read_source(
    source: str, *, collection: str, namespace: tuple[str, ...], api_key: str | None = None
) -> dict[str, Transcript]:
    """Return the memories in `source`, by user.

    Args:
        source: What `KNOWN` says. It is only read.
        collection: Name of mem0's collection, where it is a Qdrant.
        namespace: Where the namespaces of a LangGraph store name the user.
        api_key: Key of the Qdrant server.

    Raises:
        InputError: It is nothing of that, or cannot be read.
        ConfigurationError: A package is missing that reads it, or `namespace` has no place for the user.
    """
    scheme = source.partition("://")[0] if "://" in source else ""
    if scheme in {"http", "https"}:
        return read_mem0_database(source, collection, api_key=api_key)
    if scheme in {"postgres", "postgresql"}:
        return asyncio.run(_from_postgres(source, namespace))
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            return _from_folder(path, collection)
        with path.open("rb") as file:
            is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        message = f"{source!r} cannot be read: {error.strerror}; give {KNOWN}"
        raise InputError(message) from error
    return asyncio.run(_from_sqlite(path, namespace)) if is_sqlite else read_mem0_export(path)


def chosen_users(found: dict[str, Transcript], user_id: str | None) -> dict[str, Transcript]:
    """Return the transcripts of one user, or of all.

    Raises:
        InputError: There is none to take.
    """
    if user_id is None and found:
        return found
    if user_id is not None and user_id in found:
        return {user_id: found[user_id]}
    users = f"there are those of {sorted(found)[:10]!r}" if found else "it names no user's"
    whose = "" if user_id is None else f" of the user {user_id!r}"
    message = f"there are no memories{whose} to import; {users}"
    raise InputError(message)


def _from_folder(path: Path, collection: str) -> dict[str, Transcript]:
    if not (path / _QDRANT_FOLDER).is_file():
        message = f"{str(path)!r} is a folder, and none of a Qdrant; give {KNOWN}"
        raise InputError(message)
    return read_mem0_database(str(path), collection)


async def _from_sqlite(path: Path, namespace: tuple[str, ...]) -> dict[str, Transcript]:
    """Read a copy: opening LangGraph's store changes its file, to the version of the package that is installed."""
    store = _store_class("langgraph.store.sqlite", "AsyncSqliteStore", "langgraph-checkpoint-sqlite")
    with tempfile.TemporaryDirectory(prefix="dualmem-import-") as folder:
        copy = Path(folder) / "store.sqlite"
        _copy_database(path, copy)
        async with store.from_conn_string(str(copy)) as opened:
            return await read_langgraph_store(opened, namespace=namespace)


def _copy_database(path: Path, copy: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(copy)) as taken,
        ):
            tables = {name for (name,) in original.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            original.backup(taken)
    except sqlite3.Error as error:
        message = f"{str(path)!r} cannot be read: {error}"
        raise InputError(message) from error
    if "store" not in tables:
        message = f"{str(path)!r} holds no LangGraph store: it has the tables {sorted(tables)!r}; give {KNOWN}"
        raise InputError(message)


async def _from_postgres(address: str, namespace: tuple[str, ...]) -> dict[str, Transcript]:
    """Read in one transaction that may not write: what there was at one moment."""
    package = 'langgraph-checkpoint-postgres "psycopg[binary]"'
    store = _store_class("langgraph.store.postgres", "AsyncPostgresStore", package)
    psycopg = import_module("psycopg")
    _check_address(psycopg, address)
    try:
        async with store.from_conn_string(address) as opened:
            await opened.conn.set_read_only(True)
            await opened.conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            async with opened.conn.transaction():
                return await read_langgraph_store(opened, namespace=namespace)
    except psycopg.errors.UndefinedTable as error:
        message = f"this Postgres database holds no LangGraph store: it has no table `store`; give {KNOWN}"
        raise InputError(message) from error
    except psycopg.Error as error:
        # The address holds a password.
        message = f"the Postgres store cannot be read: {' '.join(str(error).split())[:300]}"
        raise InputError(message) from error


def _check_address(psycopg: Any, address: str) -> None:
    """Refuse an address that is not of its form; the client's own complaint quotes it, and so the password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        parts = {"port": "none"}
    port = str(parts.get("port") or "0").replace(",", "")
    if not port.isdecimal() or "@" in str(parts.get("host")):
        message = (
            "the address of the Postgres store must read postgresql://user:password@host:port/database, with %40 for "
            "@, %2F for / and %25 for % in the password"
        )
        raise InputError(message)


def _store_class(module: str, name: str, package: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        message = f"reading this store needs a package that is not installed: pip install {package}"
        raise ConfigurationError(message) from error
