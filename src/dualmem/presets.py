"""Named sets of values for the settings: D-Mem's table, MemoryLACE's, and what suits the embedded model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

PresetName = Literal[
    "default",
    "dmem",
    "memlace",
    "mem0star",
    "filter",
    "majority",
    "consensus",
    "quality",
    "full",
    "no-expansion",
    "no-temporal",
    "compact-merge",
    "no-evolution",
    "no-rerank",
    "none",
]

_DMEM: dict[str, Any] = {
    "strategy": "mem0star",
    "evolution": False,
    "expand_lifecycle": False,
    "rankings": ("semantic",),
    "zoom_turns": 0,
    "rerank": "none",
    "deliberation": "exhaustive",
    "answer_style": "short",
    "ledger": False,
    "check_support": False,
    "write_back": False,
}
_MEMLACE: dict[str, Any] = {
    "gate": "never",
    "memory_filter": "off",
    "zoom_turns": 0,
    "rankings": ("semantic", "keyword", "template", "topic"),
    "fusion": "rrf",
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "default": {},
        # D-Mem's table, row by row.
        "dmem": {**_DMEM, "gate": "quality", "memory_filter": "off"},
        "mem0star": {**_DMEM, "gate": "never", "memory_filter": "off"},
        "filter": {**_DMEM, "gate": "never", "memory_filter": "model"},
        "majority": {**_DMEM, "gate": "majority", "memory_filter": "off"},
        "consensus": {**_DMEM, "gate": "consensus", "memory_filter": "off"},
        "quality": {**_DMEM, "gate": "quality", "memory_filter": "off"},
        "full": {**_DMEM, "gate": "always", "memory_filter": "off"},
        # MemoryLACE and its ablations.
        "memlace": _MEMLACE,
        "no-expansion": {**_MEMLACE, "expand_lifecycle": False},
        "no-temporal": {**_MEMLACE, "temporal": False},
        "compact-merge": {**_MEMLACE, "merge": "compact"},
        "no-evolution": {**_MEMLACE, "evolution": False},
        "no-rerank": {**_MEMLACE, "rerank": "none"},
        "none": {
            **_MEMLACE,
            "expand_lifecycle": False,
            "temporal": False,
            "merge": "compact",
            "evolution": False,
            "rerank": "none",
        },
    }
)

LOCAL: Mapping[str, Any] = MappingProxyType(
    {
        "extraction": "lean",
        "window_turns": 6,
        "window_tokens": 1200,
        "window_overlap": 2,
        "window_memories": 8,
        "decision_drafts": 1,
        "similar_memories": 2,
        "candidate_similarity": 0.45,
        "batch_windows": 4,
        "evolution": False,
        "top_k": 8,
        "zoom_turns": 3,
        "context_tokens": 700,
        "chunk_turns": 20,
        "chunk_tokens": 1500,
        "chunk_overlap": 2,
        "ledger": False,
        "max_output_tokens": 1024,
        "max_concurrency": 1,
    }
)
"""Beneath preset and defaults when the chat model is the embedded one: a small model needs small bites."""
