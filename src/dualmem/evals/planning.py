"""From the options of a command to the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dualmem.config import Options, Settings, load_settings
from dualmem.errors import ConfigurationError
from dualmem.evals.run_files import fingerprint, prompt_hashes, store_folder
from dualmem.evals.systems import BASELINES, PEERS
from dualmem.models import chat_name, embedding_name
from dualmem.presets import PRESETS

PRESET_NAMES: Final = (*PRESETS, *BASELINES, *PEERS)

ABLATIONS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "expansion": {"expand_lifecycle": False},
        "temporal": {"temporal": False},
        "linked-merge": {"merge": "compact"},
        "evolution": {"evolution": False},
        "rerank": {"rerank": "none"},
        "zoom": {"zoom_turns": 0},
        "turns": {"rankings": ("semantic", "keyword", "template", "topic", "time")},
        "keyword": {"rankings": ("semantic", "template", "topic", "time", "turns")},
        "waves": {"deliberation": "exhaustive"},
    }
)
"""What can be taken away, one part at a time; the first five are MemoryLACE's."""

SHORT_ANSWERS: Final = frozenset({"locomo", "realtalk"})
"""Benchmarks whose references are a few words, and whose scores count words."""

_RECALL_OPTIONS: Final = frozenset(
    {
        "preset",
        "temperature",
        "candidate_temperature",
        "candidates",
        "call_timeout",
        "max_concurrency",
        "top_k",
        "rankings",
        "rrf_k",
        "ranking_weights",
        "expand_lifecycle",
        "rerank",
        "zoom_turns",
        "context_tokens",
        "memory_filter",
        "answer_style",
        "gate",
        "deliberation",
        "chunk_turns",
        "chunk_tokens",
        "chunk_overlap",
        "wave_chunks",
        "extraction_score",
        "score_threshold",
        "fact_filter_above",
        "max_facts",
        "write_back",
    }
)
"""Options that change how questions are answered and nothing of what is stored."""

_RECALL_PROMPTS: Final = frozenset(
    {
        "agreement",
        "answer",
        "chunk_extraction",
        "evidence",
        "fact_filter",
        "gate",
        "judge",
        "memory_filter",
        "rubric_judge",
    }
)


def system_of(preset: str) -> str:
    """Return what a preset's name runs: `dualmem`, a baseline, or another library.

    Raises:
        ConfigurationError: There is no such preset.
    """
    if preset in {*BASELINES, *PEERS}:
        return preset
    if preset in PRESETS:
        return "dualmem"
    message = f"no preset is named {preset!r}; there are {', '.join(PRESET_NAMES)}"
    raise ConfigurationError(message)


def run_settings(
    dataset: str,
    preset: str,
    *,
    policy: str | None = None,
    ablate: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings of a run.

    Deliberation writes nothing back, unless `options` say so: else what one question found would help the next, and
    a sample's score would depend on the samples before it.

    Raises:
        ConfigurationError: An ablation or an option does not exist.
    """
    given: dict[str, Any] = {"write_back": False}
    given["preset"] = preset if system_of(preset) == "dualmem" else "default"
    if dataset in SHORT_ANSWERS:
        given["answer_style"] = "short"
    for name in ablate:
        if name not in ABLATIONS:
            message = f"nothing to ablate is named {name!r}; there are {', '.join(ABLATIONS)}"
            raise ConfigurationError(message)
        given |= ABLATIONS[name]
    if policy is not None:
        given["gate"] = policy
    return load_settings(**{**given, **(options or {})})


def with_store(settings: Settings, stores: Path, *, sessions: int | None = None) -> Settings:
    """Return settings whose store is the one in `stores` for what they extract.

    Runs that differ only in how they answer share a store, and pay for its memories once.

    Args:
        settings: Of the run.
        stores: The folder of all stores.
        sessions: How many sessions of each conversation are taken in; None for all.
    """
    name = _of_sessions(ingestion_fingerprint(settings), sessions)
    return settings.override({"store": str(store_folder(stores, name))})


def peer_folder(settings: Settings, peer: str, stores: Path, *, sessions: int | None = None) -> Path:
    """Return where another library keeps what it took in through the models of `settings`."""
    models = fingerprint({"chat": chat_name(settings), "embedding": embedding_name(settings)})
    return stores / _of_sessions(f"{peer}-{models}", sessions)


def _of_sessions(name: str, sessions: int | None) -> str:
    return name if sessions is None else f"{name}-{sessions}-sessions"


def ingestion_fingerprint(settings: Settings) -> str:
    """Return a hash of everything that decides which memories a conversation becomes."""
    return fingerprint(
        {
            "options": {name: value for name, value in options_of(settings).items() if name not in _RECALL_OPTIONS},
            "chat": chat_name(settings),
            "embedding": embedding_name(settings),
            "prompts": {name: value for name, value in prompt_hashes().items() if name not in _RECALL_PROMPTS},
        }
    )


def options_of(settings: Settings) -> dict[str, Any]:
    """Return the options in force; nothing of the deployment, and no secret, is among them."""
    return settings.model_dump(mode="json", include=set(Options.model_fields))
