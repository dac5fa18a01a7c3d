"""One process of a crowd over a Qdrant server, run as a script by the test of crowds.

`python crowding.py URL PREFIX write NUMBER ROUNDS USER...` tells each user something new in each round, two users at a
time. `... hold USER` takes the right to write a user's data and keeps it until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dualmem import DualMem
from dualmem.testing import ScriptedChatModel, WordEmbeddings

LEASE = 3.0
"""Seconds after which a holder that shows no life loses its user."""

_file = Path(__file__).parents[1] / "graphs" / "crashing.py"
_spec = spec_from_file_location("crashing", _file)
assert _spec is not None
assert _spec.loader is not None
crashing: Any = module_from_spec(_spec)
_spec.loader.exec_module(crashing)


def opened(url: str, prefix: str) -> DualMem:
    script = {"extract": crashing.extract, "consolidate": crashing.decide, "evolve": {"relations": []}}
    return DualMem(
        store=url,
        collection_prefix=prefix,
        chat_model=ScriptedChatModel(script=script),
        embeddings=WordEmbeddings(),
        lease_seconds=LEASE,
        candidate_similarity=-1.0,
        similar_memories=50,
    )


async def write(memory: DualMem, number: int, rounds: int, users: list[str]) -> None:
    for round_ in range(rounds):
        said = f"2024-03-{1 + number * rounds + round_:02}T10:00:00+00:00"
        texts = (f"Ana lives in town{number} since {round_}.", f"Ana owns boat {number} {round_}.")
        told = [{"role": "user", "name": "Ana", "content": text, "timestamp": said} for text in texts]
        # Two processes tell into one conversation.
        conversation = f"chat {number // 2}"
        await asyncio.gather(*(memory.remember(told, user_id=user, conversation_id=conversation) for user in users))


async def hold(memory: DualMem, user: str) -> None:
    async with memory.resources.store.writer(user):
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.sleep(3600)


async def main(url: str, prefix: str, what: str, *rest: str) -> None:
    async with opened(url, prefix) as memory:
        if what == "hold":
            await hold(memory, rest[0])
        elif what == "write":
            await write(memory, int(rest[0]), int(rest[1]), list(rest[2:]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
