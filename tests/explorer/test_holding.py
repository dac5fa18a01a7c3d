"""Pages of what held at a time: as the memory itself lists it, whatever is stored."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from dualmem import DualMem
from dualmem.explorer import holding
from dualmem.explorer.views import View
from dualmem.lifecycle import WorkingSet
from dualmem.records import Interval, Kind, Memory
from dualmem.stores.commit import Commit
from dualmem.stores.listing import order_of
from dualmem.testing import WordEmbeddings

START = datetime(2024, 3, 1, tzinfo=UTC)
Make = Callable[..., Memory]


def drawn(a_memory: Make, draw: random.Random, count: int) -> list[Memory]:
    """Memories of all kinds, some told at one instant, some with a date, some states of a chain."""
    working = WorkingSet()
    for _ in range(count):
        valid = None
        if draw.random() < 0.6:
            start = START + timedelta(days=draw.randrange(-400, 60))
            end = start + timedelta(days=draw.choice([1, 3, 40, 500])) if draw.random() < 0.7 else None
            valid = Interval(start=start, end=end, precision=draw.choice(["day", "month", "year", "unknown"]))
        memory = a_memory(
            str(uuid.UUID(int=draw.getrandbits(128))),
            day=draw.randrange(12),
            kind=draw.choice(get_args(Kind)),
            position=draw.randrange(3),
            valid=valid,
        )
        before = draw.choice(list(working.memories)) if working.memories else None
        working.add(memory)
        if before is not None and draw.random() < 0.3:
            working.supersede(memory.id, before, reason="changed", at=memory.known_at)
    return list(working.memories.values())


@pytest.mark.parametrize("seed", range(6))
async def test_its_pages_are_what_the_memory_lists(
    a_memory: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(holding, "PAGE", 4)
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    place = ":memory:" if seed % 3 == 0 else str(tmp_path / "store")
    async with DualMem(store=place, embeddings=WordEmbeddings(8)) as memory:
        store = memory.resources.store
        async with store.writer("ana"):
            await store.commit(Commit("ana", tuple(drawn(a_memory, draw, 40))))
        for _ in range(12):
            moment = START + timedelta(days=draw.randrange(-420, 80), microseconds=draw.randrange(2))
            known = draw.choice([None, START + timedelta(days=draw.randrange(12))])
            kinds = tuple(draw.sample(get_args(Kind), draw.randrange(3)))
            view = View("ana", kinds=kinds, known=known, held=moment, oldest_first=draw.random() < 0.5)
            told = await memory.memories(user_id="ana", as_of=known, valid_at=moment)
            wanted = sorted(
                (each for each in told if not kinds or each.kind in kinds), key=order_of, reverse=not view.oldest_first
            )
            for page in range(1, len(wanted) // 4 + 2):
                found, total = await holding.held_page(store, replace(view, page=page), moment)
                assert total == len(wanted)
                assert found == wanted[(page - 1) * 4 : page * 4]
