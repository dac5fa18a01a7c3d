"""Embedding in batches through a bounded cache."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings

from dualmem import embedding
from dualmem.embedding import BATCH, Embedder
from dualmem.errors import ModelNotConfigured, ModelUnavailable
from dualmem.testing import WordEmbeddings


class Counting(Embeddings):
    """Embeds a text as its length, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.questions: list[str] = []
        self.down = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.down:
            raise ConnectionError("refused\nby the server")
        self.batches.append(list(texts))
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if self.down:
            raise ConnectionError("refused\nby the server")
        self.questions.append(text)
        return [float(len(text)), 2.0]


@pytest.fixture
def model() -> Counting:
    return Counting()


async def test_vectors_come_in_the_order_of_the_texts(model: Counting) -> None:
    vectors = await Embedder(model, name="m").documents(["aa", "b", "aa"])
    assert vectors == [(2.0, 1.0), (1.0, 1.0), (2.0, 1.0)]


async def test_a_text_is_embedded_once(model: Counting) -> None:
    embedder = Embedder(model, name="m")
    await embedder.documents(["a", "b", "a"])
    await embedder.documents(["b", "c"])
    assert model.batches == [["a", "b"], ["c"]]


async def test_an_error_of_our_own_reaches_the_caller_as_it_is() -> None:
    class Missing(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            message = "the package is not installed"
            raise ModelNotConfigured(message)

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    embedder = Embedder(Missing(), name="m")
    with pytest.raises(ModelNotConfigured, match="not installed"):
        await embedder.documents(["a"])
    with pytest.raises(ModelNotConfigured, match="not installed"):
        await embedder.query("a")


async def test_no_text_is_no_call(model: Counting) -> None:
    assert await Embedder(model, name="m").documents([]) == []
    assert model.batches == []


async def test_many_texts_go_in_batches(model: Counting) -> None:
    texts = [str(number) for number in range(2 * BATCH + 1)]
    vectors = await Embedder(model, name="m").documents(texts)
    assert [len(batch) for batch in model.batches] == [BATCH, BATCH, 1]
    assert len(vectors) == len(texts)


async def test_a_question_is_not_a_document(model: Counting) -> None:
    embedder = Embedder(model, name="m")
    await embedder.documents(["a"])
    assert await embedder.query("a") == (1.0, 2.0)
    assert await embedder.query("a") == (1.0, 2.0)
    assert model.questions == ["a"]


async def test_the_cache_is_bounded_and_the_result_whole(model: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CACHE_SIZE", 3)
    embedder = Embedder(model, name="m")
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    assert [vector[0] for vector in await embedder.documents(texts)] == [1, 2, 3, 4, 5]
    await embedder.documents(["eeeee", "a"])
    assert model.batches[1:] == [["a"]]
    assert len(embedder._cache) == 3


async def test_what_is_forgotten_is_embedded_again(model: Counting) -> None:
    embedder = Embedder(model, name="m")
    await embedder.documents(["a"])
    embedder.forget()
    await embedder.documents(["a"])
    assert model.batches == [["a"], ["a"]]


async def test_the_size_is_found_out_once(model: Counting) -> None:
    embedder = Embedder(model, name="m")
    assert embedder.known_dimension is None
    assert (await embedder.dimension(), await embedder.dimension()) == (2, 2)
    assert len(model.questions) == 1


async def test_a_known_size_costs_no_call(model: Counting) -> None:
    assert await Embedder(model, name="m", dimension=7).dimension() == 7
    assert model.questions == []


async def test_a_failure_is_one_error_with_its_cause(model: Counting) -> None:
    model.down = True
    embedder = Embedder(model, name="tiny")
    for attempt in (embedder.query("a"), embedder.documents(["a"]), embedder.dimension()):
        with pytest.raises(
            ModelUnavailable, match="embedding with 'tiny' failed: ConnectionError: refused by"
        ) as caught:
            await attempt
        assert isinstance(caught.value.__cause__, ConnectionError)


async def test_what_failed_is_tried_again(model: Counting) -> None:
    embedder = Embedder(model, name="m")
    model.down = True
    with pytest.raises(ModelUnavailable):
        await embedder.documents(["a"])
    model.down = False
    assert await embedder.documents(["a"]) == [(1.0, 1.0)]


class Short(Counting):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return super().embed_documents(texts)[:-1]


async def test_fewer_vectors_than_texts_are_a_failure_of_the_model() -> None:
    with pytest.raises(ModelUnavailable):
        await Embedder(Short(), name="m").documents(["a", "b"])


def test_word_embeddings_put_texts_that_share_words_near_each_other() -> None:
    ana, again, other = WordEmbeddings().embed_documents(["Ana lives in Porto", "Porto, where Ana lives", "blue cars"])
    near = sum(a * b for a, b in zip(ana, again, strict=True))
    far = sum(a * b for a, b in zip(ana, other, strict=True))
    assert near > 0.6 > far
    assert sum(value * value for value in ana) == pytest.approx(1.0)
    assert any(WordEmbeddings().embed_query("…"))
