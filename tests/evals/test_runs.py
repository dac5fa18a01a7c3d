from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.config import load_settings
from dualmem.context import Context
from dualmem.errors import ConfigurationError, InputError, ModelUnavailable
from dualmem.evals.comparing import compare
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.execution import RunOptions, execute
from dualmem.evals.prices import read_prices
from dualmem.evals.run_files import ANSWERS, SAMPLES, Ingested, read_lines, read_run, read_samples
from dualmem.evals.runs import Limits, Run, phases
from dualmem.evals.systems import Baseline
from dualmem.records import Transcript
from dualmem.testing import ScriptedChatModel, WordEmbeddings

pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

MODELS = {"chat_model": "scripted", "embedding_model": "words"}


def answer(prompt: str) -> dict[str, Any]:
    """Answer the scenarios' questions: the newest city is always right, the one before only for Lisbon."""
    asked = prompt.rsplit("Question: ", 1)[1]
    city = next(name for name in ("Tokyo", "Rome") if name in prompt)
    return {"cites": [], "found": True, "answer": city if "now" in asked else "Lisbon"}


def judge(prompt: str) -> dict[str, Any]:
    said = prompt.split("<answer>\n")[1].split("\n", maxsplit=1)[0]
    wanted = prompt.split("<reference>\n")[1].split("\n", maxsplit=1)[0]
    return {"reason": "compared", "verdict": "correct" if said == wanted else "wrong"}


def scripted(**changes: Any) -> ScriptedChatModel:
    script = {"extract": {"memories": []}, "answer": answer, "judge": judge, **changes}
    return ScriptedChatModel(script=script)


def run_options(out: Path, **changes: Any) -> RunOptions:
    given: dict[str, Any] = {
        "dataset": "structmemeval",
        "preset": "default",
        "task": "state_tracking",
        "policy": "never",
    }
    return RunOptions(**{**given, "out": out, "options": MODELS, **changes})


Go = Callable[..., Any]


@pytest.fixture
def go(structmemeval: Path, tmp_path: Path) -> Go:
    benchmark = load_benchmark("structmemeval", structmemeval, task="state_tracking")

    async def start(model: ScriptedChatModel, **changes: Any) -> tuple[dict[str, Any], bool]:
        options = run_options(changes.pop("out", tmp_path / "run"), **changes)
        return await execute(options, benchmark, chat_model=model, embeddings=WordEmbeddings())

    return start


async def test_a_run_answers_judges_and_sums_up(go: Go, tmp_path: Path) -> None:
    model = scripted()

    summary, finished = await go(model)

    assert finished
    assert (summary["samples"], summary["answered"], summary["unscored"]) == (4, 4, {})
    assert (summary["metrics"]["judge"]["mean"], summary["metrics"]["judge"]["n"]) == (0.75, 4)
    assert summary["scenarios"]["by_category"]["state_tracking"]["mean"] == 0.5
    assert summary["routes"] == {"fast": 4}
    assert summary["fallback_rate"]["mean"] == 0.0
    assert summary["unreadable_verdicts"] == 0
    assert summary["construct"]["conversations"] == 2
    assert summary["per_question"]["calls"]["mean"] == 1.0
    assert summary["totals"]["calls"] == 4
    assert summary["judge_totals"]["calls"] == 4
    first = read_samples(tmp_path / "run")["state_tracking/transition_1/1"]
    assert (first.answer, first.scores["judge"], first.scores["f1"], first.judgement) == ("Tokyo", 1.0, 1.0, "compared")
    assert (first.route, first.verdict["policy"], first.usage.calls) == ("fast", "never", 1)
    assert first.memory_ids
    assert set(first.phases) == {"retrieve", "filter", "answer", "gate"}
    run = read_run(tmp_path / "run")
    assert run["prompts"]["judge"]
    assert run["versions"]["python"]
    assert run["options"]["write_back"] is False
    assert not any(name in json.dumps(run) for name in ("api_key", "qdrant_api_key"))


async def test_a_run_that_was_stopped_goes_on_without_asking_again(go: Go, tmp_path: Path) -> None:
    model = scripted()
    _, finished = await go(model, limit=None, budget=1, concurrency=1)
    assert not finished
    before = model.calls("answer")
    assert before < 4

    again = scripted()
    summary, finished = await go(again, resume=True, concurrency=1)

    assert finished
    assert summary["answered"] == 4
    assert before + again.calls("answer") == 4
    assert model.calls("extract") + again.calls("extract") == 2  # a window a conversation, each read once
    assert len(read_lines(tmp_path / "run" / SAMPLES)) == 4


async def test_a_kill_between_answer_and_score_costs_no_answer(go: Go, tmp_path: Path) -> None:
    await go(scripted())
    samples = tmp_path / "run" / SAMPLES
    lines = samples.read_text("utf-8").splitlines()
    samples.write_text("\n".join(lines[:2]) + '\n{"id": "torn', "utf-8")

    again = scripted()
    summary, _ = await go(again, resume=True)

    assert (again.calls("answer"), again.calls("extract"), again.calls("judge")) == (0, 0, 2)
    assert summary["metrics"]["judge"]["n"] == 4


async def test_a_failed_sample_is_unscored_with_its_reason_and_can_be_tried_again(go: Go, tmp_path: Path) -> None:
    failing = scripted(
        answer=[ModelUnavailable("no model"), answer_reply("Lisbon"), answer_reply("x"), answer_reply("y")]
    )
    summary, finished = await go(failing, concurrency=1)

    assert finished
    assert (summary["samples"], summary["answered"]) == (4, 3)
    assert summary["unscored"] == {"answer": {"ModelUnavailable: no model": 1}}
    assert summary["metrics"]["judge"]["n"] == 3

    again = scripted()
    summary, _ = await go(again, resume=True, retry=True)
    assert (again.calls("answer"), summary["answered"], summary["unscored"]) == (1, 4, {})
    assert len(read_lines(tmp_path / "run" / ANSWERS)) == 5


def answer_reply(text: str) -> dict[str, Any]:
    return {"cites": [], "found": True, "answer": text}


async def test_an_unreadable_judgement_is_unscored_and_only_judged_again(go: Go) -> None:
    summary, _ = await go(scripted(judge="no idea", repair="still none"))

    assert summary["answered"] == 4
    assert "judge" not in summary["metrics"]
    assert sum(summary["unscored"]["judge"].values()) == 4
    assert summary["metrics"]["f1"]["n"] == 4
    assert summary["scenarios"]["unscored"] == 2

    again = scripted()
    summary, _ = await go(again, resume=True, retry=True)
    assert (again.calls("answer"), summary["metrics"]["judge"]["n"]) == (0, 4)


async def test_a_folder_with_another_run_is_not_touched(go: Go, tmp_path: Path) -> None:
    await go(scripted(), limit=1)

    with pytest.raises(ConfigurationError, match="holds a run already"):
        await go(scripted(), limit=1)
    with pytest.raises(ConfigurationError, match=r"differs in: .*selection"):
        await go(scripted(), limit=2, resume=True)
    assert len(read_lines(tmp_path / "run" / SAMPLES)) == 1


async def test_runs_that_answer_differently_share_their_memories(go: Go, tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    first, second = scripted(), scripted(gate={"relevant": True, "faithful": True, "complete": True})
    await go(first, stores=stores)

    summary, _ = await go(second, out=tmp_path / "second", policy="quality", stores=stores)

    assert first.calls("extract") > 0
    assert (second.calls("extract"), second.calls("gate")) == (0, 4)
    assert summary["construct"]["conversations"] == 2
    found = compare(read_samples(tmp_path / "run"), read_samples(tmp_path / "second"))
    assert (found["common"], found["rows"]["judge"]["mean"], found["rows"]["judge"]["equal"]) == (4, 0.0, 4)
    assert found["rows"]["tokens"]["better"] == 4
    with pytest.raises(InputError, match="no sample in common"):
        compare(read_samples(tmp_path / "run"), {})


async def test_a_baseline_leaves_no_account_that_would_pass_for_memories(go: Go, tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    await go(scripted(), preset="full-context", stores=stores)

    model = scripted()
    summary, _ = await go(model, out=tmp_path / "second", stores=stores)

    assert model.calls("extract") == 2
    assert summary["construct"]["conversations"] == 2


async def test_conversations_are_taken_in_at_once(structmemeval: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("structmemeval", structmemeval, task="state_tracking")
    met = asyncio.Barrier(2)

    class Waiting(Baseline):
        async def take_in(self, key: str, transcript: Transcript) -> Ingested:
            async with asyncio.timeout(30):
                await met.wait()
            return await super().take_in(key, transcript)

    settings = load_settings(**MODELS)
    async with DualMem(settings, chat_model=scripted(), embeddings=WordEmbeddings()) as memory:
        system = Waiting(Context(memory.settings, memory.resources), "full-context")
        run = Run(
            *(tmp_path, tmp_path, benchmark, benchmark.samples, system),
            judge=None,
            model="scripted",
            prices=read_prices(None),
            limits=Limits(concurrency=2),
        )
        assert await run.run()

    assert run.tally.done == len(benchmark.samples)


@pytest.mark.parametrize("preset", ["full-context", "rag"])
async def test_the_baselines_have_the_same_shape(go: Go, tmp_path: Path, preset: str) -> None:
    model = scripted()

    summary, _ = await go(model, preset=preset)

    assert summary["system"] == preset
    assert (summary["metrics"]["judge"]["mean"], model.calls("extract")) == (0.75, 0)
    record = read_samples(tmp_path / "run")["state_tracking/transition_2/1"]
    assert set(record.phases) == {"retrieve", "answer"}
    assert (
        "I live in Oslo now." in model.prompts[0][1][-1].text or "I live in Lisbon now." in model.prompts[0][1][-1].text
    )


async def test_evidence_recall_and_cost_are_recorded(locomo: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[scripted]\ninput = 1000000\noutput = 0\n", "utf-8")
    options = RunOptions(
        "locomo", "default", tmp_path / "run", policy="never", options=MODELS, judged=False, prices=prices, limit=2
    )
    model = scripted(answer=answer_reply("7 May 2023"))

    summary, _ = await execute(options, load_benchmark("locomo", locomo), chat_model=model, embeddings=WordEmbeddings())

    assert summary["metrics"]["evidence_recall"]["mean"] == 1.0
    assert "judge" not in summary["metrics"]
    assert summary["cost"]["questions"] == summary["totals"]["tokens_in"] > 0
    assert "Give dates as dates" in model.prompts[-1][1][-1].text
    assert "five or six words at most" in model.prompts[-1][1][-1].text
    with pytest.raises(ConfigurationError, match="needs --prices"):
        await execute(
            replace(options, out=tmp_path / "other", prices=None, max_cost=1.0), load_benchmark("locomo", locomo)
        )


async def test_beam_is_scored_by_its_rubric(beam: Path, tmp_path: Path) -> None:
    options = RunOptions("beam", "full-context", tmp_path / "run", options=MODELS, limit=1)
    scores = [{"score": 1}, {"score": 0.5}]
    model = scripted(answer=answer_reply("March 29"), rubric_judge=scores)

    summary, _ = await execute(options, load_benchmark("beam", beam), chat_model=model, embeddings=WordEmbeddings())

    assert summary["metrics"]["rubric"]["mean"] == 0.75
    assert model.leftovers() == {}


def test_deliberation_is_one_phase() -> None:
    timings = {"retrieve": 0.1, "answer": 0.2, "deliberate.plan": 0.3, "deliberate.extract": 0.4}

    assert phases(timings) == {"retrieve": 0.1, "answer": 0.2, "deliberate": 0.7}
