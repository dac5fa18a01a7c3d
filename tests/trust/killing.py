"""Kill processes that remember and write back, from outside and at random moments; then do it again, to the end.

Run as a script by the test of kills: `python killing.py FOLDER POINTS`. Prints, as JSON, how each process ended, what the
store holds of each user after a second run, and what it holds where nobody was disturbed. All processes are forks of
this one, since importing takes longer than remembering.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dualmem import DualMem
from dualmem.lifecycle import violations
from dualmem.stores.backend import Filter
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS, is_any, of_user
from dualmem.testing import ScriptedChatModel, WordEmbeddings

SEED = 8
FACT = "Ana's brother Rui paints houses in Faro."
SPOKEN = [
    {"role": "user", "name": "Ana", "content": text, "timestamp": f"2024-03-0{day}T10:00:00+00:00"}
    for day, text in enumerate(
        (
            "Ana lives in Berlin.",
            "Ana owns a boat, and Ana's brother Rui paints houses in Faro.",
            "Ana lives in Porto.",
        ),
        1,
    )
]

_file = Path(__file__).parents[1] / "graphs" / "crashing.py"
_spec = spec_from_file_location("crashing", _file)
assert _spec is not None
assert _spec.loader is not None
crashing: Any = module_from_spec(_spec)
_spec.loader.exec_module(crashing)


def opened(folder: Path, model: ScriptedChatModel | None = None, **options: Any) -> DualMem:
    return DualMem(store=str(folder), chat_model=model, embeddings=WordEmbeddings(), **options)


def extract(prompt: str) -> dict[str, Any]:
    """Overlook what is said of the brother."""
    found = crashing.extract(prompt)
    for item in found["memories"]:
        item["text"] = item["quote"] = item["text"].partition(", and")[0]
    return found  # type: ignore[no-any-return] # of a module that is loaded by its path


async def remember(folder: Path, user: str) -> None:
    """Remember the conversation, window by window."""
    script = {"extract": extract, "consolidate": crashing.decide, "evolve": {"relations": []}}
    async with opened(folder, ScriptedChatModel(script=script), window_turns=1, batch_windows=1) as memory:
        await memory.remember(SPOKEN, user_id=user)


async def ask(folder: Path, user: str) -> None:
    """Ask for what was overlooked, so that it is written back."""
    script = {
        "answer": {"cites": ["F1"], "found": True, "answer": "Houses."},
        "deliberate.extract": {"facts": [{"turns": [2], "fact": FACT, "score": 9}]},
        "consolidate": crashing.decide,
    }
    async with opened(folder, ScriptedChatModel(script=script), gate="always", check_support=False) as memory:
        await memory.recall("What does Ana's brother paint?", user_id=user)


WORK: dict[str, Callable[[Path, str], Coroutine[Any, Any, None]]] = {"remember": remember, "ask": ask}


def run(kind: str, folder: Path, user: str) -> float:
    """Do it in this process; return how long it took, in seconds."""
    started = time.monotonic()
    asyncio.run(WORK[kind](folder, user))
    return time.monotonic() - started


def killed(work: Callable[[], Any], after: float) -> int:
    """Do `work` in a process that is killed after some seconds; return what ended it."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def holdings(folder: Path, users: list[str]) -> dict[str, Any]:
    """Return what the store holds of each user, by texts: ids differ from user to user."""
    held = {}
    async with opened(folder) as memory:
        store = memory.resources.store
        assert await store.open(create=False)
        for user in users:
            turns, made = await store.turns(user), await memory.memories(user_id=user, states=())
            texts = {one.id: one.text for one in made}
            rows = await store._backend.scroll(TURNS, of_user(user))
            points = [key for key, _ in await store._backend.scroll(MEMORIES, of_user(user), ids_only=True)]
            held[user] = {
                "turns": sorted((turn.position, turn.text, turn.state) for turn in turns),
                "indexed": sorted(str(row["indexed"]) for _, row in rows),
                "memories": sorted(
                    [one.text, one.state, one.origin, sorted([link.relation, texts[link.target]] for link in one.links)]
                    for one in made
                ),
                "vectors": len(await store._backend.vectors(MEMORIES, points, "semantic")),
                "violations": [str(one) for one in violations(made)],
                "open": await store._backend.count(
                    CONTROL, Filter((is_any("user_id", user), is_any("what", "commit")))
                ),
            }
    return held


def main(folder: Path, points: int) -> None:
    """Kill, do it again, and print what is left."""
    chance = random.Random(SEED)  # noqa: S311 - moments, to be repeated as far as moments can be
    store, calm = folder / "killed", folder / "calm"
    crashing.fork(partial(run, "remember", store, "first"))
    longest = {}
    for place in (calm, store):
        longest = {kind: float(crashing.fork(partial(run, kind, place, "undisturbed"))[1]) for kind in WORK}
    users = {f"{kind} {number}": kind for number in range(points) for kind in (list(WORK)[number % len(WORK)],)}
    ends = {}
    for user, kind in users.items():
        if kind == "ask":
            crashing.fork(partial(run, "remember", store, user))
        ends[user] = killed(partial(run, kind, store, user), chance.uniform(0.0, longest[kind]))
        crashing.fork(partial(run, kind, store, user))

    _, left = crashing.fork(lambda: asyncio.run(holdings(store, list(users))))
    for kind in WORK:
        crashing.fork(partial(run, kind, calm, "both"))
    crashing.fork(partial(run, "remember", calm, "one"))
    _, without = crashing.fork(lambda: asyncio.run(holdings(calm, ["one", "both"])))
    sys.stdout.write(json.dumps({"ends": ends, "kinds": users, "left": left, "calm": without}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
