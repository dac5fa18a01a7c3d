"""Reordering evidence: by a LangChain compressor, by a model call, and when either fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from dualmem import DualMem
from dualmem.context import Context
from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.retrieval.cross_encoder import CrossEncoder
from dualmem.searching.reranking import Reranked, rerank_units
from dualmem.searching.search import search
from dualmem.testing import ScriptedChatModel

Chat = Callable[..., list[dict[str, Any]]]
LINES = ("Ana: Ana likes tea.", "Ana: Ana likes tea and rain.", "Ana: Ana likes cake.")


class ShortestFirst(BaseDocumentCompressor):
    """Prefers short texts, and leaves out those with a word it does not like."""

    disliked: str = "cake"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        assert query
        kept = [each for each in documents if self.disliked not in each.page_content]
        return [
            Document(each.page_content, metadata={**each.metadata, "relevance_score": 1 / len(each.page_content)})
            for each in sorted(kept, key=lambda each: len(each.page_content))
        ]


class Broken(BaseDocumentCompressor):
    """Always fails."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        raise RuntimeError("no such session")


@pytest.fixture
async def reordered(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> Callable[..., Any]:
    """Remember three likings, and return how a question about them is ordered."""

    async def order(model: Any = None, reranker: Any = None, **options: Any) -> tuple[list[str], Reranked]:
        memory = open_memory(model or reader(), reranker=reranker, rankings=("semantic", "keyword"), zoom_turns=0)
        await memory.remember(chat_of(*LINES), user_id="ana")
        plain = (
            await search(Context(memory.settings.override({"rerank": "none"}), memory.resources), "ana", "tea?")
        ).units
        done = await rerank_units(plain, "tea?", None, Context(memory.settings.override(options), memory.resources))
        assert {unit.members for unit in done.units} == {unit.members for unit in plain}
        return [unit.members[0].memory.text for unit in done.units], done

    return order


async def test_a_compressor_orders_and_what_it_leaves_out_comes_last(reordered: Callable[..., Any]) -> None:
    texts, done = await reordered(reranker=ShortestFirst(), rerank="compressor")
    assert texts == ["Ana likes tea.", "Ana likes tea and rain.", "Ana likes cake."]
    assert done.units[0].score > done.units[1].score
    assert (done.calls, done.failure) == ((), "")


async def test_a_model_orders_by_labels_and_unknown_ones_count_for_nothing(
    reordered: Callable[..., Any], reader: Callable[..., ScriptedChatModel]
) -> None:
    model = reader(rerank={"order": ["[M3]", "M9", "M1", "M3"]})
    texts, done = await reordered(model=model, rerank="model")
    plain, _ = await reordered(rerank="lexical")
    assert texts == [plain[2], plain[0], plain[1]]
    assert [call.step for call in done.calls] == ["rerank"]


@pytest.mark.parametrize("how", ["compressor", "model"])
async def test_a_reranker_that_fails_costs_its_order_and_says_so(
    reordered: Callable[..., Any], reader: Callable[..., ScriptedChatModel], how: str
) -> None:
    texts, done = await reordered(model=reader(rerank=ConnectionError("refused")), reranker=Broken(), rerank=how)
    plain, _ = await reordered(rerank="lexical")
    assert texts == plain
    assert done.failure.startswith("the reranker failed: ")


async def test_a_failed_reranker_is_told_with_the_answer(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    model = reader(answer={"cites": ["M1"], "found": True, "answer": "Tea."})
    memory = open_memory(model, reranker=Broken(), rerank="compressor", gate="never")
    await memory.remember(chat_of(*LINES), user_id="ana")
    found = await memory.recall("What does Ana like?", user_id="ana")
    assert (found.answer, found.route) == ("Tea.", "fast")
    assert "RuntimeError: no such session" in found.degraded_reason


async def test_without_an_embedding_model_words_still_find(
    open_memory: Callable[..., DualMem],
    reader: Callable[..., ScriptedChatModel],
    chat_of: Chat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = reader(answer={"cites": ["M1"], "found": True, "answer": "Cake."})
    memory = open_memory(model, gate="never")
    await memory.remember(chat_of(*LINES), user_id="ana")

    async def refused(text: str) -> Any:
        raise ConnectionError(text)

    monkeypatch.setattr(memory.resources.embedder._embeddings, "aembed_query", refused, raising=False)
    memory.resources.embedder.forget()
    found = await memory.recall("What cake does Ana like?", user_id="ana")
    assert found.evidence[0].text == "Ana likes cake."
    assert found.degraded_reason.startswith("searched by words alone: ")


async def test_what_scores_low_can_be_left_out(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    model = reader(answer={"cites": ["M1"], "found": True, "answer": "Tea."})
    memory = open_memory(
        model,
        reranker=ShortestFirst(),
        rerank="compressor",
        memory_filter="score",
        gate="never",
        rankings=("semantic",),
    )
    await memory.remember(chat_of(*LINES), user_id="ana")
    all_of_it = await memory.recall("What does Ana like?", user_id="ana", filter_score=99.0)
    assert len(all_of_it.evidence) == len(LINES)
    few = await memory.recall("What does Ana like?", user_id="ana", filter_score=1 / 20)
    assert [item.text for item in few.evidence] == ["Ana likes tea."]


async def test_a_cross_encoder_scores_each_text_with_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        """Stands for fastembed's model, whose weights a test cannot have: counts words in common."""

        def __init__(self, name: str, cache_dir: str | None = None) -> None:
            if name != "known":
                raise ValueError(f"Model {name} is not supported")

        def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
            return [float(len(set(query.split()) & set(text.split()))) for text in documents]

    fake = ModuleType("fastembed.rerank.cross_encoder")
    fake.TextCrossEncoder = Counting  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", fake)
    documents = [Document("a b", metadata={"place": 0}), Document("a b c", metadata={"place": 1})]
    ranked = CrossEncoder(name="known").compress_documents(documents, "b c")
    assert [(each.metadata["place"], each.metadata["relevance_score"]) for each in ranked] == [(1, 2.0), (0, 1.0)]
    with pytest.raises(ConfigurationError, match="the cross-encoder 'other' cannot be made: Model other"):
        CrossEncoder(name="other").compress_documents(documents, "b")


async def test_a_compressor_that_nobody_named_is_told(open_memory: Callable[..., DualMem]) -> None:
    memory = open_memory()
    with pytest.raises(ModelNotConfigured, match="DUALMEM_RERANK_MODEL"):
        memory.resources.make_reranker(memory.settings)
