"""Make chat models and embeddings from names; their libraries are imported only when one is made."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dualmem.chat import Chat, is_openai
from dualmem.config import is_local
from dualmem.embedding import Embedder
from dualmem.errors import ConfigurationError, ModelNotConfigured

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    from dualmem.config import Settings

M = TypeVar("M")

HOW_TO_CONFIGURE = (
    "no {what} is configured; there are three ways: set OPENAI_API_KEY for OpenAI, set DUALMEM_BASE_URL and "
    'DUALMEM_{variable} for a server that speaks its protocol, or install "dualmem[local]" and set '
    "DUALMEM_{variable}=local for the embedded model"
)
DEFAULT_CHAT = "openai:gpt-4o-mini"
DEFAULT_EMBEDDING = "openai:text-embedding-3-small"
_OPENAI_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


def chat_name(settings: Settings) -> str:
    """Return the name of the chat model in force.

    Raises:
        ModelNotConfigured: None is set, and none can be assumed.
    """
    if settings.chat_model:
        return settings.chat_model
    if os.environ.get("OPENAI_API_KEY") and not settings.base_url:
        return DEFAULT_CHAT
    raise ModelNotConfigured(HOW_TO_CONFIGURE.format(what="chat model", variable="CHAT_MODEL"))


def embedding_name(settings: Settings) -> str:
    """Return the name of the embedding model in force; a local chat model brings local embeddings with it.

    Raises:
        ModelNotConfigured: None is set, and none can be assumed.
    """
    if settings.embedding_model:
        return settings.embedding_model
    if settings.chat_model is not None and settings.chat_model.partition(":")[0] == "local":
        return "local"
    if os.environ.get("OPENAI_API_KEY") and not settings.base_url:
        return DEFAULT_EMBEDDING
    raise ModelNotConfigured(HOW_TO_CONFIGURE.format(what="embedding model", variable="EMBEDDING_MODEL"))


def make_chat(settings: Settings, model: BaseChatModel | None = None) -> Chat:
    """Return the chat model in force, with its limits; `model` takes the place of the one named.

    It is made when it is first asked; that its name means nothing, or its package is not installed, is raised then.

    Raises:
        ModelNotConfigured: None is set.
    """
    if model is not None:
        limits: dict[str, Any] = {"timeout": settings.call_timeout, "concurrency": settings.max_concurrency}
        return Chat(make=partial(_apart, model), **limits) if is_openai(model) else Chat(model, **limits)
    name = chat_name(settings)
    if is_local(name):
        return _local_chat(name, settings)
    return Chat(
        make=lambda: _apart(_chat_model(name, settings)),
        timeout=settings.call_timeout,
        concurrency=settings.max_concurrency,
        max_output_tokens=settings.max_output_tokens,
    )


def _local_chat(name: str, settings: Settings) -> Chat:
    from dualmem.local.server import SLOTS, local_chat_model, local_server  # noqa: PLC0415 - only where it is used

    _, _, file = name.partition(":")
    path = Path(file).expanduser() if file else None
    cache_dir = Path(settings.cache_dir).expanduser()
    server = local_server(path, cache_dir)

    async def ready() -> None:
        if not server.running:
            await asyncio.to_thread(server.start)

    return Chat(
        make=partial(
            local_chat_model,
            path,
            cache_dir=cache_dir,
            temperature=settings.temperature,
            max_tokens=settings.max_output_tokens,
            timeout=settings.call_timeout,
        ),
        timeout=settings.call_timeout,
        # A call that waits for a slot of the server would wait in its own time.
        concurrency=min(settings.max_concurrency, SLOTS),
        max_output_tokens=settings.max_output_tokens,
        ready=ready,
    )


def _chat_model(name: str, settings: Settings) -> BaseChatModel:
    provider, _, rest = name.partition(":")
    if provider == "openai" or settings.base_url:
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 - slow to import
        from pydantic import SecretStr  # noqa: PLC0415 - slow to import

        return ChatOpenAI(
            model=rest if provider == "openai" else name,
            base_url=settings.base_url,
            api_key=SecretStr(_openai_key(settings)),
            temperature=settings.temperature,
            timeout=settings.call_timeout,
            max_retries=4,
        )
    try:
        init = import_module("langchain.chat_models").init_chat_model
        made: BaseChatModel = init(name, temperature=settings.temperature, timeout=settings.call_timeout)
    except (ImportError, ValueError) as error:
        message = (
            f"the chat model {name!r} cannot be made: {error}; names other than `openai:` and `local` need the "
            f"packages `langchain` and the provider's own"
        )
        raise ConfigurationError(message) from error
    return made


def make_embedder(settings: Settings, embeddings: Embeddings | None = None, *, name: str | None = None) -> Embedder:
    """Return the embedding model in force; `embeddings` takes the place of the one named.

    One that is not local is made when it is first asked; that its name means nothing is raised then.

    Raises:
        ModelNotConfigured: None is set.
        ConfigurationError: No local model has that name.
    """
    if embeddings is not None:
        known = name or settings.embedding_model or _own_name(embeddings)
        dimension = getattr(embeddings, "dimension", None)
        size = dimension if isinstance(dimension, int) else None
        if is_openai(embeddings):
            return Embedder(make=partial(_apart, embeddings), name=known, dimension=size)
        return Embedder(embeddings, name=known, dimension=size)
    name = embedding_name(settings)
    provider, _, rest = name.partition(":")
    if provider == "local":
        from dualmem.local.embeddings import local_embeddings  # noqa: PLC0415 - needs the extra `local`

        if rest not in {"", "minilm", "multilingual"}:
            message = f"no local embedding model is named {rest!r}; there are 'minilm' and 'multilingual'"
            raise ConfigurationError(message)
        local = local_embeddings("multilingual" if rest == "multilingual" else "minilm")
        return Embedder(local, name=local.model_name, dimension=local.dimension)
    if provider == "openai" or settings.base_url:
        model = rest if provider == "openai" else name
        key = _openai_key(settings)
        return Embedder(
            make=lambda: _apart(_openai_embeddings(model, key, settings)),
            name=model,
            dimension=_OPENAI_DIMENSIONS.get(model),
        )
    return Embedder(make=lambda: _apart(_other_embeddings(name)), name=name)


def _apart(model: M) -> M:
    """Return a model of langchain-openai with connections of its own for each event loop, another as it is."""
    if not is_openai(model):
        return model
    from dualmem.connections import per_loop  # noqa: PLC0415 - slow to import

    return per_loop(model)


def _openai_embeddings(model: str, key: str, settings: Settings) -> Embeddings:
    from langchain_openai import OpenAIEmbeddings  # noqa: PLC0415 - slow to import
    from pydantic import SecretStr  # noqa: PLC0415 - slow to import

    return OpenAIEmbeddings(
        model=model,
        openai_api_base=settings.base_url,
        openai_api_key=SecretStr(key),
        # Other servers take texts, not OpenAI's token numbers.
        check_embedding_ctx_length=settings.base_url is None,
        request_timeout=settings.call_timeout,
        max_retries=4,
    )


def _other_embeddings(name: str) -> Embeddings:
    try:
        made: Embeddings = import_module("langchain.embeddings").init_embeddings(name)
    except (ImportError, ValueError) as error:
        message = f"the embedding model {name!r} cannot be made: {error}"
        raise ConfigurationError(message) from error
    return made


def _openai_key(settings: Settings) -> str:
    """Return the key; a server of one's own often wants none, but the client wants some text."""
    key = os.environ.get("OPENAI_API_KEY", "")
    if not key and settings.base_url is None:
        raise ModelNotConfigured(HOW_TO_CONFIGURE.format(what="chat model", variable="CHAT_MODEL"))
    return key or "not-needed"


def _own_name(embeddings: Embeddings) -> str:
    for attribute in ("model_name", "model"):
        value = getattr(embeddings, attribute, None)
        if isinstance(value, str) and value:
            return value
    return type(embeddings).__name__
