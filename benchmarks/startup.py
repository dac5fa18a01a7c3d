"""Measure what it takes to begin: imports, and a new process until its first answer.

Usage: python benchmarks/startup.py [--repeats 5] [--peers PYTHON]

Each figure is the median of new processes, taken in turns so that load on the machine meets all alike. An import is
timed inside of its process, from before it until after; `cpu_s` is what the process computed meanwhile. The first
answer is timed from the start of the process: Python, imports, settings, a store on disk with 300 memories, the
embedding call and two model calls on a stub server (stub_server.py) without delay. Prints JSON for each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stub_server import StubServer

IMPORT = """
import time
{before}
started, computed = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - started, time.process_time() - computed)
"""

OURS = {
    "langgraph.graph": "import langgraph.graph",
    "langgraph.graph and langchain_openai": "import langgraph.graph, langchain_openai",
    "dualmem": "import dualmem",
    "dualmem.DualMem": "from dualmem import DualMem",
    "langgraph.graph, then dualmem.DualMem": "import langgraph.graph\nfrom dualmem import DualMem",
}
AFTER_LANGGRAPH = "dualmem.DualMem after langgraph.graph"
PEERS = {"mem0.Memory": "from mem0 import Memory", "langmem": "from langmem import create_memory_store_manager"}

FIRST_ANSWER = """
import asyncio, sys
from dualmem import DualMem, load_settings

async def main():
    url, store = sys.argv[1:]
    models = dict(chat_model="openai:stub", embedding_model="openai:all-MiniLM-L6-v2", base_url=url)
    async with DualMem(load_settings(store=store, **models)) as memory:
        found = await memory.recall("Which street did Ana visit on day 7?", user_id="ana")
    assert found.outcome == "answered", found

asyncio.run(main())
"""


def run(python: str, code: str, *arguments: str) -> list[float]:
    """Return the seconds the code took as a process, and the numbers it printed."""
    started = time.perf_counter()
    command = [python, "-c", code, *arguments]
    # Modules are compiled once, as where they are installed, and not in each process.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return [seconds, *map(float, done.stdout.split())]


async def remember(url: str, store: Path) -> None:
    """Fill a store with 300 memories of one user."""
    from dualmem import DualMem, load_settings

    models = {"chat_model": "openai:stub", "embedding_model": "openai:all-MiniLM-L6-v2", "base_url": url}
    messages = [
        {"role": "user", "name": "Ana", "content": f"On day {number} Ana visited street {number * 7}."}
        for number in range(300)
    ]
    async with DualMem(load_settings(store=str(store), strategy="verbatim", **models)) as memory:
        receipt = await memory.remember(messages, user_id="ana")
    assert receipt.memories_made == len(messages)


def measure(options: argparse.Namespace) -> None:
    """Measure in turns and print medians."""
    ours = {name: (sys.executable, code) for name, code in OURS.items()}
    peers = {name: (options.peers, code) for name, code in PEERS.items()} if options.peers else {}
    imports = {**ours, AFTER_LANGGRAPH: (sys.executable, OURS["dualmem.DualMem"]), **peers}
    times: dict[str, list[list[float]]] = {name: [] for name in (*imports, "first answer", "python alone")}
    with StubServer() as server, tempfile.TemporaryDirectory(prefix="dualmem-startup-") as folder:
        store = Path(folder) / "store"
        asyncio.run(remember(server.url, store))
        for number in range(options.repeats + 1):  # the first fills the file cache, and is not counted
            for name, (python, code) in imports.items():
                before = "import langgraph.graph" if name == AFTER_LANGGRAPH else ""
                found = run(python, IMPORT.format(before=before, statement=code))[1:]
                times[name] += [found] if number else []
            answer = run(sys.executable, FIRST_ANSWER, server.url, str(store))
            alone = run(sys.executable, "pass")
            times["first answer"] += [answer] if number else []
            times["python alone"] += [alone] if number else []
    for name, rows in times.items():
        row: dict[str, Any] = {"measured": f"import {name}" if name in imports else name, "repeats": len(rows)}
        row["wall_s"] = round(statistics.median(one[0] for one in rows), 3)
        row["fastest_s"] = round(min(one[0] for one in rows), 3)
        if name in imports:
            row["cpu_s"] = round(statistics.median(one[1] for one in rows), 3)
        print(json.dumps(row))


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", help="Python of an environment with peers.txt installed")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
