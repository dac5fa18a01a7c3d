"""Serve a GGUF model on this machine, through llama.cpp's server in a process of its own.

A process of its own, because the binding holds the interpreter while it loads a model (seconds, in which no event
loop would run) and while it closes, because OpenMP must be told before it starts not to spin (`_environment`),
and because a crash or a log line of native code then stays outside of the host program.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.local.weights import CHAT_MODEL, HOW_TO_INSTALL, resolve_weights

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

SLOTS = 2
"""Requests worked on at once. More would divide the same processor and the same context further."""

SLOT_CONTEXT = 12_288
"""Tokens of prompt and reply in one slot: the largest prompt (a chunk of 8,000 tokens) and its reply. The
embedded model's cache of keys and values takes 28 KiB a token."""

CACHE_MIB = 512
"""Memory for prompt prefixes that are in no slot at the moment, in MiB."""

MAX_THREADS = 8
"""A model of this size gains nothing from more threads."""

_PROGRAM = Path(__file__).with_name("process.py")
_GOODBYE = 5.0
"""Seconds that a server may take to leave before it is killed."""


class LocalServer:
    """A server for one model, started when it is first needed and again when it has died.

    Args:
        path: As `resolve_weights` takes it; None is the embedded model.
        cache_dir: Where joined weights are kept.
        program: What runs in the server's process.
    """

    def __init__(self, path: Path | None, cache_dir: Path, *, program: Path = _PROGRAM) -> None:
        self.path = path
        self.cache_dir = cache_dir
        # Any user of this machine can reach the port, and any page in a browser.
        self.key = secrets.token_urlsafe(24)
        self._program = program
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = os.getpid()
        self._address = ""

    @property
    def model_name(self) -> str:
        """The name that the server gives its model."""
        return CHAT_MODEL if self.path is None else Path(self.path.name).stem

    @property
    def running(self) -> bool:
        """Whether the server's process lives and listens."""
        process = self._process
        return process is not None and process.poll() is None

    @property
    def address(self) -> str:
        """The server's `http://127.0.0.1:PORT`, as it was at the last start."""
        return self._address

    def start(self) -> str:
        """Start the server unless it runs, which takes seconds; call it outside of an event loop.

        Returns:
            The base URL for clients of the OpenAI protocol, `http://127.0.0.1:PORT/v1`.

        Raises:
            ModelNotConfigured: The extra `local` is not installed.
            ConfigurationError: The model cannot be found or loaded.
        """
        with self._lock:
            if not self.running:
                self._stop()
                self._launch(resolve_weights(self.path, self.cache_dir))
            return f"{self._address}/v1"

    def close(self) -> None:
        """Stop the server; it can be started again. Closing twice is allowed."""
        with self._lock:
            self._stop()

    def _launch(self, weights: Path) -> None:
        options = {
            "model": str(weights),
            "name": self.model_name,
            "key": self.key,
            "context": SLOTS * SLOT_CONTEXT,
            "slots": SLOTS,
            "threads": min(MAX_THREADS, _usable_processors()),
            "cache_mib": CACHE_MIB,
        }
        with tempfile.TemporaryFile() as log:
            # -P keeps the program's folder, whose modules have common names, out of the import path.
            process = subprocess.Popen(
                [sys.executable, "-P", str(self._program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                encoding="utf-8",
            )
            self._process, self._owner = process, os.getpid()
            try:
                report = _exchange(process, options)
            except BaseException:
                # Also when interrupted: nothing else knows this process yet.
                self._stop()
                raise
            if "address" in report:
                self._address = report["address"]
                return
            self._stop()
            raise _failure(weights, report, _last_line(log))

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if os.getpid() != self._owner:
            # After a fork the server is the parent's.
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_servers: dict[tuple[Path | None, Path], LocalServer] = {}
_servers_lock = threading.Lock()


def local_server(path: Path | None, cache_dir: Path) -> LocalServer:
    """Return this process's server for a model, made once and closed at exit; nothing is started yet."""
    with _servers_lock:
        if not _servers:
            atexit.register(close_servers)
        return _servers.setdefault((path, cache_dir), LocalServer(path, cache_dir))


def close_servers() -> None:
    """Stop every server of this process."""
    with _servers_lock:
        servers = list(_servers.values())
    for server in servers:
        server.close()


def local_chat_model(
    path: Path | None, *, cache_dir: Path, temperature: float, max_tokens: int, timeout: float
) -> ChatOpenAI:
    """Return a chat model that runs on this machine.

    Nothing is read or started here, so that an event loop may call it. The first call joins the weights and starts
    the server in a thread, and raises what `LocalServer.start` raises.

    Args:
        path: A GGUF file, `hub:OWNER/REPOSITORY/FILE`, or None for the embedded model.
        cache_dir: Where joined weights are kept.
        temperature: Of the sampling.
        max_tokens: Output limit of one call, in tokens.
        timeout: Limit of one call without the start of the server, in seconds.
    """
    from dualmem.local.client import make_chat  # noqa: PLC0415 - slow to import

    server = local_server(path, cache_dir)
    return make_chat(server, temperature=temperature, max_tokens=max_tokens, timeout=timeout)


def _exchange(process: subprocess.Popen[str], options: dict[str, Any]) -> dict[str, str]:
    """Send the options and wait for the report; an empty one means that the process died first."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
    try:
        process.stdin.write(json.dumps(options) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return {}
    line = process.stdout.readline()
    report: dict[str, str] = json.loads(line) if line.endswith("\n") else {}
    return report


def _failure(weights: Path, report: dict[str, str], detail: str) -> ConfigurationError:
    reason = detail or report.get("error", "") or "its process ended at once"
    if "No module named" in report.get("error", ""):
        return ModelNotConfigured(f"the server for local models is not installed ({reason}); {HOW_TO_INSTALL}")
    return ConfigurationError(f"the model {str(weights)!r} cannot be served: {reason}")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _environment() -> dict[str, str]:
    """Return the environment of the server's process.

    Threads of OpenMP spin while they wait for each other. With another busy process on the machine (the host
    program, embeddings) that made generation nine times slower than waiting passively; alone it gains little.
    """
    return {"OMP_WAIT_POLICY": "passive", **os.environ}


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
