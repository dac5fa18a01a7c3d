"""Figures of the two papers, to be shown beside measured ones. They were not measured here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Published:
    """One row of a paper's table, in percent."""

    dataset: str
    model: str
    row: str
    paper: str
    f1: float | None = None
    judge: float | None = None
    bleu1: float | None = None
    tokens_in: float | None = None
    seconds: float | None = None


DMEM: Final = "D-Mem (arXiv 2603.18631)"

PUBLISHED: Final = (
    Published("locomo", "gpt-4o-mini", "Full context", DMEM, 46.2, 72.3, 37.8),
    Published("locomo", "gpt-4o-mini", "LangMem", DMEM, 35.8, 51.3, 29.4),
    Published("locomo", "gpt-4o-mini", "Mem0", DMEM, 41.5, 61.3, 34.2),
    Published("locomo", "gpt-4o-mini", "RAG", DMEM, 20.8, 30.2, 16.4),
    Published("locomo", "gpt-4o-mini", "Zep", DMEM, 37.5, 58.5, 30.9),
    Published("locomo", "gpt-4o-mini", "Nemori", DMEM, 49.5, 74.4, 38.5),
    Published("locomo", "gpt-4o-mini", "Mem0*", DMEM, 51.2, 72.7, 41.1, 2186, 1.28),
    Published("locomo", "gpt-4o-mini", "Filter", DMEM, 51.6, 74.0, 41.6, 3162, 2.67),
    Published("locomo", "gpt-4o-mini", "Majority", DMEM, 51.3, 73.1, 41.1, 7501, 3.32),
    Published("locomo", "gpt-4o-mini", "Consensus", DMEM, 53.5, 76.1, 43.0, 15544, 9.55),
    Published("locomo", "gpt-4o-mini", "Quality gate", DMEM, 53.5, 76.3, 43.1, 12525, 8.03),
    Published("locomo", "gpt-4o-mini", "Full deliberation", DMEM, 55.3, 78.4, 44.2, 34805, 23.73),
    Published("realtalk", "gpt-4o-mini", "Mem0*", DMEM, 37.3, 59.1),
    Published("realtalk", "gpt-4o-mini", "Filter", DMEM, 38.4, 60.7),
    Published("realtalk", "gpt-4o-mini", "Majority", DMEM, 37.5, 60.4),
    Published("realtalk", "gpt-4o-mini", "Consensus", DMEM, 39.1, 62.4),
    Published("realtalk", "gpt-4o-mini", "Quality gate", DMEM, 39.4, 62.5, None, 16555, 13.0),
    Published("realtalk", "gpt-4o-mini", "Full deliberation", DMEM, 40.6, 62.8, None, 47955, 28.0),
    Published("locomo", "Qwen3-235B", "Mem0*", DMEM, 48.1, 74.7),
    Published("locomo", "Qwen3-235B", "Quality gate", DMEM, 51.0, 78.6),
    Published("locomo", "Qwen3-235B", "Full deliberation", DMEM, 53.7, 78.6),
    Published("realtalk", "Qwen3-235B", "Mem0*", DMEM, 35.4, 62.5),
    Published("realtalk", "Qwen3-235B", "Quality gate", DMEM, 35.5, 63.1),
    Published("realtalk", "Qwen3-235B", "Full deliberation", DMEM, 37.5, 64.4),
)

NOTES: Final[dict[str, tuple[str, ...]]] = {
    "locomo": (
        "D-Mem: all ten conversations, 1,540 questions of categories 1-4. Quality gate by category, F1: single-hop "
        "57.1, multi-hop 41.4, temporal 62.0, open-domain 29.9. Its fallback rate: 24.1% (gpt-4o-mini), "
        "27.9% (Qwen3-235B).",
    ),
    "realtalk": ("D-Mem: 728 questions. Fallback rate of the quality gate: 24.7% (gpt-4o-mini), 35.0% (Qwen3-235B).",),
    "beam": (
        "MemoryLACE (arXiv 2609.03201), BEAM 100K, Qwen3.5-9B, ablations against the full system: no lifecycle "
        "expansion -5.16, no temporal awareness -4.97, compact merge -1.43, no batch evolution -1.68, no rerankers "
        "-1.23; all removed: 43.3 overall.",
    ),
    "structmemeval": (
        "MemoryLACE (arXiv 2609.03201), GPT-5.5, 51 scenarios: all 14 of state tracking and all 10 tree scenarios "
        "solved (Mem-Agent 57% and 50%), counting 0%, recommendations 8.33% of scenarios, macro 52.08%.",
    ),
}
