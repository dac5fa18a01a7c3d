"""What a node is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.runtime import Runtime

from dualmem import DualMem
from dualmem.context import Context
from dualmem.records import EvidenceUnit, Member, Memory, PackedContext, Turn


@pytest.fixture
def runtime_of() -> Callable[..., Runtime[Context]]:
    """Make the runtime of a run over a memory; what a node streams goes to `events`."""

    def make(memory: DualMem, events: list[Any] | None = None) -> Runtime[Context]:
        context = Context(memory.settings, memory.resources)
        if events is None:
            return Runtime(context=context)
        return Runtime(context=context, stream_writer=events.append)

    return make


@pytest.fixture(scope="session")
def packed(a_memory: Callable[..., Memory], a_turn: Callable[..., Turn]) -> PackedContext:
    """A chain of two memories with its turn, a memory alone, and a turn alone."""
    units = (
        EvidenceUnit(
            (
                Member(a_memory("berlin", 0, text="Ana lives in Berlin.", state="superseded"), "superseded"),
                Member(a_memory("porto", 2, text="Ana lives in Porto."), "current"),
            ),
            1.0,
            (a_turn("I moved to Porto.", 2),),
            {"semantic": 0.5, "keyword": 0.5},
        ),
        EvidenceUnit((Member(a_memory("tea", 3, text="Ana likes tea."), "current"),), 0.5, shares={"semantic": 0.5}),
        EvidenceUnit((), 0.2, (a_turn("It rains.", 7),), {"turns": 0.2}),
    )
    labels = {"berlin": "M1", "porto": "M2", "tea": "M3", "chat-2": "T1", "chat-7": "T2"}
    return PackedContext(units, ("dropped",), 90, labels)


@pytest.fixture
async def history(
    open_memory: Callable[..., DualMem], runtime_of: Callable[..., Runtime[Context]], chat_of: Callable[..., Any]
) -> Callable[..., DualMem]:
    """Make memories over a stored conversation of six turns; chunks hold two and waves one."""
    memory = open_memory(strategy="verbatim")
    lines = ["Ana: apples", "Bot: pears", "Ana: Porto river", "Bot: bridges", "Ana: rain", "Bot: sun"]
    await memory.remember(chat_of(*lines), user_id="ana", conversation_id="fruit")

    def make(model: Any = None, **options: Any) -> DualMem:
        return open_memory(model, **{"chunk_turns": 2, "chunk_overlap": 1, "wave_chunks": 1, **options})

    return make
