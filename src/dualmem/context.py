"""What a node works with: the settings of its run, and the store and models they lead to.

A graph's run carries `Options`, or whatever the larger graph around it carries. This is the one place that
reads it. Nodes get a `Context` through LangGraph's runtime and never look further.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from langgraph.runtime import Runtime

from dualmem.config import Options, Settings, load_settings
from dualmem.errors import ModelNotConfigured
from dualmem.models import make_chat, make_embedder
from dualmem.stores.store import Store, open_backend

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

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
    """

    settings: Settings
    chat_model: BaseChatModel | None = None
    embeddings: Embeddings | None = None
    backend: Backend | None = None
    _chats: dict[tuple[Any, ...], Chat] = field(default_factory=dict, repr=False)
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
        return Store(self.backend or open_backend(self.settings), embedder)

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


def add(left: list[Any] | None, right: list[Any] | None) -> list[Any]:
    """Join what parallel nodes collect."""
    return [*(left or []), *(right or [])]


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
