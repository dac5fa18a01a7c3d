"""Making models from names."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from dualmem.config import load_settings
from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.local.server import SLOTS, LocalServer
from dualmem.models import chat_name, embedding_name, make_chat, make_embedder
from dualmem.testing import ScriptedChatModel, WordEmbeddings


def test_without_any_configuration_no_model_is_assumed() -> None:
    settings = load_settings()
    for name in (chat_name, embedding_name):
        with pytest.raises(ModelNotConfigured, match="three ways"):
            name(settings)


def test_a_key_of_openai_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings = load_settings()
    assert chat_name(settings).startswith("openai:")
    assert embedding_name(settings).startswith("openai:")


def test_a_server_of_ones_own_gets_no_name_that_it_may_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings = load_settings(base_url="http://127.0.0.1:8000/v1")
    with pytest.raises(ModelNotConfigured, match="DUALMEM_CHAT_MODEL"):
        chat_name(settings)


def test_a_local_chat_model_brings_local_embeddings_with_it() -> None:
    assert embedding_name(load_settings(chat_model="local:model.gguf")) == "local"


@pytest.mark.parametrize(("allowed", "at_once"), [(64, SLOTS), (1, 1)])
def test_a_local_model_gets_no_more_calls_at_once_than_it_has_slots(allowed: int, at_once: int) -> None:
    chat = make_chat(load_settings(chat_model="local", max_concurrency=allowed))
    assert chat._concurrency == at_once


async def test_a_local_model_is_started_before_its_call_and_not_in_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts: list[Path | None] = []

    def start(server: LocalServer) -> str:
        starts.append(server.path)
        message = "cannot be served"
        raise ConfigurationError(message)

    monkeypatch.setattr(LocalServer, "start", start)
    chat: Any = make_chat(load_settings(chat_model=f"local:{tmp_path}/other.gguf", cache_dir=str(tmp_path)))
    assert starts == []
    with pytest.raises(ConfigurationError, match="cannot be served"):
        await chat._ready()
    assert starts == [tmp_path / "other.gguf"]


def test_an_object_takes_the_place_of_a_name() -> None:
    model = ScriptedChatModel(script={})
    assert make_chat(load_settings(chat_model="local"), model).model is model
    embedder = make_embedder(load_settings(), WordEmbeddings(32))
    assert (embedder.name, embedder.known_dimension) == ("words", 32)


async def test_a_name_that_means_no_model_is_told_when_it_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="'large'"):
        make_embedder(load_settings(embedding_model="local:large"))
    with pytest.raises(ConfigurationError, match="'nowhere:embed-1'"):
        await make_embedder(load_settings(embedding_model="nowhere:embed-1")).query("?")
    with pytest.raises(ConfigurationError, match="'nowhere:chat-1'"):
        await make_chat(load_settings(chat_model="nowhere:chat-1")).load()


async def test_clients_are_made_once_and_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing a provider's library blocks for a second, and a client that is made twice loses replies."""
    threads: list[int] = []
    scripted = ScriptedChatModel(script={})

    def make(*_: Any) -> ScriptedChatModel:
        threads.append(threading.get_ident())
        return scripted

    monkeypatch.setattr("dualmem.models._chat_model", make)
    chat = make_chat(load_settings(chat_model="openai:any"))
    assert await asyncio.gather(*(chat.load() for _ in range(5))) == [scripted] * 5
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_embeddings_are_made_once_and_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def make(*_: Any) -> WordEmbeddings:
        threads.append(threading.get_ident())
        return WordEmbeddings()

    monkeypatch.setattr("dualmem.models._openai_embeddings", make)
    embedder = make_embedder(load_settings(base_url="http://127.0.0.1:9/v1", embedding_model="any"))
    await asyncio.gather(*(embedder.query(text) for text in "abcde"))
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
