"""The parts of the simulation behind docs/scaling.md, against what is known of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def simulation() -> Any:
    """The script; it and the module it is made of lie beside each other, and are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return importlib.import_module("scaling_simulation")


@pytest.fixture(scope="module")
def model(simulation: Any) -> Any:
    return simulation.model


def seeded(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def held_by(places: Any, population: Any) -> Any:
    """Return the memories on each of 24 nodes."""
    return np.sum([np.bincount(copy, population.memories, 24) for copy in places], axis=0)


METHODS = range(4)


@pytest.mark.parametrize("number", METHODS)
def test_every_user_is_placed_on_two_nodes(model: Any, number: int) -> None:
    population = model.Population.drawn(20_000, 3)
    places = list(model.METHODS.values())[number](population, 24, seeded())
    assert places.shape == (2, 20_000)
    assert 0 <= places.min() <= places.max() < 24
    assert (places[0] != places[1]).all()
    held = held_by(places, population)
    assert held.sum() == pytest.approx(2 * population.memories.sum())


def unevenness(model: Any, method: Any) -> float:
    population = model.Population.drawn(100_000, 3)
    places = method(population, 24, seeded())
    held = held_by(places, population)
    return float(held.max() / held.mean())


def test_no_node_takes_more_than_its_bound(model: Any) -> None:
    assert unevenness(model, model.bounded) <= model.BOUND + 1e-9 < unevenness(model, model.by_shard)


def test_two_choices_are_more_even_than_one(model: Any) -> None:
    assert unevenness(model, model.two_choices) < unevenness(model, model.by_hash)


def test_users_have_the_averages_assumed(model: Any) -> None:
    population = model.Population.drawn(50_000, 0)
    assert population.memories.mean() == pytest.approx(model.MEMORIES)
    assert population.questions.mean() == pytest.approx(model.QUESTIONS)
    logs = np.corrcoef(np.log(population.memories), np.log(population.questions))
    assert logs[0, 1] == pytest.approx(model.TOGETHER, abs=0.02)


def test_equal_seeds_give_equal_lines(simulation: Any, model: Any) -> None:
    def lines(seed: int) -> list[Any]:
        population = model.Population.drawn(5_000, seed)
        return [row for part in simulation.PARTS.values() for row in part(population, seed)]

    assert lines(1) == lines(1) != lines(2)


def test_nothing_is_lost_where_copies_are_made_at_once(model: Any) -> None:
    assert model.both_down(100, 11, 0.0, 1_000, seeded()) == 0


def test_second_copies_are_lost_as_often_as_the_sum_says(model: Any) -> None:
    nodes, partners, repair, years = 240, 11, 0.01, 2_000
    expected = nodes * model.FAILURES * partners * model.FAILURES * repair * years
    lost = model.both_down(nodes, partners, repair, years, seeded())
    assert abs(lost - expected) < 4 * expected**0.5


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 7))
def test_what_was_asked_for_last_stays_in_memory(model: Any, users: list[int], room: int) -> None:
    asked = [(float(moment), user) for moment, user in enumerate(users)]
    kept: list[int] = []
    cold = 0
    for user in users:
        cold += user not in kept
        kept = [*(other for other in kept if other != user), user][-room:] if room else []
    assert model.least_recent(asked, np.ones(6), float(room), 0.0)["cold"] == cold


def test_a_user_larger_than_the_memory_pushes_nobody_out(model: Any) -> None:
    asked = [(0.0, 0), (1.0, 1), (2.0, 0)]
    found = model.least_recent(asked, np.array([1.0, 9.0]), 2.0, 0.0)
    assert (found["asked"], found["cold"], found["bytes"]) == (3, 2, 10.0)


def test_a_day_has_its_peak_and_its_length(model: Any) -> None:
    moments = model.daytime(np.linspace(0, model.DAY, 200_001))
    assert moments[0] == 0
    assert moments[-1] == pytest.approx(model.DAY)
    assert (np.diff(moments) > 0).all()
    counts, _ = np.histogram(moments, 288)
    assert counts.max() / counts.mean() == pytest.approx(model.PEAK, rel=0.02)


def test_questions_come_at_the_rate_of_their_users(model: Any) -> None:
    rates = np.array([0.01, 0.03])
    asked = model.sessions(rates, model.DAY, 5.0, seeded())
    by_user = np.bincount([user for _, user in asked])
    assert by_user / model.DAY == pytest.approx(rates, rel=0.15)
    assert asked == sorted(asked, key=lambda one: one[0])


def test_the_share_that_waits_is_that_of_erlang(model: Any) -> None:
    assert model.erlang_c(1, 0.5) == pytest.approx(0.5)
    assert model.erlang_c(2, 1.0) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("servers", "busy"), [(1, 0.6), (4, 3.0), (10, 8.0)])
def test_workers_without_computing_are_an_m_m_c_queue(model: Any, servers: int, busy: float) -> None:
    load = model.Load(rate=busy, deliberated=0.0, call=1.0, spread=None, fast=(1, 0.0))
    waited, took = model.served(load, 1, servers, 60_000, seeded())
    expected = model.erlang_c(servers, busy) / (servers - busy)
    assert waited.mean() == pytest.approx(expected, rel=0.15)
    assert (took - waited).mean() == pytest.approx(1.0, rel=0.03)


def test_one_core_computes_one_question_at_a_time(model: Any) -> None:
    load = model.Load(rate=1e9, deliberated=0.0, fast=(0, 1.0))
    _, took = model.served(load, 1, 10, 5, seeded())
    assert took == pytest.approx([1, 2, 3, 4, 5], abs=1e-6)
    _, took = model.served(load, 5, 10, 5, seeded())
    assert took == pytest.approx([1] * 5, abs=1e-6)


def test_where_a_wave_is_always_enough_tokens_are_those_of_the_sum(simulation: Any, model: Any) -> None:
    rows = [row for row in simulation.tokens(model.Population.drawn(5_000, 0), 0) if "paper" in row]
    certain = [row for row in rows if row["satisfied_by_a_wave"] == 1.0]
    assert certain
    for row in certain:
        assert row["tokens_in"] == pytest.approx(row["paper"]["tokens_in"], rel=0.02)
    # Those who ask most remember most, so that reading to the end costs more than the average user's history.
    unsatisfied = [row for row in rows if row["satisfied_by_a_wave"] == 0.0]
    assert all(row["tokens_in"] > row["paper"]["tokens_in"] for row in unsatisfied)
