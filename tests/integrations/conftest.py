"""A memory that has something to tell, a chat model that follows a script of messages, and a Postgres server."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.serde import jsonplus
from pydantic import Field

from dualmem import DualMem


class ScriptedAgentModel(BaseChatModel):
    """A chat model that an agent can bind tools to; it replies with `replies` in order, and keeps what it was sent."""

    replies: list[Any]
    requests: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted-agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.requests.append(list(messages))
        reply = self.replies[len(self.requests) - 1]
        message = reply.model_copy() if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.fixture
def agent_model() -> Callable[..., ScriptedAgentModel]:
    """Make the model of an agent, with its replies in order."""
    return lambda *replies: ScriptedAgentModel(replies=list(replies))


@pytest.fixture
def talking(
    open_memory: Callable[..., DualMem], reader: Callable[..., Any], grades: Callable[..., Any]
) -> Callable[..., DualMem]:
    """Make a memory whose model extracts statements, answers "Porto" and is satisfied with it."""

    def make(**script: Any) -> DualMem:
        answer = {"cites": ["M1"], "found": True, "answer": "Ana lives in Porto."}
        return open_memory(reader(**{"answer": answer, "gate": grades(), **script}))

    return make


@pytest.fixture
def unwarned(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return what a checkpointer complained about; it complains of each class once a process."""
    for known in ("_warned_unregistered_types", "_warned_blocked_types"):
        monkeypatch.setattr(jsonplus, known, set())
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if "deserializ" in record.getMessage().lower()]


PATIENCE = 120
"""Seconds a Postgres server may take to come up, or to end, on a busy machine."""

PASSWORD = "porto-and-the-cello"  # noqa: S105 - of a server that lives as long as the tests


def _binaries() -> Path:
    """Return the folder with `initdb` and `postgres`; Debian keeps it out of the path."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    pytest.skip("no Postgres server is installed: neither `initdb` on the path nor /usr/lib/postgresql/*/bin")


def _whose() -> dict[str, Any]:
    """Return whom the server runs as: Postgres refuses to be root's."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("Postgres does not run as root, and there is neither a user `postgres` nor `nobody`")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a Postgres server on loopback in a folder of its own; give its address, without a database."""
    psycopg = pytest.importorskip("psycopg", reason="needs the dependency group `postgres`")
    binaries, whose = _binaries(), _whose()
    # pytest's own temporary folders are closed to other users.
    with tempfile.TemporaryDirectory(prefix="dualmem-postgres-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        (folder / "password").write_text(PASSWORD, encoding="utf-8")
        if whose:
            for path in (folder, folder / "password"):
                os.chown(path, whose["user"], whose["group"])
        how: dict[str, Any] = {
            "cwd": folder,
            "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            "stderr": subprocess.STDOUT,
            **whose,
        }
        kept = ("--pgdata", "data", "--username", "dualmem", "--pwfile", "password", "--auth", "scram-sha-256")
        subprocess.run(
            [str(binaries / "initdb"), *kept, "--encoding", "UTF8", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            **how,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = ("listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "fsync=off")
        log = folder / "log.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", "data", *(part for it in settings for part in ("-c", it))],
                stdout=out,
                **how,
            )
        try:
            address = f"postgresql://dualmem:{PASSWORD}@127.0.0.1:{port}"
            _wait_for_postgres(psycopg, address, process, log)
            yield address
        finally:
            # Both end the server's own processes with it; the first lets it close its files.
            for ending in (signal.SIGINT, signal.SIGQUIT):
                process.send_signal(ending)
                try:
                    process.wait(PATIENCE)
                    break
                except subprocess.TimeoutExpired:
                    continue


def _wait_for_postgres(psycopg: Any, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert process.poll() is None, f"the server ended:\n{log.read_text(errors='replace')[-3000:]}"
        try:
            psycopg.connect(f"{address}/postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the server did not come up:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
def database(postgres: str) -> str:
    """Return the address of an empty Postgres database of the test's own."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(f"{postgres}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return f"{postgres}/{name}"
