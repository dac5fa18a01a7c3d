"""Memory as a retriever and as a vector store for reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests
from qdrant_client import models

from dualmem import DualMem
from dualmem.errors import ConfigurationError, InvalidUser, StoreError
from dualmem.integrations.retriever import MemoryRetriever, vector_store
from dualmem.records import Scope
from dualmem.testing import WordEmbeddings

LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.", "Ana: Ana plays the cello.", "Ana: Ana likes figs.")


class TestMemoryRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    async def _filled(self, talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
        self._memory = talking()
        await self._memory.remember(chat_of(*LINES), user_id="ana")

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self._memory, "user_id": "ana"}

    @property
    def retriever_query_example(self) -> str:
        return "Where does Ana live?"


async def test_a_document_says_what_it_is_and_where_it_comes_from(
    talking: Callable[..., DualMem], chat_of: Callable[..., Any]
) -> None:
    memory = talking()
    await memory.remember(chat_of(*LINES), user_id="ana")
    chain = RunnableLambda(MemoryRetriever(memory=memory).ainvoke)
    found = await chain.ainvoke("lives in", {"configurable": {"user_id": "ana"}})
    by_text = {document.page_content: document for document in found}
    assert by_text["Ana lives in Porto."].metadata["status"] == "current"
    assert by_text["Ana lives in Berlin."].metadata["status"] == "superseded"
    assert by_text["Ana lives in Porto."].metadata["known_at"] == "2024-03-02T10:00:00Z"
    assert by_text["Ana lives in Porto."].id == by_text["Ana lives in Porto."].metadata["memory_id"]


async def test_a_scope_narrows_it(talking: Callable[..., DualMem], chat_of: Callable[..., Any]) -> None:
    memory = talking()
    await memory.remember(chat_of("Ana: Ana likes figs."), user_id="ana", conversation_id="one")
    await memory.remember(chat_of("Ana: Ana likes tea."), user_id="ana", conversation_id="two")
    retriever = MemoryRetriever(memory=memory, user_id="ana", scope=Scope(conversation_ids=("two",)))
    assert [document.page_content for document in await retriever.ainvoke("likes")] == ["Ana likes tea."]


async def test_a_retriever_needs_a_user(talking: Callable[..., DualMem]) -> None:
    with pytest.raises(InvalidUser):
        await MemoryRetriever(memory=talking()).ainvoke("Where?")


@pytest.fixture
def in_memory(reader: Callable[..., Any]) -> DualMem:
    return DualMem(chat_model=reader(), embeddings=WordEmbeddings(), store=":memory:")


async def test_langchain_qdrant_reads_the_same_memories(in_memory: DualMem, chat_of: Callable[..., Any]) -> None:
    await in_memory.remember(chat_of(*LINES), user_id="ana")
    await in_memory.remember(chat_of("Bea: Bea lives in Rome."), user_id="bea")
    store = vector_store(in_memory, user_id="ana")
    found = store.similarity_search("lives in", k=10)
    assert found[0].page_content == "Ana lives in Porto."
    assert {document.page_content for document in found} == {line.partition(": ")[2] for line in LINES[1:]}
    assert found[0].metadata["attribute"] == "home"
    likes = models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value="state"))])
    assert [document.page_content for document in store.similarity_search("Ana", filter=likes)] == [
        "Ana lives in Porto."
    ]
    assert len(await store.as_retriever(search_kwargs={"k": 2}).ainvoke("cello")) == 2
    assert len(store.max_marginal_relevance_search("Ana", k=2, fetch_k=3)) == 2
    ((_, score), *_) = store.similarity_search_with_score("Ana lives in Porto.", k=1)
    assert score == pytest.approx(1.0, abs=1e-4)


async def test_langchain_qdrant_cannot_see_others(in_memory: DualMem, chat_of: Callable[..., Any]) -> None:
    await in_memory.remember(chat_of("Bea: Bea lives in Rome."), user_id="bea")
    (hers,) = await in_memory.memories(user_id="bea")
    store = vector_store(in_memory, user_id="ana")
    everything = models.Filter(should=[models.FieldCondition(key="user_id", match=models.MatchValue(value="bea"))])
    assert store.similarity_search("lives in Rome") == []
    assert store.similarity_search("lives in Rome", filter=everything) == []
    assert store.get_by_ids([hers.id]) == []
    assert [document.page_content for document in vector_store(in_memory, user_id="bea").get_by_ids([hers.id])] == [
        "Bea lives in Rome."
    ]


async def test_langchain_qdrant_cannot_write(in_memory: DualMem, chat_of: Callable[..., Any]) -> None:
    await in_memory.remember(chat_of(*LINES), user_id="ana")
    store = vector_store(in_memory, user_id="ana")
    known = await in_memory.memories(user_id="ana")
    with pytest.raises(StoreError, match="for reading"):
        store.add_documents([Document("x")])
    with pytest.raises(StoreError, match="for reading"):
        store.delete([known[0].id])
    assert await in_memory.memories(user_id="ana") == known


async def test_the_embedded_store_has_no_langchain_qdrant(talking: Callable[..., DualMem]) -> None:
    with pytest.raises(ConfigurationError, match="MemoryRetriever"):
        vector_store(talking(), user_id="ana")


async def test_without_a_store_there_is_nothing_to_read(in_memory: DualMem) -> None:
    with pytest.raises(StoreError, match="no store yet"):
        vector_store(in_memory, user_id="ana")
