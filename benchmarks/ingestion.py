"""Measure how a conversation is remembered: model calls, calls in sequence, tokens and time, beside other libraries.

Usage: python benchmarks/ingestion.py LOCOMO_FILE [--sessions 4] [--latencies 0 0.2] [--repeats 1]
                                                       [--peers PYTHON]

Every library reads the same messages and asks the same stub server (stub_server.py), whose embeddings are warm after a
first round that is not reported. `--peers` names the Python of an environment with `peers.txt` installed. A JSON line
for each library, pattern and latency, with the medians of `--repeats` rounds, in each of which all have their turn.
`limit_s` is the number of calls in sequence times the latency: no ingestion that asks these calls in this order can
take less. `in_sequence_s` is what those calls took as the server saw it, and `ratio_to_calls` the time in relation to
that; `under_way_s` is how long any call was under way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stub_server import StubServer

from dualmem import DualMem, load_settings
from dualmem.loaders import load_file
from dualmem.records import Transcript

PEERS = ("mem0", "langmem per pair", "langmem per session", "simplemem")


def memory_at(url: str, store: Path, **options: Any) -> DualMem:
    """Return a memory whose models are the stub's."""
    models = {"chat_model": "openai:stub", "embedding_model": "openai:all-MiniLM-L6-v2", "base_url": url}
    return DualMem(load_settings(store=str(store), **models, **options))


def by_session(transcript: Transcript) -> list[Transcript]:
    """Return one transcript for each session, in order."""
    sessions = dict.fromkeys(message.session for message in transcript.messages)
    return [
        transcript.model_copy(
            update={"messages": tuple(message for message in transcript.messages if message.session == session)}
        )
        for session in sessions
    ]


async def remember(url: str, parts: list[Transcript], folder: Path) -> dict[str, Any]:
    """Remember the parts one after the other; return the seconds it took and how many memories came of it."""
    async with memory_at(url, folder / "store") as memory:
        # What opens the store and makes the clients is measured by startup.py.
        await memory.resources.chat(memory.settings).load()
        await memory.resources.embedder.dimension()
        await memory.resources.store.open(create=True)
        _ = memory.ingestion_graph
        started, computed = time.perf_counter(), time.process_time()
        receipts = [await memory.remember(part, user_id="ana") for part in parts]
        seconds, cpu = time.perf_counter() - started, time.process_time() - computed
    failures = [failure for receipt in receipts for failure in receipt.failures]
    assert not failures, failures
    assert not any(receipt.turns_pending for receipt in receipts)
    return {"seconds": seconds, "cpu": cpu, "memories": sum(receipt.memories_made for receipt in receipts)}


def remember_with_peer(options: argparse.Namespace, library: str, url: str, messages: Path) -> dict[str, Any]:
    """Let another library remember the messages, in its own environment."""
    script = Path(__file__).with_name("peers.py")
    command = [options.peers, str(script), "--library", library, "--url", url, "--messages", str(messages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{library}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def plain(parts: list[Transcript]) -> list[list[dict[str, str]]]:
    """Return the sessions as the other libraries take them: two speakers as user and assistant, names in front."""
    first = parts[0].messages[0].name
    return [
        [
            {
                "role": "user" if message.name == first else "assistant",
                "content": f"{message.name}: {' '.join(message.content.split())}",
            }
            for message in part.messages
        ]
        for part in parts
    ]


def middle(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the rounds of one library came to."""
    walls = [row["wall_s"] for row in rows]
    wall, cpu = statistics.median(walls), statistics.median(row["cpu_s"] for row in rows)
    limit = rows[0]["in_sequence"] * rows[0]["latency_s"]
    return {
        **rows[0],
        "rounds": len(rows),
        "wall_s": round(wall, 3),
        "fastest_s": round(min(walls), 3),
        "cpu_s": round(cpu, 3),
        "limit_s": round(limit, 3),
        "ratio": round(wall / limit, 2) if limit else None,
        "ratio_to_calls": round(wall / statistics.median(row["in_sequence_s"] for row in rows), 2) if limit else None,
    }


def measure(options: argparse.Namespace) -> None:
    """Measure every library at every latency and print."""
    (transcript, *_) = load_file(options.file, limit_sessions=options.sessions)
    parts = by_session(transcript)
    patterns = {"dualmem at once": [transcript], "dualmem per session": parts}
    # One event loop for all: langchain-openai keeps its connections, which belong to a loop, for the whole process.
    with (
        StubServer() as server,
        asyncio.Runner() as runner,
        tempfile.TemporaryDirectory(prefix="dualmem-ingestion-") as name,
    ):
        folder = Path(name)
        messages = folder / "messages.json"
        messages.write_text(json.dumps(plain(parts)), encoding="utf-8")

        def once(library: str, latency: float, number: int) -> dict[str, Any]:
            server.reset(latency)
            if library in patterns:
                place = folder / f"{library.replace(' ', '-')}-{latency}-{number}"
                found = runner.run(remember(server.url, patterns[library], place))
            else:
                found = remember_with_peer(options, library, server.url, messages)
            counted = server.summary()
            return {
                "library": library,
                "messages": len(transcript.messages),
                "memories": found["memories"],
                "wall_s": found["seconds"],
                "cpu_s": found["cpu"],
                **counted,
            }

        libraries = [*patterns, *(PEERS if options.peers else ())]
        for library in libraries:
            once(library, 0.0, -1)
        for latency in options.latencies:
            rounds = [[once(library, latency, number) for library in libraries] for number in range(options.repeats)]
            for rows in zip(*rounds, strict=True):
                print(json.dumps(middle(rows)), flush=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a conversation of LoCoMo")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.2], help="seconds of a model call")
    parser.add_argument("--repeats", type=int, default=1, help="rounds at each latency")
    parser.add_argument("--peers", help="Python of an environment with peers.txt installed")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
