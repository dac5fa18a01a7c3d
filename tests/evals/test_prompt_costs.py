from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from dualmem.config import load_settings
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.prompt_costs import (
    PolicyCost,
    PrefixCache,
    expected,
    measure_prompts,
    rate_of_ratio,
    ratios,
    shares_by_step,
    through_cache,
)
from dualmem.testing import WordEmbeddings


def test_a_prefix_cache_holds_the_longest_beginning_sent_before() -> None:
    cache = PrefixCache()

    assert [cache.send(text) for text in ("abcd", "abxy", "zz", "abcz", "abcz")] == ["", "ab", "", "abc", "abcz"]


async def test_without_observations_each_turn_is_a_memory(structmemeval: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("structmemeval", structmemeval, task="state_tracking")

    costs, sent = await measure_prompts(
        benchmark,
        benchmark.samples[:1],
        settings=load_settings(preset="quality"),
        embeddings=WordEmbeddings(),
        folder=tmp_path / "store",
        policies=("never",),
    )

    said = next(iter(benchmark.transcripts.values())).messages[0].content
    assert [cost.calls for cost in costs] == [1.0]
    assert said in sent["never"][0].text
    assert [row["ratio"] for row in ratios(costs)] == [1.0]


def test_prompts_that_share_their_beginning_are_hit_for_it() -> None:
    rules = "Rules about memories that are long enough to count. " * 20
    sent = through_cache(
        [
            ("answer", [SystemMessage(rules), HumanMessage("What is it?")]),
            ("gate", [SystemMessage(rules), HumanMessage("Grade it!")]),
        ]
    )

    assert sent[0].hit == 0.0
    assert 0.9 < sent[1].hit < 1.0
    assert shares_by_step(sent)["gate"]["prompts"] == 1


async def test_every_policy_costs_what_its_prompts_have(locomo: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("locomo", locomo)

    costs, sent = await measure_prompts(
        benchmark,
        benchmark.samples[:2],
        settings=load_settings(preset="quality"),
        embeddings=WordEmbeddings(),
        folder=tmp_path / "store",
    )

    by_route = {(cost.policy, cost.escalated): cost for cost in costs}
    assert set(by_route) == {
        ("never", False),
        ("filter", False),
        *((policy, escalated) for policy in ("quality", "majority", "consensus") for escalated in (False, True)),
        ("always", True),
    }
    assert by_route["never", False].calls == 1.0
    assert by_route["quality", False].calls == by_route["filter", False].calls == 2.0
    # three candidates and their comparison
    assert by_route["majority", False].calls == by_route["consensus", False].calls == 4.0
    assert by_route["quality", True].tokens_in > by_route["quality", False].tokens_in
    assert {prompt.step for prompt in sent["quality"]} == {"answer", "gate"}
    # the gate sees the same rules and evidence as the answer before it
    gates = [prompt.hit for prompt in sent["quality"] if prompt.step == "gate"]
    assert min(gates) > 0.4
    found = expected(costs, {"quality": 0.5})
    both = by_route["quality", False].tokens_in + by_route["quality", True].tokens_in
    assert found["quality"] == pytest.approx(both / 2, abs=0.1)
    beside = {row["policy"]: row for row in ratios(costs, 0.5)}
    assert beside["never"]["ratio"] == 1.0
    assert beside["quality"]["ratio"] == pytest.approx(found["quality"] / by_route["never", False].tokens_in, abs=0.01)
    assert beside["majority"]["fast_ratio"] > 3
    assert round(beside["always"]["paper_ratio"], 1) == 15.9


def test_the_rate_is_found_at_which_a_policy_costs_what_the_paper_says() -> None:
    costs = [
        PolicyCost("never", False, 1, 100.0, 0.0, 1),
        PolicyCost("quality", False, 2, 200.0, 0.0, 1),
        PolicyCost("quality", True, 9, 1200.0, 0.0, 1),
    ]
    assert rate_of_ratio(costs, "quality", 5.7) == 0.37
    assert rate_of_ratio(costs, "quality", 99) is None
    assert rate_of_ratio(costs, "never", 5.7) is None
