"""Remember messages with another library, in its own environment (peers.txt); ingestion.py starts it.

Usage: PYTHON benchmarks/peers.py --library mem0 --url URL --messages FILE

Every library is used as its own documentation shows: mem0 is given pairs of messages and keeps an embedded Qdrant;
LangMem's store manager is given pairs or sessions and keeps LangGraph's in-memory store; SimpleMem is given all
messages at once and keeps LanceDB. Its parts are put together here as its `SimpleMemSystem` does, since that loads an
embedding model with PyTorch. Building them and one first call of the embedding model are not in the time. Prints JSON:
seconds, seconds of computing, and memories stored.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
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


class ServedVectors:
    """Embeddings of the server, in the form that SimpleMem asks for."""

    dimension = DIMENSION

    def __init__(self, url: str) -> None:
        from openai import OpenAI

        self._client = OpenAI(base_url=url, api_key="none")

    def encode_documents(self, texts: list[str]) -> Any:
        """Return an array of vectors."""
        import numpy as np

        found = self._client.embeddings.create(model="all-MiniLM-L6-v2", input=texts)
        return np.array([one.embedding for one in found.data], np.float32)


def with_simplemem(url: str, sessions: Sessions, folder: Path) -> dict[str, Any]:
    """Remember with SimpleMem, all messages in one call."""
    from simplemem.core.memory_builder import MemoryBuilder
    from simplemem.database.vector_store import VectorStore
    from simplemem.models.memory_entry import Dialogue
    from simplemem.utils.llm_client import LLMClient

    vectors = ServedVectors(url)
    store = VectorStore(db_path=str(folder / "lancedb"), embedding_model=vectors)
    model = LLMClient(api_key="none", model="stub", base_url=url, use_streaming=False)
    builder = MemoryBuilder(model, store)
    spoken = [message["content"].partition(": ") for session in sessions for message in session]
    dialogues = [
        Dialogue(dialogue_id=number, speaker=speaker, content=text)
        for number, (speaker, _, text) in enumerate(spoken, 1)
    ]
    vectors.encode_documents(["size"])
    started, computed = time.perf_counter(), time.process_time()
    builder.add_dialogues(dialogues)
    builder.process_remaining()
    seconds, cpu = time.perf_counter() - started, time.process_time() - computed
    return {"seconds": seconds, "cpu": cpu, "memories": store.table.count_rows()}


IN_FOLDER = {"mem0": with_mem0, "simplemem": with_simplemem}


def main() -> None:
    """Read the options, remember, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=(*IN_FOLDER, "langmem per pair", "langmem per session"), required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=Path, required=True)
    options = parser.parse_args()
    sessions: Sessions = json.loads(options.messages.read_text(encoding="utf-8"))
    if options.library in IN_FOLDER:
        # SimpleMem prints what it does.
        with tempfile.TemporaryDirectory(prefix="peer-") as folder, contextlib.redirect_stdout(sys.stderr):
            found = IN_FOLDER[options.library](options.url, sessions, Path(folder))
    else:
        parts = pairs(sessions) if options.library == "langmem per pair" else sessions
        found = asyncio.run(with_langmem(options.url, parts))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
