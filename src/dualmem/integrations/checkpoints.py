"""What a checkpointer must know to read the states of the graphs back."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel
from typing_extensions import is_typeddict

from dualmem.state import ChunkTask, DeliberationState, IngestionState, RecallState, WindowTask


def checkpoint_types() -> tuple[type, ...]:
    """Return every record class that the states of the three graphs hold."""
    found: dict[type, None] = {}
    for state in (RecallState, DeliberationState, ChunkTask, IngestionState, WindowTask):
        _collect(state, found)
    return tuple(kind for kind in found if not is_typeddict(kind))


def serializer(*more: type) -> JsonPlusSerializer:
    """Return a serializer for any LangGraph checkpointer that reads these states, and `more` classes, unasked.

    LangGraph's own warns of every class it was not told of, and will refuse them one day; it does already where
    `LANGGRAPH_STRICT_MSGPACK` is set.

    Example: `InMemorySaver(serde=serializer())`.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=(*checkpoint_types(), *more))


def _collect(kind: Any, found: dict[type, None]) -> None:
    for part in get_args(kind):
        _collect(part, found)
    ours = isinstance(kind, type) and kind.__module__.startswith("dualmem.")
    if not ours or kind in found:
        return
    if is_typeddict(kind) or is_dataclass(kind) or issubclass(kind, BaseModel | tuple):
        found[kind] = None
        for part in get_type_hints(kind, include_extras=True).values():
            _collect(part, found)
