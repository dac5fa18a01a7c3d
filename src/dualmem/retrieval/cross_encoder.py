"""A cross-encoder of fastembed as LangChain's document compressor (extra `rerank`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from dualmem.errors import ConfigurationError

if TYPE_CHECKING:
    from langchain_core.callbacks import Callbacks


class CrossEncoder(BaseDocumentCompressor):
    """Scores each document together with the question, on this machine (ONNX).

    Attributes:
        name: A model that fastembed knows, such as `Xenova/ms-marco-MiniLM-L-6-v2`.
        cache_dir: Where its files are kept; they are downloaded once.
    """

    model_config = ConfigDict(frozen=False, ignored_types=(cached_property,))

    name: str
    cache_dir: str | None = None

    @cached_property
    def _model(self) -> Any:
        try:
            # Heavy, and an extra.
            made = import_module("fastembed.rerank.cross_encoder").TextCrossEncoder
        except ImportError as error:
            message = 'a cross-encoder needs fastembed; install "dualmem[rerank]"'
            raise ConfigurationError(message) from error
        try:
            return made(self.name, cache_dir=self.cache_dir)
        except ValueError as error:
            message = f"the cross-encoder {self.name!r} cannot be made: {error}"
            raise ConfigurationError(message) from error

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - the interface's own
    ) -> Sequence[Document]:
        """Return all documents, the most relevant first, each with its `relevance_score`.

        Raises:
            ConfigurationError: fastembed is not installed, or knows no such model.
        """
        scores = [float(score) for score in self._model.rerank(query, [each.page_content for each in documents])]
        order = sorted(range(len(documents)), key=lambda place: (-scores[place], place))
        return [
            Document(
                documents[place].page_content,
                metadata={**documents[place].metadata, "relevance_score": scores[place]},
            )
            for place in order
        ]
