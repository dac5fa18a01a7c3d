"""Settings: presets, precedence, and where a value comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from dualmem.config import Options, Settings, is_local, load_settings, origin_of
from dualmem.errors import ConfigurationError
from dualmem.presets import LOCAL, PRESETS, PresetName

PAPERS = {
    "top_k": 30,
    "chunk_turns": 60,
    "chunk_overlap": 4,
    "extraction_score": 5,
    "score_threshold": 6,
    "fact_filter_above": 6,
    "extraction_context_memories": 10,
    "similar_memories": 5,
    "similarity": 0.8,
    "extraction_history": 8,
    "temperature": 0,
    "candidate_temperature": 0.7,
    "candidates": 3,
}


def test_the_numbers_of_the_papers_are_the_defaults() -> None:
    settings = load_settings()
    assert {name: getattr(settings, name) for name in PAPERS} == PAPERS
    assert settings.gate == "quality"


def test_every_field_says_what_it_is_for() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_presets_are_those_that_can_be_named() -> None:
    assert set(PRESETS) == set(get_args(PresetName))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_in_force_when_it_is_chosen(preset: str) -> None:
    settings = load_settings(preset=preset)
    assert {name: getattr(settings, name) for name in PRESETS[preset]} == dict(PRESETS[preset])
    beyond = set(Options.model_fields) - set(PRESETS[preset]) - {"preset"}
    assert all(getattr(settings, name) == getattr(load_settings(), name) for name in beyond)


def test_the_presets_of_the_tables_differ_from_each_other() -> None:
    seen = [
        tuple(sorted(load_settings(preset=name).model_dump(exclude={"preset"}).items(), key=str)) for name in PRESETS
    ]
    same = {name for name, values in zip(PRESETS, seen, strict=True) if seen.count(values) > 1}
    assert same == {"dmem", "quality"}, "D-Mem's own row is its quality gate"


def sources(monkeypatch: pytest.MonkeyPatch, *, environment: int | None = None, dotenv: int | None = None) -> None:
    if environment is not None:
        monkeypatch.setenv("DUALMEM_ZOOM_TURNS", str(environment))
    if dotenv is not None:
        Path(".env").write_text(f"DUALMEM_ZOOM_TURNS={dotenv}\nSOMETHING_ELSE=1\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "environment", "dotenv", "preset", "expected", "origin"),
    [
        (1, 2, 3, "dmem", 1, None),
        (None, 2, 3, "dmem", 2, "environment (DUALMEM_ZOOM_TURNS)"),
        (None, None, 3, "dmem", 3, ".env"),
        (None, None, None, "dmem", 0, "preset dmem"),
        (None, None, None, "default", 6, "default"),
    ],
)
def test_precedence(
    monkeypatch: pytest.MonkeyPatch,
    given: int | None,
    environment: int | None,
    dotenv: int | None,
    preset: str,
    expected: int,
    origin: str | None,
) -> None:
    sources(monkeypatch, environment=environment, dotenv=dotenv)
    values: dict[str, Any] = {} if given is None else {"zoom_turns": given}
    settings = load_settings(preset=preset, **values)
    assert settings.zoom_turns == expected
    if origin is not None:
        assert origin_of(settings, "zoom_turns") == origin


@pytest.mark.parametrize("where", ["environment", ".env"])
def test_a_preset_can_be_chosen_from_outside(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "environment":
        monkeypatch.setenv("DUALMEM_PRESET", "mem0star")
    else:
        Path(".env").write_text("DUALMEM_PRESET=mem0star\n", encoding="utf-8")
    settings = load_settings()
    assert (settings.gate, origin_of(settings, "gate")) == ("never", "preset mem0star")
    assert load_settings(preset="full").gate == "always"


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_GATE", "")
    settings = load_settings()
    assert (settings.gate, origin_of(settings, "gate")) == ("quality", "default")


def test_what_is_given_by_hand_comes_from_the_command_line() -> None:
    assert origin_of(load_settings(top_k=3), "top_k") == "command line"


def test_the_key_is_not_shown() -> None:
    settings = load_settings(qdrant_api_key="hush-hush")
    assert "hush-hush" not in f"{settings!r} {settings.qdrant_api_key} {settings.model_dump_json()}"


# The embedded model's values


@pytest.mark.parametrize("name", ["local", "local:/models/other.gguf"])
def test_a_local_chat_model_brings_its_own_values(name: str) -> None:
    settings = load_settings(chat_model=name)
    assert {key: getattr(settings, key) for key in LOCAL} == dict(LOCAL)
    assert origin_of(settings, "chunk_turns") == "local model"


def test_a_local_chat_model_from_the_environment_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_CHAT_MODEL", "local")
    assert load_settings().chunk_turns == LOCAL["chunk_turns"]


def test_a_preset_is_above_the_local_values() -> None:
    settings = load_settings(chat_model="local", preset="memlace")
    assert (settings.zoom_turns, settings.chunk_turns) == (0, LOCAL["chunk_turns"])


def test_what_is_set_by_hand_is_above_the_local_values() -> None:
    assert load_settings(chat_model="local", top_k=11).top_k == 11


def test_the_local_values_vanish_with_the_local_model() -> None:
    settings = load_settings(chat_model="local").override({"chat_model": "openai:gpt-4o-mini"})
    assert {key: getattr(settings, key) for key in LOCAL} == {key: getattr(load_settings(), key) for key in LOCAL}


def test_the_local_values_come_with_a_local_model() -> None:
    settings = load_settings(chat_model="openai:gpt-4o-mini", top_k=11).override({"chat_model": "local"})
    assert (settings.top_k, settings.chunk_turns) == (11, LOCAL["chunk_turns"])


@pytest.mark.parametrize(
    ("name", "local"), [("local", True), ("local:x", True), ("openai:local", False), (None, False)]
)
def test_is_local(name: str | None, local: bool) -> None:
    assert is_local(name) is local


# Overriding


def test_overriding_changes_only_what_is_given() -> None:
    base = load_settings(top_k=7, gate="never")
    settings = base.override({"gate": "always"})
    assert (settings.top_k, settings.gate) == (7, "always")
    assert base.gate == "never"


def test_only_what_was_set_in_options_counts() -> None:
    settings = load_settings(top_k=7).override(Options(gate="always"))
    assert (settings.top_k, settings.gate) == (7, "always")


def test_another_preset_leaves_nothing_of_the_first_behind() -> None:
    settings = load_settings(preset="dmem", store="here").override({"preset": "memlace"})
    fresh = load_settings(preset="memlace", store="here")
    assert settings.model_dump() == fresh.model_dump()


def test_what_was_set_by_hand_stays_when_the_preset_changes() -> None:
    settings = load_settings(preset="dmem", gate="always", top_k=7).override({"preset": "default"})
    assert (settings.top_k, settings.gate) == (7, "always")


def test_what_was_set_by_hand_stays_when_the_model_changes() -> None:
    settings = load_settings(chat_model="local", top_k=11).override({"chat_model": "openai:gpt-4o-mini"})
    assert settings.top_k == 11


GIVEN: tuple[dict[str, Any], ...] = (
    {},
    {"preset": "dmem"},
    {"preset": "memlace", "top_k": 11, "ranking_weights": {"turns": 2.0}},
    {"chat_model": "local", "ranking_weights": {"topic": 0.5}},
    {"rankings": ["semantic"], "gate": "always", "budget_calls": None},
)


@pytest.mark.parametrize("base", GIVEN)
@pytest.mark.parametrize("change", GIVEN)
def test_overriding_gives_what_reading_everything_again_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: dict[str, Any], change: dict[str, Any]
) -> None:
    monkeypatch.setenv("DUALMEM_RANKING_WEIGHTS", '{"semantic": 3, "turns": 1}')
    monkeypatch.setenv("dualmem_window_turns", "12")
    monkeypatch.setenv("DUALMEM_STORE", "")
    (tmp_path / ".env").write_text(
        'DUALMEM_RANKING_WEIGHTS={"topic": 4}\nDUALMEM_CHUNK_TURNS=9\nDUALMEM_RANKINGS=["turns"]\nDUALMEM_OTHER=1\n'
    )
    derived, fresh = load_settings(**base).override(change), load_settings(**{**base, **change})
    assert derived == fresh
    assert derived.model_dump() == fresh.model_dump()
    assert derived.model_fields_set == fresh.model_fields_set
    again = derived.override({"top_k": 5})
    assert again.model_dump() == load_settings(**{**base, **change, "top_k": 5}).model_dump()


def test_overriding_reads_nothing_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DUALMEM_CHUNK_TURNS=9\n")
    monkeypatch.setenv("DUALMEM_TOP_K", "9")
    base = load_settings()
    monkeypatch.setenv("DUALMEM_TOP_K", "many")
    (tmp_path / ".env").unlink()
    settings = base.override({"gate": "never"}).override({"preset": "dmem"})
    assert (settings.top_k, settings.chunk_turns, settings.gate) == (9, 9, "never")


def test_overriding_keeps_the_environment_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_TOP_K", "9")
    assert load_settings().override({"gate": "never"}).top_k == 9


# Values that cannot be


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gaet": "never"}, ["'gaet'"]),
        ({"gate": "sometimes"}, ["gate", "'quality'", "'never'", "'sometimes'"]),
        ({"preset": "best"}, ["preset", "'memlace'", "'best'"]),
        ({"top_k": 0}, ["top_k", "greater than or equal to 1", "0"]),
        ({"top_k": "many", "rrf_k": -1}, ["top_k", "'many'", "rrf_k", "-1"]),
        ({"collection_prefix": "a b"}, ["collection_prefix", "'a b'"]),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_can(values: dict[str, Any], words: list[str]) -> None:
    changed: Callable[..., Settings] = lambda **given: load_settings().override(given)  # noqa: E731 - a name for the form of both
    for make in (load_settings, changed):
        with pytest.raises(ConfigurationError) as caught:
            make(**values)
        assert all(word in str(caught.value) for word in words)
        assert "\n" not in str(caught.value)


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_TOP_K", "many")
    with pytest.raises(ConfigurationError, match=r"(?i)top_k.*'many'"):
        load_settings()


def test_a_list_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_RANKINGS", "semantic,keyword")
    with pytest.raises(ConfigurationError, match=r"(?i)rankings"):
        load_settings()


def test_options_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValidationError, match="gaet"):
        Options.model_validate({"gaet": "never"})


def test_nothing_outside_reaches_the_tests() -> None:
    assert not [name for name in os.environ if name.startswith(("DUALMEM_", "OPENAI_"))]
