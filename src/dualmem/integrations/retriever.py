"""Memory as a LangChain retriever, and as the vector store of langchain-qdrant for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from dualmem.cleaning import clean_user_id
from dualmem.errors import ConfigurationError, StoreError
from dualmem.integrations.blocking import wait_for
from dualmem.integrations.users import user_of_run
from dualmem.memory import DualMem
from dualmem.records import EvidenceItem, Scope
from dualmem.stores.encryption import EncryptedBackend
from dualmem.stores.payload import MEMORIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import models

    from dualmem.stores.qdrant import QdrantBackend


class MemoryRetriever(BaseRetriever):
    """A retriever over `DualMem.search`: all rankings fused, lifecycle expanded, no chat model called.

    A document is one piece of evidence: its text is the memory's, or the raw turn's that no memory came from. Its
    metadata names the `memory_id`, `source_turn_ids`, `status` (`current`, `superseded`, `conflicting`,
    `supporting`), `kind`, `known_at`, the `rankings` that led to it, and the `unit` of what belongs together.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: DualMem = Field(exclude=True, repr=False)
    user_id: str | None = None
    """Fixes the user; inside of a graph's or chain's run its own can stand, see
    `dualmem.integrations.users.user_of_run`."""
    k: int = Field(10, ge=1)
    """Most documents returned; `invoke(question, k=...)` changes it for a call."""
    scope: Scope | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings for the search."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class's own signature
        k: int | None = None,
    ) -> list[Document]:
        return wait_for(self._found(query, user_of_run(self.user_id), k or self.k))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - the interface's form
        k: int | None = None,
    ) -> list[Document]:
        return await self._found(query, user_of_run(self.user_id), k or self.k)

    async def _found(self, query: str, user_id: str, k: int) -> list[Document]:
        items = await self.memory.search(query, user_id=user_id, scope=self.scope, **self.options)
        return [_document(item) for item in items[:k]]


def _document(item: EvidenceItem) -> Document:
    metadata = item.model_dump(
        mode="json", include={"memory_id", "source_turn_ids", "status", "kind", "known_at", "rankings", "unit"}
    )
    return Document(item.text, id=item.memory_id or item.source_turn_ids[0], metadata=metadata)


def vector_store(memory: DualMem, *, user_id: str) -> QdrantVectorStore:
    """Return langchain-qdrant's vector store over one user's active memories, for reading.

    It ranks by the embedding alone and takes Qdrant's own filters over a memory's fields; `MemoryRetriever` finds
    more. Writing through it is refused, since it would wipe the other vectors and the lifecycle of a memory.

    Args:
        memory: A memory over a Qdrant server or `:memory:`, not over the embedded store.
        user_id: The user whose memories it sees, and no others.

    Raises:
        ConfigurationError: The memory is kept in the embedded store, or is encrypted.
        StoreError: There is no store yet.
    """
    from langchain_qdrant import QdrantVectorStore  # noqa: PLC0415 - slow to import

    from dualmem.stores.qdrant import QdrantBackend  # noqa: PLC0415 - the client is heavy

    backend = memory.resources.store._backend  # noqa: SLF001 - the adapter is of the same package
    if isinstance(backend, EncryptedBackend):
        message = "langchain-qdrant cannot read an encrypted store; use MemoryRetriever"
        raise ConfigurationError(message)
    if not isinstance(backend, QdrantBackend):
        message = (
            "langchain-qdrant needs a Qdrant server (DUALMEM_STORE=http://...) or ':memory:'; for the embedded store "
            "use MemoryRetriever"
        )
        raise ConfigurationError(message)
    if not wait_for(memory.resources.store.open(create=False)):
        message = "there is no store yet; remember something first"
        raise StoreError(message)
    client: Any = UserClient(backend, clean_user_id(user_id))
    return QdrantVectorStore(
        client,
        backend._name(MEMORIES),  # noqa: SLF001 - the adapter is of the same package
        _Embeddings(memory),
        vector_name="semantic",
        content_payload_key="text",
        # It would embed a text to see how large a vector is.
        validate_collection_config=False,
    )


class UserClient:
    """What QdrantVectorStore needs of a Qdrant client to read, kept to one user's active memories.

    Args:
        backend: The backend whose connections it uses.
        user_id: The user.
    """

    def __init__(self, backend: QdrantBackend, user_id: str) -> None:
        self._backend = backend
        self._user_id = user_id

    def query_points(self, *, query_filter: models.Filter | None = None, **query: Any) -> models.QueryResponse:
        """Query the user's active memories; a filter narrows them further."""
        from qdrant_client import models  # noqa: PLC0415 - heavy

        own = [
            models.FieldCondition(key="user_id", match=models.MatchValue(value=self._user_id)),
            models.FieldCondition(key="state", match=models.MatchValue(value="active")),
        ]
        must = [*own, query_filter] if query_filter is not None else own
        found: models.QueryResponse = self._ask("query_points", query_filter=models.Filter(must=must), **query)
        for point in found.points:
            point.payload = _payload(point.payload or {})
        return found

    def retrieve(self, collection_name: str, ids: Sequence[str | int], **options: Any) -> list[models.Record]:
        """Return the memories of these ids that are the user's and active."""
        found: list[models.Record] = self._ask("retrieve", collection_name=collection_name, ids=list(ids), **options)
        mine = []
        for record in found:
            payload = record.payload or {}
            if payload.get("user_id") == self._user_id and payload.get("state") == "active":
                record.payload = _payload(payload)
                mine.append(record)
        return mine

    def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """Return what the collection is like."""
        found: models.CollectionInfo = self._ask("get_collection", collection_name=collection_name)
        return found

    def upsert(self, *_: Any, **__: Any) -> None:
        """Refuse to write.

        Raises:
            StoreError: Always.
        """
        raise StoreError(_READING_ONLY)

    delete = upsert

    def _ask(self, what: str, **arguments: Any) -> Any:
        async def ask() -> Any:
            async with self._backend._session() as client:  # noqa: SLF001 - the adapter is of the same package
                return await getattr(client, what)(**arguments)

        return wait_for(ask())


_READING_ONLY = "this vector store is for reading; write with DualMem.remember and DualMem.forget"


def _payload(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a memory's payload as langchain-qdrant reads one: the text, and the rest as metadata."""
    return {"text": stored["text"], "metadata": {key: value for key, value in stored.items() if key != "text"}}


class _Embeddings(Embeddings):
    """The memory's own embedding model."""

    def __init__(self, memory: DualMem) -> None:
        self._embedder = memory.resources.embedder

    def embed_query(self, text: str) -> list[float]:
        return list(wait_for(self._embedder.query(text)))

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        # langchain-qdrant asks for one only to see how many numbers a vector has.
        return [list(vector) for vector in wait_for(self._embedder.documents(texts))]
