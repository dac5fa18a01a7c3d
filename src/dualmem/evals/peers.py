"""Other memory libraries as baselines, where they are installed (extra `peers`): mem0 and LangMem.

Each takes in a conversation as its own documentation shows, through the chat and embedding model of the run. What it
finds for a question is answered through the prompt of the other baselines.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings

from dualmem.errors import ConfigurationError, DualmemError, ModelError
from dualmem.evals.run_files import Ingested, fingerprint, read_lines
from dualmem.evals.systems import Answered, answer_from
from dualmem.records import Message, ModelCall, Transcript, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import LLMResult

    from dualmem.context import Context
    from dualmem.embedding import Embedder
    from dualmem.evals.samples import Sample

SHOWN: Final = 20
"""Memories that a question is answered from: what mem0 returns when nothing else is said."""


class Library(Protocol):
    """Another library's memory of one conversation."""

    async def add(self, messages: Sequence[dict[str, str]]) -> None:
        """Take in some messages."""

    async def search(self, question: str) -> list[str]:
        """Return the texts of what it finds, best first."""

    async def keep(self) -> int:
        """Write what it holds to its folder, and return how many memories that are."""

    async def close(self) -> None:
        """Release its files."""


@dataclass
class Peer:
    """Another library as a system of a run.

    Args:
        context: Models and settings.
        kind: `mem0` or `langmem`.
        folder: Where it keeps what it remembers, each conversation apart.
    """

    context: Context
    kind: str
    folder: Path
    durable: bool = True
    _open: dict[str, tuple[Library, CallCounter]] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take_in(self, key: str, transcript: Transcript) -> Ingested:
        """Give the library a conversation in parts: mem0 pairs of messages, LangMem whole sessions.

        What is left of a time that was cut short goes first, since neither library knows what it was given before.

        Raises:
            ModelError: The library failed.
        """
        started = time.perf_counter()
        shutil.rmtree(self._folder(key), ignore_errors=True)
        library, calls = await self._library(key)
        parts = [[*group] for _, group in groupby(transcript.messages, key=lambda message: message.session)]
        if self.kind == "mem0":
            parts = [part[start : start + 2] for part in parts for start in range(0, len(part), 2)]
        try:
            for part in parts:
                await library.add([_as_given(message) for message in part])
            memories = await library.keep()
        except Exception as error:  # whatever the library raises
            raise self._failed(error) from error
        return Ingested(
            conversation=key,
            turns=len(transcript.messages),
            memories=memories,
            usage=Usage.of(calls.made),
            seconds=round(time.perf_counter() - started, 4),
        )

    async def answer(self, sample: Sample, transcript: Transcript) -> Answered:  # noqa: ARG002 - the protocol's
        """Answer from what the library finds; which messages that comes from, it does not say."""
        started = time.perf_counter()
        library, _ = await self._library(sample.conversation)
        try:
            found = await library.search(sample.question)
        except Exception as error:  # whatever the library raises
            raise self._failed(error) from error
        return await answer_from(self.context, sample, [f"- {text}" for text in found], started=started)

    async def close(self) -> None:
        """Close what was opened."""
        for library, _ in self._open.values():
            await library.close()
        self._open.clear()

    async def _library(self, key: str) -> tuple[Library, CallCounter]:
        # Several questions about a conversation are asked at once, and its files can be opened only once.
        async with self._opening:
            if key not in self._open:
                calls = CallCounter(self.kind)
                model = (await self.context.chat.load()).model_copy(update={"callbacks": [calls]})
                opened = Mem0.open if self.kind == "mem0" else LangMem.open
                folder = self._folder(key)
                folder.mkdir(parents=True, exist_ok=True)
                self._open[key] = (await opened(model, self.context.embedder, folder), calls)
            return self._open[key]

    def _folder(self, key: str) -> Path:
        return self.folder / fingerprint(key)

    def _failed(self, error: Exception) -> DualmemError:
        if isinstance(error, DualmemError):
            return error
        return ModelError(f"{self.kind} failed with {type(error).__name__}: {error}")


class Mem0:
    """mem0 with an embedded Qdrant, as its quickstart sets it up."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    @classmethod
    async def open(cls, model: BaseChatModel, embedder: Embedder, folder: Path) -> Mem0:
        """Open the memory in a folder."""
        # It reports to its maker and writes into the home folder, unless told otherwise before it is imported.
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
        made = await asyncio.to_thread(_import, "mem0")
        size = await embedder.dimension()
        config = {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": size, "on_disk": True},
            },
            "llm": {"provider": "langchain", "config": {"model": model}},
            "embedder": {
                "provider": "langchain",
                "config": {"model": SharedEmbeddings(embedder), "embedding_dims": size},
            },
            "history_db_path": str(folder / "history.db"),
        }
        return cls(await asyncio.to_thread(made.Memory.from_config, config))

    async def add(self, messages: Sequence[dict[str, str]]) -> None:
        """See `Library`."""
        await asyncio.to_thread(self._memory.add, list(messages), user_id="user")

    async def search(self, question: str) -> list[str]:
        """See `Library`."""
        found = await asyncio.to_thread(self._memory.search, question, filters={"user_id": "user"}, top_k=SHOWN)
        return [each["memory"] for each in found["results"]]

    async def keep(self) -> int:
        """See `Library`; it writes everything itself."""
        found = await asyncio.to_thread(self._memory.get_all, filters={"user_id": "user"}, top_k=100_000)
        return len(found["results"])

    async def close(self) -> None:
        """See `Library`."""
        self._memory.vector_store.client.close()
        self._memory.close()


class LangMem:
    """LangMem's store manager over LangGraph's in-memory store, which is written to a file to be there again."""

    _PLACE: Final = ("memories",)

    def __init__(self, manager: Any, store: Any, file: Path) -> None:
        self._manager = manager
        self._store = store
        self._file = file

    @classmethod
    async def open(cls, model: BaseChatModel, embedder: Embedder, folder: Path) -> LangMem:
        """Open the memory in a folder."""
        langmem = await asyncio.to_thread(_import, "langmem")
        stores = import_module("langgraph.store.memory")
        size = await embedder.dimension()
        store = stores.InMemoryStore(index={"dims": size, "embed": SharedEmbeddings(embedder)})
        opened = cls(
            langmem.create_memory_store_manager(model, namespace=cls._PLACE, store=store),
            store,
            folder / "memories.jsonl",
        )
        for line in read_lines(opened._file):
            await store.aput(cls._PLACE, line["key"], line["value"])
        return opened

    async def add(self, messages: Sequence[dict[str, str]]) -> None:
        """See `Library`."""
        await self._manager.ainvoke({"messages": list(messages)})

    async def search(self, question: str) -> list[str]:
        """See `Library`."""
        found = await self._store.asearch(self._PLACE, query=question, limit=SHOWN)
        return [str(each.value["content"]["content"]) for each in found]

    async def keep(self) -> int:
        """See `Library`."""
        held = await self._store.asearch(self._PLACE, limit=100_000)
        lines = [json.dumps({"key": each.key, "value": each.value}, ensure_ascii=False) + "\n" for each in held]
        self._file.write_text("".join(lines), "utf-8")
        return len(held)

    async def close(self) -> None:
        """See `Library`; there is nothing to release."""


class CallCounter(BaseCallbackHandler):
    """Counts what a library asks of its chat model."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.made: list[ModelCall] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Take the tokens of a reply down."""
        message = getattr(response.generations[0][0], "message", None)
        used = getattr(message, "usage_metadata", None) or {}
        self.made.append(
            ModelCall(step=self._step, tokens_in=used.get("input_tokens", 0), tokens_out=used.get("output_tokens", 0))
        )


class SharedEmbeddings(Embeddings):
    """The run's embedding model for a library that asks from a thread of its own, or from the event loop."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loop = asyncio.get_running_loop()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """See `Embeddings`; to be called outside of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.aembed_documents(texts), self._loop).result()

    def embed_query(self, text: str) -> list[float]:
        """See `Embeddings`; to be called outside of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.aembed_query(text), self._loop).result()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """See `Embeddings`."""
        return [list(vector) for vector in await self._embedder.documents(texts)]

    async def aembed_query(self, text: str) -> list[float]:
        """See `Embeddings`."""
        return list(await self._embedder.query(text))


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        message = f'the baseline {name!r} is not installed ({error}); install it with: pip install "dualmem[peers]"'
        raise ConfigurationError(message) from error


def _as_given(message: Message) -> dict[str, str]:
    """Return a message as these libraries take it; neither has a place for the speaker's name and the time."""
    said = f"{message.timestamp:%d %B %Y}, " if message.timestamp else ""
    role = message.role if message.role in {"user", "assistant"} else "user"
    return {"role": role, "content": f"{said}{message.name or message.role}: {message.content}"}
