"""What a question may still cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from dualmem.config import load_settings
from dualmem.deliberation.budget import CLOSING_CALLS, CLOSING_TOKENS, REPLY_TOKENS, Budget, affordable, prompt_tokens
from dualmem.errors import ConfigurationError
from dualmem.prompts import chunk_extraction
from dualmem.records import ModelCall, Turn, Usage
from dualmem.state import Chunk

CALLS = [ModelCall(step="answer", tokens_in=500, tokens_out=20), ModelCall(step="gate", tokens_in=500, tokens_out=30)]


@pytest.fixture
def wave(a_turn: Callable[..., Turn]) -> list[Chunk]:
    return [Chunk(number, (a_turn("Ana walked along the river and counted bridges.", number),)) for number in range(5)]


def due(wave: list[Chunk], deadline: float | None = None, **options: Any) -> tuple[list[int], str]:
    found = affordable(
        wave, CALLS, load_settings(**options), question="?", asked_at=None, ledger=False, deadline=deadline
    )
    return [chunk.number for chunk in found.chunks], found.stopped


def test_without_limits_all_is_read(wave: list[Chunk]) -> None:
    assert due(wave) == ([0, 1, 2, 3, 4], "")


@pytest.mark.parametrize(("calls", "read"), [(5, 0), (6, 1), (8, 3), (10, 5), (99, 5)])
def test_calls_are_kept_back_for_what_follows(wave: list[Chunk], calls: int, read: int) -> None:
    assert CLOSING_CALLS == 3
    numbers, stopped = due(wave, budget_calls=calls)
    assert numbers == list(range(read))
    assert stopped == ("" if read == 5 else f"the budget of {calls} calls")


@pytest.mark.parametrize(
    ("limit", "spare"),
    [
        ({"budget_calls": 6}, (0,)),
        ({"budget_calls": 12}, (1, 1, 0, 0, 0)),
        ({"budget_calls": 999}, (8,) * 5),
        ({"budget_tokens": 10**6}, (8,) * 5),
        ({}, None),
    ],
)
def test_what_is_left_over_is_shared_among_the_chunks(
    wave: list[Chunk], limit: dict[str, int], spare: tuple[int, ...] | None
) -> None:
    settings = load_settings(**limit)
    found = affordable(wave, CALLS, settings, question="?", asked_at=None, ledger=False, deadline=None)
    assert found.spare == spare


def test_tokens_count_the_prompts_before_they_are_sent(wave: list[Chunk]) -> None:
    prompts = [prompt_tokens(chunk_extraction.render((), chunk.turns, "?", least=5)) + REPLY_TOKENS for chunk in wave]
    spent = Usage.of(CALLS).tokens_in + Usage.of(CALLS).tokens_out + CLOSING_TOKENS
    assert due(wave, budget_tokens=spent + sum(prompts[:2]))[0] == [0, 1]
    assert due(wave, budget_tokens=spent + sum(prompts[:2]) - 1)[0] == [0]
    assert due(wave, budget_tokens=spent + sum(prompts)) == ([0, 1, 2, 3, 4], "")


def test_money_counts_by_the_prices(wave: list[Chunk]) -> None:
    assert due(wave, budget_cost=1, price_input=0, price_output=0) == ([0, 1, 2, 3, 4], "")
    assert due(wave, budget_cost=0.001, price_input=1, price_output=1) == ([], "the budget of 0.001")


def test_a_limit_of_money_without_a_price_is_told(wave: list[Chunk]) -> None:
    with pytest.raises(ConfigurationError, match="price_input"):
        due(wave, budget_cost=1)


def test_cached_tokens_have_their_own_price() -> None:
    usage = Usage(tokens_in=1_000_000, tokens_cached=500_000, tokens_out=100_000)
    assert Budget(price_input=2, price_output=10, price_cached=1).price(usage) == pytest.approx(1 + 0.5 + 1)
    settings = load_settings(price_input=2, price_output=10, budget_cost=9)
    assert Budget.of(settings).price(usage) == pytest.approx(3)


def test_after_the_deadline_no_wave_is_begun(wave: list[Chunk]) -> None:
    assert due(wave, time.time() - 1, budget_seconds=3) == ([], "the budget of 3 seconds")
    assert due(wave, time.time() + 1000, budget_seconds=3)[0] == [0, 1, 2, 3, 4]
