"""Pages of a store: in order, and each memory on one of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.records import Interval, Memory
from dualmem.stores.commit import Commit
from dualmem.stores.listing import TimeField
from dualmem.stores.payload import is_any, of_user


@pytest.fixture(params=["embedded", "in memory"])
async def filled(
    request: pytest.FixtureRequest, open_memory: Callable[..., DualMem], a_memory: Callable[..., Memory]
) -> tuple[DualMem, list[Memory]]:
    """A store of 90 memories, told at 12 times, two thirds of them with a date."""
    memory = open_memory(**({} if request.param == "embedded" else {"store": ":memory:"}))
    made = []
    first = a_memory("first")
    for number in sorted(range(90), key=lambda one: one * 37 % 90):
        told = first.known_at + timedelta(hours=number % 12)
        valid = Interval(start=told, end=told + timedelta(days=number % 5)) if number % 3 else None
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, str(number)))
        kind = "fact" if number % 2 else "plan"
        made.append(a_memory(key, known_at=told, position=number % 7, valid=valid, kind=kind, text=f"{number}"))
    async with memory.resources.store.writer("ana"):
        await memory.resources.store.commit(Commit("ana", tuple(made)))
    return memory, made


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("field", ["known_at", "valid_start", "valid_end"])
async def test_pages_in_order(filled: tuple[DualMem, list[Memory]], field: TimeField, descending: bool) -> None:
    memory, made = filled

    def place(item: Memory) -> Any:
        time = item.known_at
        if item.valid is not None and field != "known_at":
            time = item.valid.start if field == "valid_start" else item.valid.end  # type: ignore[assignment] # both set
        return time, item.position, item.id

    listed = [item for item in made if field == "known_at" or item.valid is not None]
    expected = [item.id for item in sorted(listed, key=place, reverse=descending)]
    listing = memory.resources.store.listing
    for size in (7, 40):
        found: list[str] = []
        for offset in range(0, len(expected) + size, size):
            page = await listing.memories(
                of_user("ana"), offset=offset, limit=size, order_by=field, descending=descending
            )
            assert len(page) == max(0, min(size, len(expected) - offset))
            found += [item.id for item in page]
        assert found == expected, size


async def test_counts(filled: tuple[DualMem, list[Memory]]) -> None:
    listing = filled[0].resources.store.listing
    assert await listing.count(of_user("ana", is_any("kind", "plan"))) == 45
    assert await listing.values("kind", of_user("ana")) == {"fact": 45, "plan": 45}
    assert await listing.memories(of_user("nobody"), limit=10) == []
    assert await listing.memories(of_user("ana"), limit=0) == []
    plans = await listing.memories(of_user("ana", is_any("kind", "plan")), offset=40, limit=50)
    assert {item.kind for item in plans} == {"plan"}
    assert len(plans) == 5
