"""Other libraries as baselines of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from dualmem.errors import ConfigurationError
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.execution import RunOptions, execute
from dualmem.evals.run_files import SAMPLES, read_lines, read_samples
from dualmem.testing import ScriptedChatModel, WordEmbeddings

pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

ROOT = Path(__file__).parents[2]
MODELS = {"chat_model": "scripted", "embedding_model": "words"}


def options(preset: str, out: Path, **changes: Any) -> RunOptions:
    return RunOptions(
        **{"dataset": "locomo", "preset": preset, "out": out, "judged": False, "options": MODELS, **changes}
    )


class Shelf:
    """Stands for mem0: keeps each part it is given as one memory, after one call of the model."""

    made: list[dict[str, Any]]

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.parts: list[list[dict[str, str]]] = []
        self.vector_store = SimpleNamespace(client=SimpleNamespace(close=lambda: None))

    def add(self, messages: list[dict[str, str]], *, user_id: str) -> None:
        assert user_id == "user"
        model: BaseChatModel = self.config["llm"]["config"]["model"]
        model.invoke("Extract.")
        self.config["embedder"]["config"]["model"].embed_query("asked from a thread")
        self.parts.append(messages)

    def get_all(self, *, filters: dict[str, str], top_k: int) -> dict[str, Any]:
        return {"results": [{"memory": part[0]["content"]} for part in self.parts][:top_k]}

    def search(self, question: str, *, filters: dict[str, str], top_k: int) -> dict[str, Any]:
        assert question
        return self.get_all(filters=filters, top_k=top_k)

    def close(self) -> None:
        pass


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> list[Shelf]:
    made: list[Shelf] = []

    def from_config(config: dict[str, Any]) -> Shelf:
        made.append(Shelf(config))
        return made[-1]

    module = ModuleType("mem0")
    module.Memory = SimpleNamespace(from_config=from_config)  # type: ignore[attr-defined] # stands for the library
    monkeypatch.setitem(sys.modules, "mem0", module)
    monkeypatch.setenv("MEM0_DIR", "")
    monkeypatch.setenv("MEM0_TELEMETRY", "")
    return made


async def test_a_library_is_given_pairs_and_answers_through_our_prompt(
    shelf: list[Shelf], locomo: Path, tmp_path: Path
) -> None:
    benchmark = load_benchmark("locomo", locomo)
    model = ScriptedChatModel(script={"repair": {}, "answer": {"cites": [], "found": True, "answer": "7 May 2023"}})
    start = options("mem0", tmp_path / "run", limit=2)

    summary, finished = await execute(start, benchmark, chat_model=model, embeddings=WordEmbeddings())

    assert finished
    assert [len(part) for part in shelf[0].parts] == [2, 2, 2]
    assert shelf[0].parts[0][0]["content"] == "08 May 2023, Nora: I went to the pottery class yesterday."
    assert (summary["system"], summary["answered"], summary["construct"]["calls"]) == ("mem0", 2, 3)
    assert "evidence_recall" not in summary["metrics"]
    record = next(iter(read_samples(tmp_path / "run").values()))
    assert (record.evidence, record.usage.calls) == (None, 1)
    assert "- 08 May 2023, Nora: I went to the pottery class yesterday." in model.prompts[-1][1][-1].text
    again, _ = await execute(
        options("mem0", tmp_path / "run", limit=2, resume=True),
        benchmark,
        chat_model=model,
        embeddings=WordEmbeddings(),
    )
    assert (len(shelf), again["answered"]) == (1, 2), "what was done is not paid again"


async def test_a_library_that_was_cut_short_begins_anew(
    shelf: list[Shelf], locomo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would remember what it was given before a second time."""
    benchmark = load_benchmark("locomo", locomo)
    model = ScriptedChatModel(script={"repair": {}, "answer": {"cites": [], "found": True, "answer": "7 May 2023"}})
    left: list[Path] = []
    add = Shelf.add

    def fail_at_the_third(self: Shelf, messages: list[dict[str, str]], *, user_id: str) -> None:
        if len(self.parts) == 2:
            left.append(Path(self.config["history_db_path"]).with_name("left"))
            left[0].write_text("of two pairs", "utf-8")
            raise KeyError("third")
        add(self, messages, user_id=user_id)

    with monkeypatch.context() as patched:
        patched.setattr(Shelf, "add", fail_at_the_third)
        first = options("mem0", tmp_path / "run", limit=1)
        summary, _ = await execute(first, benchmark, chat_model=model, embeddings=WordEmbeddings())
    assert summary["answered"] == 0
    assert left[0].exists()
    again = options("mem0", tmp_path / "run", limit=1, resume=True, retry=True)
    summary, _ = await execute(again, benchmark, chat_model=model, embeddings=WordEmbeddings())
    assert (summary["answered"], summary["construct"]["calls"]) == (1, 3)
    assert not left[0].exists()


async def test_a_library_that_fails_leaves_its_samples_unscored(
    shelf: list[Shelf], locomo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("memory")

    monkeypatch.setattr(Shelf, "add", fail)
    summary, _ = await execute(
        options("mem0", tmp_path / "run", limit=2),
        load_benchmark("locomo", locomo),
        chat_model=ScriptedChatModel(script={}),
        embeddings=WordEmbeddings(),
    )
    assert summary["answered"] == 0
    assert "mem0 failed with KeyError" in next(iter(read_samples(tmp_path / "run").values())).unscored["answer"]


@pytest.mark.parametrize("name", ["mem0", "langmem"])
async def test_a_library_that_is_not_there_says_how_to_get_it(
    name: str, locomo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"not installed .*dualmem\[peers\]"):
        await execute(
            options(name, tmp_path / "run"),
            load_benchmark("locomo", locomo),
            chat_model=ScriptedChatModel(script={}),
            embeddings=WordEmbeddings(),
        )


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The benchmarks' model server, whose replies these libraries understand."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server_module = import_module("stub_server")
    with server_module.StubServer("hash") as server:
        server.reset(0.0)
        yield server.url


@pytest.mark.peers
@pytest.mark.loopback
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["mem0", "langmem"])
async def test_the_real_libraries_remember_and_are_asked(name: str, stub: str, locomo: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("locomo", locomo)
    models = {"chat_model": "openai:stub", "base_url": stub, "embedding_model": "words"}
    start = options(name, tmp_path / "run", options=models, stores=tmp_path / "stores")

    summary, finished = await execute(start, benchmark, embeddings=WordEmbeddings())

    assert finished
    assert summary["unscored"] == {}
    assert summary["construct"]["memories"] >= 3
    assert summary["construct"]["calls"] >= 2
    # A second run finds what the first one paid for.
    second, _ = await execute(
        options(name, tmp_path / "second", options=models, stores=tmp_path / "stores"),
        benchmark,
        embeddings=WordEmbeddings(),
    )
    accounts = [line for path in (tmp_path / "stores").rglob("ingestion.jsonl") for line in read_lines(path)]
    assert len(accounts) == 1
    first, other = (read_lines(tmp_path / run / SAMPLES) for run in ("run", "second"))
    assert [each["answer"] for each in first] == [each["answer"] for each in other]
    assert json.dumps(second["construct"]) == json.dumps(summary["construct"])
