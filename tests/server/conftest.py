"""A `langgraph dev` server on a loopback port, without a key, a browser or a network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
DOUBLES = Path(__file__).parent / "doubles.py"
PATIENCE = 600
"""Seconds a server may take to come up on a busy machine."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    log: Path

    def said(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Start servers from a configuration file; they end with the module."""
    running: list[subprocess.Popen[bytes]] = []

    def start(config: Path | dict[str, Any], **environment: str) -> Server:
        folder = tmp_path_factory.mktemp("server")
        if isinstance(config, dict):
            (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
            config = folder / "langgraph.json"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = folder / "log.txt"
        with log.open("wb") as out:
            command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
            process = subprocess.Popen(
                [*command, "--config", str(config), "--port", str(port)],
                cwd=config.parent,
                env={**_clean_environment(folder), **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        running.append(process)
        server = Server(f"http://127.0.0.1:{port}", log)
        _wait(server, process)
        return server

    yield start
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The package's graphs over a real embedded store, with a scripted model."""
    graphs = {name: f"{DOUBLES}:{name}" for name in ("recall", "ingestion", "deliberation")}
    store = tmp_path_factory.mktemp("served") / "store"
    return serve({"dependencies": ["."], "graphs": graphs}, DUALMEM_STORE=str(store))


def _clean_environment(folder: Path) -> dict[str, str]:
    foreign = ("DUALMEM_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(foreign)}
    return {
        **kept,
        "HOME": str(folder),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "NO_COLOR": "1",
    }


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert process.poll() is None, f"the server ended:\n{server.said()[-3000:]}"
        try:
            with urllib.request.urlopen(f"{server.url}/ok", timeout=5):  # noqa: S310 - loopback
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.5)
    pytest.fail(f"the server did not come up:\n{server.said()[-3000:]}")
