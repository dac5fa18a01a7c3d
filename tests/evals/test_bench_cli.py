from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dualmem import models
from dualmem.cli.bench import bench_app
from dualmem.config import Settings
from dualmem.embedding import Embedder
from dualmem.errors import ConfigurationError, InputError
from dualmem.testing import WordEmbeddings

runner = CliRunner()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed by words, whatever model is asked for."""

    def make(settings: Settings, *_: object) -> Embedder:
        return Embedder(WordEmbeddings(), name="words", dimension=64)

    monkeypatch.setattr(models, "make_embedder", make)


def test_retrieval_prints_the_json_that_was_promised(locomo: Path, tmp_path: Path) -> None:
    arguments = ["retrieval", "--dataset", "locomo", "--data", str(locomo), "--source", "turns", "--k", "1,5", "--json"]

    result = runner.invoke(bench_app, [*arguments, "--cache", str(tmp_path / "cache")], catch_exceptions=False)

    report = json.loads(result.stdout)
    assert set(report) == {"dataset", "source", "rows", "skipped"}
    assert (report["dataset"], report["source"], len(report["rows"])) == ("locomo", "turns", 8)
    assert set(report["rows"][0]) == {"method", "k", "recall", "low", "high", "n"}
    assert report["skipped"]["question without usable evidence"] == 2


def test_retrieval_prints_a_table_for_a_person(locomo: Path, tmp_path: Path) -> None:
    arguments = ["retrieval", "--dataset", "locomo", "--data", str(locomo), "--cache", str(tmp_path / "cache")]

    result = runner.invoke(bench_app, arguments, catch_exceptions=False)

    assert "evidence recall, locomo, turns" in result.stdout
    assert "fusion" in result.stdout


def test_prompts_prints_policies_and_shares(locomo: Path, tmp_path: Path) -> None:
    arguments = ["prompts", "--dataset", "locomo", "--data", str(locomo), "--limit", "1", "--json"]

    result = runner.invoke(bench_app, [*arguments, "--cache", str(tmp_path / "cache")], catch_exceptions=False)

    report = json.loads(result.stdout)
    assert {row["policy"] for row in report["policies"]} == {
        "never",
        "filter",
        "quality",
        "majority",
        "consensus",
        "always",
    }
    assert report["prompts"]["quality"]["gate"]["cached_share"] > 0
    assert report["expected_tokens_in"]["fallback_rate"] == 0.241


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "dreams"], "no source is named 'dreams'"),
        (["--k", "5,many"], "no list of numbers"),
        (["--k", "0"], "numbers from 1 on"),
        (["--source", "memories"], "needs --run"),
    ],
)
def test_what_cannot_be_is_said(locomo: Path, options: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        runner.invoke(
            bench_app, ["retrieval", "--dataset", "locomo", "--data", str(locomo), *options], catch_exceptions=False
        )


def test_a_setting_without_a_value_is_said(locomo: Path) -> None:
    with pytest.raises(ConfigurationError, match="not of the form NAME=VALUE"):
        runner.invoke(
            bench_app,
            ["retrieval", "--dataset", "locomo", "--data", str(locomo), "--set", "top_k"],
            catch_exceptions=False,
        )
