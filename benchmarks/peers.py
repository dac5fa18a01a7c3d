"""Remember messages with another library, in its own environment (peers.txt); ingestion.py starts it.

Usage: PYTHON benchmarks/peers.py --library mem0 --url URL --messages FILE

Every library is used as its own documentation shows: mem0 is given pairs of messages and keeps an embedded Qdrant;
LangMem's store manager is given pairs or sessions and keeps LangGraph's in-memory store. Building them and one first
call of the embedding model are not in the time. Prints JSON: seconds, seconds of computing, and memories stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

Sessions = list[list[dict[str, str]]]

USER = "ana"
DIMENSION = 384


def pairs(sessions: Sessions) -> Sessions:
    """Return the messages of each session two by two."""
    return [session[start : start + 2] for session in sessions for start in range(0, len(session), 2)]


def with_mem0(url: str, sessions: Sessions, folder: Path) -> dict[str, Any]:
    """Remember with mem0."""
    # It writes settings into its folder and reports to its maker, unless told otherwise before it is imported.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory

    model = {"api_key": "none", "openai_base_url": url}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSION, "on_disk": True},
            },
            "llm": {"provider": "openai", "config": {"model": "stub", **model}},
            "embedder": {
                "provider": "openai",
                "config": {"model": "all-MiniLM-L6-v2", "embedding_dims": DIMENSION, **model},
            },
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model.embed("size", "add")
    started, computed = time.perf_counter(), time.process_time()
    for pair in pairs(sessions):
        memory.add(pair, user_id=USER)
    seconds, cpu = time.perf_counter() - started, time.process_time() - computed
    stored = memory.get_all(filters={"user_id": USER}, top_k=10_000)["results"]
    return {"seconds": seconds, "cpu": cpu, "memories": len(stored)}


async def with_langmem(url: str, parts: Sessions) -> dict[str, Any]:
    """Remember with LangMem, one call of its manager for each part."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    from langgraph.store.memory import InMemoryStore
    from langmem import create_memory_store_manager

    embeddings = OpenAIEmbeddings(
        model="all-MiniLM-L6-v2", base_url=url, api_key="none", check_embedding_ctx_length=False
    )
    store = InMemoryStore(index={"dims": DIMENSION, "embed": embeddings})
    model = ChatOpenAI(model="stub", base_url=url, api_key="none")
    manager = create_memory_store_manager(model, namespace=("memories", USER), store=store)
    await embeddings.aembed_query("size")
    started, computed = time.perf_counter(), time.process_time()
    for part in parts:
        await manager.ainvoke({"messages": part})
    seconds, cpu = time.perf_counter() - started, time.process_time() - computed
    return {"seconds": seconds, "cpu": cpu, "memories": len(store.search(("memories", USER), limit=10_000))}


def main() -> None:
    """Read the options, remember, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=("mem0", "langmem per pair", "langmem per session"), required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=Path, required=True)
    options = parser.parse_args()
    sessions: Sessions = json.loads(options.messages.read_text(encoding="utf-8"))
    if options.library == "mem0":
        with tempfile.TemporaryDirectory(prefix="peer-") as folder:
            found = with_mem0(options.url, sessions, Path(folder))
    else:
        parts = pairs(sessions) if options.library == "langmem per pair" else sessions
        found = asyncio.run(with_langmem(options.url, parts))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
