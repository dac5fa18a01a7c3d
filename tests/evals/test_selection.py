from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dualmem.config import load_settings
from dualmem.errors import ConfigurationError
from dualmem.evals.planning import ABLATIONS, ingestion_fingerprint, run_settings, system_of, with_store
from dualmem.evals.prices import read_prices
from dualmem.evals.samples import Benchmark, Sample
from dualmem.evals.selection import first_sessions, select
from dualmem.records import Message, Transcript, Usage

SAMPLES = [
    Sample(f"{category}/{number}", f"chat-{number % 3}", "?", "!", category)
    for category, count in (("common", 60), ("rare", 30), ("single", 1))
    for number in range(count)
]


def test_a_draw_has_each_category_with_its_share_and_at_least_one() -> None:
    drawn = select(SAMPLES, sample=10, seed=3)

    assert Counter(sample.category for sample in drawn) == {"common": 6, "rare": 3, "single": 1}
    assert [sample.id for sample in drawn] == [sample.id for sample in SAMPLES if sample in drawn]
    assert drawn == select(SAMPLES, sample=10, seed=3)
    assert drawn != select(SAMPLES, sample=10, seed=4)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 50, 90, 91, 500])
def test_a_draw_is_as_large_as_it_can_be(count: int) -> None:
    assert len(select(SAMPLES, sample=count)) == min(count, len(SAMPLES))


def test_conversations_and_a_limit_narrow_it() -> None:
    chosen = select(SAMPLES, conversations=1, limit=5)

    assert len(chosen) == 5
    assert {sample.conversation for sample in chosen} == {"chat-0"}


def test_of_a_few_sessions_what_they_answer_is_asked() -> None:
    messages = [
        Message(id=f"m{session}", role="user", content="Hello.", session=f"session {session}") for session in range(3)
    ]
    transcript = Transcript(conversation_id="chat", messages=(*messages, Message(id="loose", role="user", content="x")))
    wanted: dict[str, tuple[str, ...]] = {
        "first": ("m0",),
        "both": ("m0", "m1"),
        "later": ("m1", "m2"),
        "loose": ("loose",),
        "unknown": (),
    }
    samples = tuple(Sample(name, "chat", "?", "!", "common", evidence) for name, evidence in wanted.items())
    whole = Benchmark("locomo", samples, {"chat": transcript}, Counter({"broken": 1}))

    part = first_sessions(whole, 2)

    assert [each.id for each in part.samples] == ["first", "both", "loose"]
    assert [each.id for each in part.transcripts["chat"].messages] == ["m0", "m1", "loose"]
    assert part.skipped == {"broken": 1, "question without all its evidence in the first 2 sessions": 2}
    assert first_sessions(whole, 3).transcripts == whole.transcripts


def test_parts_of_conversations_have_a_store_of_their_own(tmp_path: Path) -> None:
    settings = run_settings("locomo", "default", options={"chat_model": "any", "embedding_model": "words"})
    assert with_store(settings, tmp_path, sessions=2).store != with_store(settings, tmp_path).store


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_changes_settings(name: str) -> None:
    assert run_settings("beam", "default", ablate=[name]) != run_settings("beam", "default")


def test_what_does_not_exist_is_said() -> None:
    with pytest.raises(ConfigurationError, match="nothing to ablate is named 'wheels'"):
        run_settings("beam", "default", ablate=["wheels"])
    with pytest.raises(ConfigurationError, match="no preset is named 'fastest'"):
        system_of("fastest")


def test_a_store_is_shared_by_what_answers_differently_only() -> None:
    settings = load_settings(chat_model="a", embedding_model="b")
    base = ingestion_fingerprint(settings)

    assert ingestion_fingerprint(settings.override({"gate": "never", "top_k": 3})) == base
    assert ingestion_fingerprint(settings.override({"window_turns": 7})) != base
    assert ingestion_fingerprint(settings.override({"chat_model": "c"})) != base


def test_prices_are_per_million_tokens_and_know_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"gpt": {"input": 2, "cached": 1, "output": 8}}', "utf-8")
    prices = read_prices(path)
    usage = Usage(tokens_in=1_000_000, tokens_cached=500_000, tokens_out=250_000)

    # half at 2, half at 1, a quarter at 8
    assert prices.cost("openai:gpt", usage) == pytest.approx(1 + 0.5 + 2)
    assert prices.cost("other", usage) is None
    path.write_text('{"gpt": {"input": -2}}', "utf-8")
    with pytest.raises(ConfigurationError, match="is no price table"):
        read_prices(path)
