"""Remember a conversation again and again, killed at every write in turn, and then to the end.

Run as a script by the test of crashes: `python crashing.py FOLDER`. Prints, as JSON, what each user's store holds after
a killed run and a second one, and what it holds after a run that nobody disturbed. Each run is a process of its own;
all are forks of this one, since importing takes longer than remembering.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dualmem import DualMem
from dualmem.stores.backend import Filter
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS, is_any, of_user
from dualmem.testing import ScriptedChatModel, WordEmbeddings

LINES = (
    "Ana lives in Berlin.",
    "Ana owns a boat.",
    "Ana lives in Porto.",
    "Ana owns a boat.",
)
MESSAGES = [
    {"role": "user", "name": "Ana", "content": text, "timestamp": f"2024-03-0{day}T10:00:00+00:00"}
    for day, text in enumerate(LINES, start=1)
]
OPTIONS: dict[str, Any] = {"window_turns": 2, "batch_windows": 1, "window_overlap": 1}


def extract(prompt: str) -> dict[str, Any]:
    """Make a memory of every turn of the window, and one of what nobody said."""
    shown = prompt.partition("<conversation>")[2].partition("</conversation>")[0]
    turns = re.findall(r"^\[(\d+)\] Ana: (.*)$", shown, re.MULTILINE)
    memories = [{"turns": [int(number)], "quote": text, "text": text, "subject": "Ana"} for number, text in turns]
    number, text = turns[-1]
    memories.append({"turns": [int(number)], "quote": "I said so", "text": f"It is not true that {text}"})
    return {"memories": memories}


def decide(prompt: str) -> dict[str, Any]:
    """Take homes for changes and boats for the same."""
    shown = prompt.partition("<memories>")[2].partition("</memories>")[0]
    decisions: list[dict[str, Any]] = []
    home = False
    for line in shown.splitlines():
        if new := re.match(r"New (\d+): ", line):
            home = "lives" in line
            decisions.append({"new": int(new[1]), "target": "none", "same": False, "both": True, "sign": ""})
        elif (old := re.match(r" +old: \[([A-Z]+)\] ", line)) and ("lives" in line) == home:
            decisions[-1] |= {"target": old[1], "same": not home, "both": not home, "sign": "later", "reason": "told"}
    return {"decisions": decisions}


class Dying(EdgeBackend):
    """A backend that kills its process at the N-th write, when a number of the write's items are stored."""

    def __init__(self, path: Path, *, at: int = -1, stored: int = 0) -> None:
        super().__init__(path)
        self.sizes: list[int] = []
        self._at = at
        self._stored = stored

    async def _write(self, items: Sequence[Any], write: Callable[[Sequence[Any]], Coroutine[Any, Any, None]]) -> None:
        if not items:
            return
        if len(self.sizes) == self._at:
            await write(items[: self._stored])
            os.kill(os.getpid(), signal.SIGKILL)
        self.sizes.append(len(items))
        await write(items)

    async def upsert(self, collection: str, points: Sequence[Any], *, only_new: bool = False) -> None:
        """Write points, or die."""
        await self._write(points, lambda some: EdgeBackend.upsert(self, collection, some, only_new=only_new))

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Any) -> None:
        """Set fields, or die."""
        await self._write(ids, lambda some: EdgeBackend.set_payload(self, collection, some, payload))

    async def set_vectors(self, collection: str, points: Sequence[Any]) -> None:
        """Set vectors, or die."""
        await self._write(points, lambda some: EdgeBackend.set_vectors(self, collection, some))

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove points, or die."""
        await self._write(ids, lambda some: EdgeBackend.delete(self, collection, some))


async def remember(backend: Dying, user: str) -> None:
    """Remember the conversation for a user."""
    model = ScriptedChatModel(script={"extract": extract, "consolidate": decide, "evolve": {"relations": []}})
    async with DualMem(chat_model=model, embeddings=WordEmbeddings(), backend=backend, **OPTIONS) as memory:
        await memory.remember(MESSAGES, user_id=user)


async def holdings(backend: Dying, user: str) -> dict[str, Any]:
    """Return what the store holds of a user, without the times at which it was written."""
    async with DualMem(embeddings=WordEmbeddings(), backend=backend) as memory:
        store = memory.resources.store
        assert await store.open(create=False)
        where = of_user(user)
        turns = await backend.scroll(TURNS, where, order_by="position")
        memories = await memory.memories(user_id=user, states=())
        stored = await backend.scroll(MEMORIES, where, ids_only=True)
        commits = await backend.count(CONTROL, Filter((is_any("user_id", user), is_any("what", "commit"))))
        rejections = await memory.rejections(user_id=user)
        found = await memory.search("Where does Ana live, and what does she own?", user_id=user)
        return {
            "turns": [[key, row["text"], row["position"], row["state"], row["indexed"]] for key, row in turns],
            "memories": [
                [one.id, one.text, one.state, one.known_at.isoformat(), str(one.retired_at), list(one.turn_ids)]
                + [sorted([link.relation, link.target, link.reason] for link in one.links)]
                for one in memories
            ],
            "stored": sorted(key for key, _ in stored),
            "vectors": sorted(await backend.vectors(TURNS, [key for key, _ in turns], "semantic")),
            "memory_vectors": sorted(await backend.vectors(MEMORIES, [key for key, _ in stored], "semantic")),
            "rejections": sorted([one.id, one.text, *one.turn_ids] for one in rejections),
            "open_commits": commits,
            "found": sorted({item.memory_id or item.source_turn_ids[0] for item in found}),
        }


def fork(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do `work` in a process of its own; return what ended it and what it gave."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return -os.WTERMSIG(status), None
    return os.WEXITSTATUS(status), json.loads(text) if text else None


def run(folder: Path, user: str, *, at: int = -1, stored: int = 0) -> list[int]:
    """Remember in this process; return the sizes of the writes it took."""
    backend = Dying(folder, at=at, stored=stored)
    asyncio.run(remember(backend, user))
    return backend.sizes


def main(folder: Path) -> None:
    """Kill at every write, and print what is left after another run."""
    killed, calm = folder / "killed", folder / "calm"
    ends: dict[str, int] = {}
    # The very first write names the embedding model: a store without it is as good as none.
    ends["first"], _ = fork(lambda: run(killed, "first", at=0))
    fork(lambda: run(killed, "first"))
    _, sizes = fork(lambda: run(killed, "sizes"))
    points = [(at, stored) for at, size in enumerate(sizes) for stored in ([0] if size < 2 else [0, size // 2])]
    for at, stored in points:
        user = f"write {at} after {stored}"
        ends[user], _ = fork(partial(run, killed, user, at=at, stored=stored))
        fork(partial(run, killed, user))

    def look(place: Path) -> dict[str, Any]:
        return {user: asyncio.run(holdings(Dying(place), user)) for user in ends}

    def undisturbed() -> None:
        for user in ends:
            run(calm, user)

    fork(undisturbed)
    _, after_crashes = fork(lambda: look(killed))
    _, without = fork(lambda: look(calm))
    sys.stdout.write(json.dumps({"ends": ends, "sizes": sizes, "killed": after_crashes, "calm": without}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
