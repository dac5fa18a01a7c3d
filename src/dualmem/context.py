"""What a node works with: the settings of its run, and the store and models they lead to.

A graph's run carries `Options`, or whatever the larger graph around it carries. This is the one place that
reads it. Nodes get a `Context` through LangGraph's runtime and never look further.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_origin

from langgraph.channels import BinaryOperatorAggregate
from langgraph.channels.base import BaseChannel
from langgraph.constants import START
from langgraph.pregel import NodeBuilder
from langgraph.runtime import Runtime

from dualmem.config import Options, Settings, load_settings
from dualmem.errors import ModelNotConfigured
from dualmem.models import make_chat, make_embedder
from dualmem.redaction import Redact, make_redact, redacted
from dualmem.stores.keys import key_of
from dualmem.stores.opening import open_backend
from dualmem.stores.store import Store

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

    from dualmem.chat import Chat
    from dualmem.embedding import Embedder
    from dualmem.stores.backend import Backend

S = TypeVar("S")


@dataclass
class Resources:
    """The live objects behind a memory, each made when it is first needed.

    Args:
        settings: What is in force where a run says nothing else.
        chat_model: A LangChain chat model, in place of the one `settings` names.
        embeddings: LangChain embeddings, in place of those `settings` names.
        backend: A vector database, in place of the one `settings` names.
        reranker: A document compressor that orders evidence where `rerank` is `compressor`, in place of the
            cross-encoder `settings` names.
        redact: What takes personal data out of texts, in place of what `settings` name.
    """

    settings: Settings
    chat_model: BaseChatModel | None = None
    embeddings: Embeddings | None = None
    backend: Backend | None = None
    reranker: BaseDocumentCompressor | None = None
    redact: Redact | None = None
    _chats: dict[tuple[Any, ...], Chat] = field(default_factory=dict, repr=False)
    _rerankers: dict[str, BaseDocumentCompressor] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding model."""
        return make_embedder(self.settings, self.embeddings)

    @cached_property
    def store(self) -> Store:
        """The store; not opened yet. Looking at it needs no embedding model."""
        try:
            embedder = self.embedder
        except ModelNotConfigured:
            embedder = None
        backend = self.backend or open_backend(self.settings)
        return Store(backend, embedder, lease_seconds=self.settings.lease_seconds, key=key_of(self.settings))

    def chat(self, settings: Settings) -> Chat:
        """Return the chat model that `settings` name; one is made once, since clients are costly."""
        key = (
            settings.chat_model,
            settings.temperature,
            settings.max_output_tokens,
            settings.call_timeout,
            settings.max_concurrency,
        )
        with self._lock:
            if key not in self._chats:
                self._chats[key] = make_chat(settings, self.chat_model)
            return self._chats[key]

    def make_reranker(self, settings: Settings) -> BaseDocumentCompressor:
        """Return the compressor that orders evidence; a cross-encoder is made once, since loading it is slow.

        Raises:
            ModelNotConfigured: There is none, and none is named.
        """
        if self.reranker is not None:
            return self.reranker
        if settings.rerank_model is None:
            message = (
                "no reranker is configured; set DUALMEM_RERANK_MODEL to a cross-encoder of fastembed, or give a "
                "LangChain document compressor as `reranker`"
            )
            raise ModelNotConfigured(message)
        with self._lock:
            if settings.rerank_model not in self._rerankers:
                from dualmem.retrieval.cross_encoder import CrossEncoder  # noqa: PLC0415 - only where it is used

                self._rerankers[settings.rerank_model] = CrossEncoder(
                    name=settings.rerank_model, cache_dir=settings.cache_dir
                )
            return self._rerankers[settings.rerank_model]

    @cached_property
    def _redact(self) -> Redact | None:
        return self.redact or make_redact(self.settings)

    async def redacted(self, texts: Sequence[str]) -> list[str]:
        """Return texts as they may be stored and shown to a model.

        Raises:
            ConfigurationError: What takes personal data out of them failed, or is not installed.
        """
        return await redacted(self._redact, texts)

    async def close(self) -> None:
        """Release the store."""
        if "store" in self.__dict__:
            await self.store.close()


@dataclass(frozen=True)
class Context:
    """The runtime context of every node."""

    settings: Settings
    resources: Resources

    @property
    def store(self) -> Store:
        """The store; not opened yet."""
        return self.resources.store

    @property
    def embedder(self) -> Embedder:
        """The embedding model."""
        return self.resources.embedder

    async def redacted(self, text: str) -> str:
        """Return a text as it may be stored and shown to a model.

        Raises:
            ConfigurationError: What takes personal data out of it failed, or is not installed.
        """
        return (await self.resources.redacted([text]))[0]

    @property
    def chat(self) -> Chat:
        """The chat model of this run."""
        return self.resources.chat(self.settings)


_shared: dict[str, Resources] = {}
_shared_lock = threading.Lock()


def shared_resources(settings: Settings | None = None) -> Resources:
    """Return the process's resources for what the environment configures, made once.

    Graphs that were built without live objects use these.
    """
    settings = settings or load_settings()
    key = repr((settings.store, settings.collection_prefix, settings.embedding_model, settings.base_url))
    with _shared_lock:
        if key not in _shared:
            _shared[key] = Resources(settings)
        return _shared[key]


def resolve(given: object, resources: Resources | None) -> Context:
    """Return the context for a run that carries `given`.

    Args:
        given: Our own context or options, a mapping, any object (a larger graph's context: of a mapping's or
            object's entries those named like options count), or None.
        resources: The live objects a graph was built with, or None for the process's own.

    Raises:
        ConfigurationError: An option has a value that it cannot have.
    """
    if isinstance(given, Context):
        return given
    resources = resources or shared_resources()
    if isinstance(given, Settings):
        return Context(given, resources)
    if isinstance(given, Options):
        return Context(resources.settings.override(given), resources)
    options = _options_in(given)
    return Context(resources.settings.override(options) if options else resources.settings, resources)


def _options_in(given: object) -> dict[str, Any]:
    """Return the options in a foreign context; a `dualmem` entry holds them all, else single ones count."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        inner = given.get("dualmem", given)
        entries = inner if isinstance(inner, Mapping) else getattr(inner, "__dict__", {})
    else:
        inner = getattr(given, "dualmem", given)
        entries = inner if isinstance(inner, Mapping) else getattr(inner, "__dict__", {})
    if isinstance(inner, Options):
        return inner.model_dump(exclude_unset=True)
    return {key: value for key, value in entries.items() if key in Options.model_fields and value is not None}


class Span(NamedTuple):
    """When a node ran, in seconds since the epoch."""

    step: str
    start: float
    end: float


def add(left: list[Any] | None, right: list[Any] | tuple[Any, ...] | None) -> list[Any]:
    """Join what parallel nodes collect; a tuple, which a run starts with, takes the place of what was there."""
    return list(right) if isinstance(right, tuple) else [*(left or []), *(right or [])]


Spans = Annotated[list[Span], add]


def wall_times(spans: list[Span]) -> dict[str, float]:
    """Return the wall time of each step, in seconds; parallel runs of one count from first to last."""
    steps: dict[str, tuple[float, float]] = {}
    for step, start, end in spans:
        first, last = steps.get(step, (start, end))
        steps[step] = (min(first, start), max(last, end))
    return {step: round(end - start, 4) for step, (start, end) in steps.items()}


Node = Callable[[Any, Runtime[Context]], Awaitable[S]]


def bound(node: Node[S], resources: Resources | None, *, step: str) -> Any:
    """Return `node` as LangGraph takes it: given its run's `Context`, and its time taken.

    Args:
        node: A node function.
        resources: Live objects of the graph, or None.
        step: Name under which the node's time is kept in the state's `spans`.
    """

    async def run(state: Any, runtime: Runtime[Any]) -> S:
        start = time.time()
        context = resolve(runtime.context, resources)
        update = await node(state, runtime.override(context=context))
        if isinstance(update, dict):
            update["spans"] = [*update.get("spans", []), Span(step, start, time.time())]
        return update

    run.__name__ = getattr(node, "__name__", step)
    return run


def afresh(graph: CompiledStateGraph[Any, Any, Any, Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return `graph`, changed so that each of its runs starts afresh.

    A checkpointer keeps the state of a thread, and LangGraph lays the next run's input over it: what that input
    leaves out (the scope of the last question) would still be there, and lists that nodes add to (calls, readings)
    would grow from run to run. Here the input sets every key of the state, to nothing where it does not name it.
    A run that was stopped and goes on has no input, and keeps its state.
    """
    builder = graph.builder
    taken = builder.schemas[builder.input_schema].keys()
    first = {
        key: _given_or_nothing(key if key in taken else "", channel)
        for key, channel in builder.schemas[builder.state_schema].items()
        if isinstance(channel, BaseChannel)
    }
    # What puts the input into the state is the first of the start's writers; the others are the edges that leave it.
    writers: list[Any] = NodeBuilder().subscribe_only(START).write_to(**first).build().writers
    (writer,) = writers
    writer.writes = tuple(writer.writes)  # as those that it is joined with
    graph.nodes[START].writers[0] = writer
    return graph


def _given_or_nothing(key: str, channel: BaseChannel[Any, Any, Any]) -> Callable[[Any], Any]:
    """Return what reads `key` in an input; what is not there is empty where its type can be, else None."""
    adds = isinstance(channel, BinaryOperatorAggregate)
    kind = get_origin(channel.ValueType) or channel.ValueType
    empty: Callable[[], Any] = kind if kind in {str, list, bool, int} else list if adds else lambda: None

    def read(given: Any) -> Any:
        value = given.get(key) if isinstance(given, Mapping) else getattr(given, key or "-", None)
        value = empty() if value is None else value
        return tuple(value) if adds else value

    return read
