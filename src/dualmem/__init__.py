"""Long-term memory for LangGraph agents.

    from dualmem import DualMem

    async with DualMem() as memory:
        await memory.remember([{"role": "user", "content": "I moved to Porto last week."}], user_id="ana")
        found = await memory.recall("Where do I live?", user_id="ana")
        print(found.answer, found.route)

Names are imported when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualmem.config import Options, Settings, load_settings
    from dualmem.context import Resources
    from dualmem.errors import DualmemError
    from dualmem.graphs.deliberation import build_deliberation_graph
    from dualmem.graphs.ingestion import build_ingestion_graph
    from dualmem.graphs.recall import build_recall_graph
    from dualmem.memory import DualMem
    from dualmem.records import IngestReceipt, Memory, Recollection, Scope

_HOMES = {
    "DualMem": "dualmem.memory",
    "DualmemError": "dualmem.errors",
    "IngestReceipt": "dualmem.records",
    "Memory": "dualmem.records",
    "Options": "dualmem.config",
    "PRESETS": "dualmem.presets",
    "Recollection": "dualmem.records",
    "Resources": "dualmem.context",
    "Scope": "dualmem.records",
    "Settings": "dualmem.config",
    "build_deliberation_graph": "dualmem.graphs.deliberation",
    "build_ingestion_graph": "dualmem.graphs.ingestion",
    "build_recall_graph": "dualmem.graphs.recall",
    "load_settings": "dualmem.config",
}

__all__ = [
    "PRESETS",
    "DualMem",
    "DualmemError",
    "IngestReceipt",
    "Memory",
    "Options",
    "Recollection",
    "Resources",
    "Scope",
    "Settings",
    "build_deliberation_graph",
    "build_ingestion_graph",
    "build_recall_graph",
    "load_settings",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
