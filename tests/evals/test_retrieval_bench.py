from __future__ import annotations

from pathlib import Path

import pytest

from dualmem.config import load_settings
from dualmem.embedding import Embedder
from dualmem.errors import InputError
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.embedding_cache import CachedEmbeddings
from dualmem.evals.retrieval import METHODS, NO_EVIDENCE, measure_recall
from dualmem.testing import WordEmbeddings


@pytest.mark.parametrize("source", ["turns", "observations", "both"])
async def test_all_methods_are_measured_over_the_same_questions(locomo: Path, tmp_path: Path, source: str) -> None:
    seen: list[tuple[int, int]] = []

    result = await measure_recall(
        load_benchmark("locomo", locomo),
        source=source,  # type: ignore[arg-type] # one of the three literals
        ks=(1, 30),
        settings=load_settings(),
        embeddings=WordEmbeddings(),
        folder=tmp_path / "store",
        progress=lambda done, total: seen.append((done, total)),
    )

    assert [(row.method, row.k, row.n) for row in result.rows] == [(m, k, 3) for m in METHODS for k in (1, 30)]
    assert all(0 <= row.low <= row.recall <= row.high <= 1 for row in result.rows)
    assert result.skipped[NO_EVIDENCE] == 2
    assert seen == [(1, 3), (2, 3), (3, 3)]
    if source == "turns":
        # Six turns: with thirty places, whatever is ranked at all is found.
        assert {row.recall for row in result.rows if row.k == 30 and row.method in {"dense", "fusion"}} == {1.0}
        assert next(row.recall for row in result.rows if row.k == 30 and row.method == "dualmem") == 1.0


async def test_the_evidence_of_a_clear_question_comes_first(locomo: Path, tmp_path: Path) -> None:
    result = await measure_recall(
        load_benchmark("locomo", locomo),
        source="observations",
        ks=(1,),
        settings=load_settings(),
        embeddings=WordEmbeddings(),
        folder=tmp_path / "store",
    )

    # "When did Nora go to pottery?", "How many bicycles had Theo?" (one of two turns), "What did Nora bake?"
    assert result.recalls["dualmem", 1] == (1.0, 0.5, 1.0)


async def test_a_benchmark_without_observations_or_evidence_is_said(beam: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("beam", beam)

    with pytest.raises(InputError, match="without observations"):
        await measure_recall(
            benchmark, source="both", ks=(1,), settings=load_settings(), embeddings=WordEmbeddings(), folder=tmp_path
        )
    with pytest.raises(InputError, match="no question of beam has usable evidence"):
        await measure_recall(
            load_benchmark("beam", beam, task="abstention"),
            source="turns",
            ks=(1,),
            settings=load_settings(),
            embeddings=WordEmbeddings(),
            folder=tmp_path,
        )


class CountingEmbeddings(WordEmbeddings):
    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        self.embedded.append(text)
        return super().embed_query(text)


async def test_a_text_is_embedded_once_for_all_runs(tmp_path: Path) -> None:
    for expected in (["a b", "c", "a b"], []):
        model = CountingEmbeddings()
        cached = CachedEmbeddings(Embedder(model, name="words", dimension=64), tmp_path / "cache")

        vectors = await cached.aembed_documents(["a b", "c", "a b"])
        query = await cached.aembed_query("a b")

        assert model.embedded == expected
        assert vectors[0] == vectors[2] == pytest.approx(WordEmbeddings().embed_query("a b"))
        assert query == pytest.approx(vectors[0])
        cached.close()
