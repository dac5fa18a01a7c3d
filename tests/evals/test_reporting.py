from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dualmem.errors import InputError
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.execution import RunOptions, execute
from dualmem.evals.reporting import write_report
from dualmem.testing import ScriptedChatModel, WordEmbeddings

for package in ("nltk", "rouge_score", "matplotlib"):
    pytest.importorskip(package)

SCRIPT: dict[str, Any] = {
    "extract": {"memories": []},
    "answer": {"cites": [], "found": True, "answer": "<b>7 May</b> 2023"},
    "judge": {"verdict": "CORRECT"},
}


async def test_a_report_is_one_page_with_plots_and_their_figures_marked(locomo: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("locomo", locomo)
    folders = [tmp_path / "fast", tmp_path / "whole"]
    for folder, preset in zip(folders, ("default", "full-context"), strict=True):
        options = RunOptions(
            "locomo", preset, folder, policy="never", options={"chat_model": "m", "embedding_model": "words"}
        )
        await execute(options, benchmark, chat_model=ScriptedChatModel(script=SCRIPT), embeddings=WordEmbeddings())

    write_report(folders, tmp_path / "page.html")

    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 5
    assert "full-context" in page
    assert '<tr class="theirs">' in page
    assert "D-Mem (arXiv 2603.18631)" in page
    # nothing is fetched: every address in the page is data
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        write_report([tmp_path], tmp_path / "page.html")
    (tmp_path / "run.json").write_text("{}", "utf-8")
    with pytest.raises(InputError, match="has no summary yet"):
        write_report([tmp_path], tmp_path / "page.html")
