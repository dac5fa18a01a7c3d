"""A server is started when needed, once, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.local import server as module
from dualmem.local.server import SLOT_CONTEXT, SLOTS, LocalServer, local_server

if TYPE_CHECKING:
    from collections.abc import Callable

    Events = Callable[[], list[dict[str, Any]]]
    Make = Callable[..., LocalServer]


def pid(server: LocalServer) -> int:
    assert server._process is not None
    return server._process.pid


def gone(process: int) -> bool:
    """Wait until there is no such process, and give up after a minute."""
    for _ in range(600):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_nothing_is_started_before_it_is_needed(make_server: Make, events: Events) -> None:
    server = make_server()
    assert not server.running
    assert events() == []


def test_a_server_is_started_once(make_server: Make, events: Events) -> None:
    server = make_server()
    base_url = server.start()
    assert base_url == f"{server.address}/v1"
    assert server.address.startswith("http://127.0.0.1:")
    assert server.start() == base_url
    assert [event["started"] for event in events()] == [pid(server)]


def test_threads_that_start_it_together_get_the_same(make_server: Make, events: Events) -> None:
    server = make_server()
    with ThreadPoolExecutor(8) as pool:
        urls = set(pool.map(lambda _: server.start(), range(8)))
    assert len(urls) == 1
    assert len(events()) == 1


def test_the_process_is_told_what_to_serve(make_server: Make, events: Events, gguf: Path) -> None:
    server = make_server()
    server.start()
    options = events()[0]["options"]
    assert options["model"] == str(gguf)
    assert options["name"] == server.model_name == "tiny"
    assert options["key"] == server.key
    assert options["context"] == SLOTS * SLOT_CONTEXT
    assert 1 <= options["threads"] <= 8


def test_keys_are_not_shared(make_server: Make) -> None:
    assert make_server().key != make_server().key


def test_a_closed_server_leaves_and_can_be_started_again(make_server: Make) -> None:
    server = make_server()
    server.start()
    first = pid(server)
    server.close()
    server.close()
    assert not server.running
    assert gone(first)
    server.start()
    assert server.running
    assert pid(server) != first


def test_a_server_that_died_is_started_again(make_server: Make, events: Events) -> None:
    server = make_server()
    server.start()
    assert server._process is not None
    server._process.kill()
    server._process.wait()
    assert not server.running
    server.start()
    assert server.running
    assert len(events()) == 2


def test_a_server_that_does_not_leave_is_killed(make_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GOODBYE", 0.1)
    server = make_server(
        'import sys, time\nsys.stdin.readline()\nprint(\'{"address": "x"}\', flush=True)\ntime.sleep(600)'
    )
    server.start()
    stubborn = pid(server)
    server.close()
    assert gone(stubborn)


def test_the_reason_of_a_failure_is_told(make_server: Make, gguf: Path) -> None:
    server = make_server(
        "import sys\nsys.stdin.readline()\nsys.stderr.write('first\\nE load_model: unknown architecture\\n\\n')\n"
        'print(\'{"error": "Failed to init server"}\')'
    )
    with pytest.raises(ConfigurationError, match=f"'{gguf}' cannot be served: E load_model: unknown architecture"):
        server.start()
    assert not server.running


@pytest.mark.parametrize("source", ["", "import sys\nsys.stdin.readline()\nsys.exit(1)"])
def test_a_process_that_ends_at_once_is_a_failure(make_server: Make, source: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be served: its process ended at once"):
        make_server(source).start()


def test_a_missing_binding_says_what_to_install(make_server: Make) -> None:
    source = "import sys\nsys.stdin.readline()\nprint('{\"error\": \"No module named \\'xllamacpp\\'\"}')"
    with pytest.raises(ModelNotConfigured, match=r"xllamacpp.*dualmem\[local\]"):
        make_server(source).start()


def test_no_process_is_started_for_a_file_that_is_no_model(make_server: Make, tmp_path: Path) -> None:
    server = make_server(path=tmp_path / "missing.gguf")
    with pytest.raises(ConfigurationError, match=r"missing\.gguf.*No such file"):
        server.start()
    assert server._process is None


def test_a_fork_leaves_the_server_to_its_parent(make_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server()
    server.start()
    process = server._process
    with monkeypatch.context() as fork:
        fork.setattr(server, "_owner", os.getpid() + 1)
        server.close()
    assert process is not None
    assert process.poll() is None
    server._process = process


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal that Windows does not have")
def test_a_killed_parent_takes_the_server_with_it(make_server: Make, gguf: Path, tmp_path: Path) -> None:
    program = make_server()._program
    source = (
        "import sys\nfrom pathlib import Path\nfrom dualmem.local.server import LocalServer\n"
        f"server = LocalServer(Path({str(gguf)!r}), Path({str(tmp_path)!r}), program=Path({str(program)!r}))\n"
        "server.start()\nprint(server._process.pid, flush=True)\nsys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    served = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    assert gone(served)


def test_one_server_for_a_model_in_a_process(tmp_path: Path) -> None:
    first = local_server(tmp_path / "a.gguf", tmp_path)
    assert local_server(tmp_path / "a.gguf", tmp_path) is first
    assert local_server(tmp_path / "b.gguf", tmp_path) is not first
    assert not first.running


def test_waiting_threads_do_not_spin_unless_the_user_wants_them_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert module._environment()["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert module._environment()["OMP_WAIT_POLICY"] == "active"
