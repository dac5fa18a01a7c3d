"""The program of the server's process: load one model and serve it until standard input ends.

It is run as a file and imports nothing of dualmem, so that it starts at once. Its first line of input holds
the options as JSON; its only line of output is `{"address": ...}` or `{"error": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve, and leave when the parent closes the pipe or is gone."""
    # Ctrl-C goes to every process of the terminal; it is the parent that decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = json.loads(sys.stdin.readline())
    # llama.cpp prints where it likes; only the report may reach the parent's pipe.
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        server = start(options)
    except (ImportError, RuntimeError) as error:
        report.write(json.dumps({"error": str(error)}) + "\n")
        report.close()
        sys.exit(1)
    report.write(json.dumps({"address": server.listening_address}) + "\n")
    report.close()
    sys.stdin.read()
    # The server's destructor waits for replies that nobody reads any more, and holds the interpreter meanwhile.
    os._exit(0)


def start(options: dict[str, Any]) -> Any:
    """Load the model and listen.

    Raises:
        ImportError: `xllamacpp` is not installed.
        RuntimeError: The model cannot be loaded, or the port cannot be opened.
    """
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.model_alias = {options["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [options["key"]]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = options["context"]
    params.n_parallel = options["slots"]
    params.cpuparams.n_threads = options["threads"]
    params.cpuparams_batch.n_threads = options["threads"]
    params.cache_ram_mib = options["cache_mib"]
    # The repacked copy of the weights costs 600 MB and made reading prompts no faster where it was measured.
    params.no_extra_bufts = True
    params.warmup = False
    # Errors only: they say why a model could not be loaded.
    params.verbosity = 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
