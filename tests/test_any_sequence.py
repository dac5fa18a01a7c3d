"""The rules of the lifecycle over a real store, through any sequence of operations and with crashes between writes.

`LIFECYCLE_OPERATIONS` sets how many operations are run, some hundred by default.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dualmem import DualMem
from dualmem.identity import memory_id, stable_id
from dualmem.ingestion.decisions import Proposal, carry_out
from dualmem.lifecycle import WorkingSet, violations
from dualmem.records import Interval, Memory, Source, Turn
from dualmem.stores.backend import Filter
from dualmem.stores.commit import Commit
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS, of_user, specs
from dualmem.testing import WordEmbeddings

OPERATIONS = int(os.environ.get("LIFECYCLE_OPERATIONS", "400"))
STEPS = 40
"""Operations on one store."""

START = datetime(2024, 3, 1, tzinfo=UTC)
USER = "ana"
Strategy = Literal["supersede", "contradict", "merge", "compact", "absorb"]
STRATEGIES: tuple[Strategy, ...] = ("supersede", "contradict", "merge", "compact", "absorb")


class Crashed(Exception):
    """The process is gone, as far as its writes are concerned."""


class Mortal(EdgeBackend):
    """A backend that dies at a write, when a part of its items is stored, and then writes nothing more."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.left = -1
        self.part = 0.0

    async def _write(self, items: Sequence[Any], write: Callable[[Sequence[Any]], Coroutine[Any, Any, None]]) -> None:
        if not items:
            return
        if self.left == 0:
            done, self.part = items[: int(len(items) * self.part)], 0.0
            await write(done)
            raise Crashed
        self.left -= self.left > 0
        await write(items)

    async def upsert(self, collection: str, points: Sequence[Any], *, only_new: bool = False) -> None:
        await self._write(points, lambda some: EdgeBackend.upsert(self, collection, some, only_new=only_new))

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Any) -> None:
        await self._write(ids, lambda some: EdgeBackend.set_payload(self, collection, some, payload))

    async def set_vectors(self, collection: str, points: Sequence[Any]) -> None:
        await self._write(points, lambda some: EdgeBackend.set_vectors(self, collection, some))

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        await self._write(ids, lambda some: EdgeBackend.delete(self, collection, some))


class Lifecycle(RuleBasedStateMachine):
    """One user's memory, told, related, forgotten and put back in any order."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.keeper = EdgeBackend(self.folder / "store")  # keeps the folder open from one process to the next
        self.counter = 0
        self.texts: dict[str, str] = {}
        self.erased: set[str] = set()
        self.expected: dict[str, Memory] | None = None
        self.start()
        self.run(lambda: self.keeper.open(specs(16), create=True))

    def start(self) -> None:
        """Begin as a new process."""
        self.backend = Mortal(self.folder / "store")
        self.memory = DualMem(backend=self.backend, embeddings=WordEmbeddings(16), chat_model=None, store="none")

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.memory.close())
            self.runner.run(self.keeper.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.runner.run(work())

    def attempt(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Do something; where the process dies of it, begin again, look at what is left, and do it once more."""
        before = self.held()
        self.expected = None
        try:
            self.run(work)
        except Crashed:
            self.run(self.memory.close)
            self.start()
            self.run(self.recover)
            left = self.held()
            assert left in (before, self.expected), "neither all of the commit nor nothing of it"
            if left == before:
                self.run(work)
        self.backend.left = -1

    async def recover(self) -> None:
        async with self.memory.resources.store.writer(USER):
            pass

    def held(self) -> dict[str, Memory]:
        async def look() -> dict[str, Memory]:
            store = self.memory.resources.store
            await store.open(create=True)
            return {memory.id: memory for memory in await store.memories(of_user(USER))}

        found: dict[str, Memory] = self.run(look)
        return found

    async def commit(self, commit: Commit, before: dict[str, Memory]) -> None:
        """Write a commit, and note what should be there after it."""
        after = {**before, **{memory.id: memory for memory in (*commit.new, *commit.changed)}}
        self.expected = {key: memory for key, memory in after.items() if key not in commit.forgotten_ids}
        await self.memory.resources.store.commit(commit)

    # Operations

    @rule(
        day=st.integers(0, 9),
        holds=st.none() | st.integers(0, 9),
        conversation=st.sampled_from(["one", "two"]),
        proposals=st.lists(st.tuples(st.sampled_from(STRATEGIES), st.integers(0, 99)), max_size=3),
        fresh=st.integers(1, 3),
        before_last=st.booleans(),
    )
    def tell(
        self,
        day: int,
        holds: int | None,
        conversation: str,
        proposals: list[tuple[Strategy, int]],
        fresh: int,
        before_last: bool,
    ) -> None:
        """A batch of new memories comes, each from a turn of its own or, too, from an earlier one, and is related."""
        made = [self.make(day, holds, conversation, shared=before_last) for _ in range(fresh)]
        turns = [turn for turn, _ in made]
        new = [memory for _, memory in made]

        async def work() -> None:
            store = self.memory.resources.store
            async with store.writer(USER):
                await store.add_turns(turns)
                await store.index_turns(USER, conversation)
                known = {memory.id: memory for memory in await store.memories(of_user(USER))}
                working = WorkingSet()
                working.load(known.values())
                for memory in new:
                    working.add(memory)
                ids = [*sorted(known), *(memory.id for memory in new)]
                asked = [
                    Proposal(new[place % len(new)].id, ids[number % len(ids)], strategy, f"reason {number}")
                    for place, (strategy, number) in enumerate(proposals)
                ]
                carry_out(asked, working, at=START + timedelta(days=100, seconds=self.counter), retirements=9)
                await self.commit(
                    Commit(
                        USER,
                        new=tuple(working.memories[key] for key in working.new),
                        changed=tuple(working.memories[key] for key in working.changed),
                        read_turn_ids=tuple(turn.id for turn in turns),
                    ),
                    known,
                )

        self.attempt(work)

    def make(self, day: int, holds: int | None, conversation: str, *, shared: bool) -> tuple[Turn, Memory]:
        self.counter += 1
        text = f"Ana says word{self.counter}."
        said = START + timedelta(days=day)
        turn = Turn(
            id=stable_id("turn", str(self.counter)),
            user_id=USER,
            conversation_id=conversation,
            position=self.counter,
            speaker="Ana",
            role="user",
            text=text,
            said_at=said,
            recorded_at=START,
        )
        sources = [Source(turn_id=turn.id, quote=text)]
        if shared and self.counter > 1:
            sources.append(Source(turn_id=stable_id("turn", str(self.counter - 1)), quote=""))
        start = None if holds is None else START + timedelta(days=100 * holds)
        memory = Memory(
            id=memory_id(USER, text, [source.turn_id for source in sources]),
            user_id=USER,
            conversation_id=conversation,
            text=text,
            kind="state",
            speaker="Ana",
            subject="Ana",
            valid=None if start is None else Interval(start=start, end=start, precision="day"),
            known_at=said,
            recorded_at=START,
            sources=tuple(sources),
            position=self.counter,
        )
        self.texts[memory.id] = text
        return turn, memory

    @precondition(lambda self: len(self.texts) > 1)
    @rule(strategy=st.sampled_from(STRATEGIES[:4]), left=st.integers(0, 99), right=st.integers(0, 99))
    def review(self, strategy: Strategy, left: int, right: int) -> None:
        """Two memories that are there are related, as by the review of a batch."""

        async def work() -> None:
            store = self.memory.resources.store
            async with store.writer(USER):
                known = {memory.id: memory for memory in await store.memories(of_user(USER))}
                if len(known) < 2:
                    return
                working = WorkingSet()
                working.load(known.values())
                ids = sorted(known)
                pair = Proposal(ids[left % len(ids)], ids[right % len(ids)], strategy, "review")
                carry_out([pair], working, at=START + timedelta(days=200), retirements=9)
                await self.commit(
                    Commit(
                        USER,
                        new=tuple(working.memories[key] for key in working.new),
                        changed=tuple(working.memories[key] for key in working.changed),
                    ),
                    known,
                )

        self.attempt(work)

    @rule(number=st.integers(0, 99))
    def undo(self, number: int) -> None:
        """A decision is taken back."""
        memories = self.held()
        linked = sorted(key for key, memory in memories.items() if memory.links)
        if not linked:
            return

        async def work() -> None:
            found = await self.memory.why(linked[number % len(linked)], user_id=USER)
            assert found.decisions
            active = {key for key, memory in self.now.items() if memory.active}
            undone = await self.memory.undo(found.decisions[0].id, user_id=USER)
            assert not active & set(undone.active_again)

        self.now = memories
        self.following(work)

    @rule(what=st.sampled_from(["memory", "turn", "conversation", "time"]), number=st.integers(0, 99))
    def forget(self, what: str, number: int) -> None:
        """Something is erased, and what it said is nowhere any longer."""
        memories = sorted(self.held().values(), key=lambda memory: memory.id)
        if not memories:
            return
        memory = memories[number % len(memories)]
        selections: dict[str, dict[str, Any]] = {
            "memory": {"memory_id": memory.id},
            "turn": {"turn_id": memory.sources[0].turn_id},
            "conversation": {"conversation_id": memory.conversation_id},
            "time": {"since": memory.known_at, "until": memory.known_at + timedelta(hours=1)},
        }
        given = selections[what]

        async def work() -> None:
            known = {turn.id for turn in await self.memory.resources.store.turns(USER)}
            if what == "turn" and given["turn_id"] not in known:
                return
            await self.memory.forget(user_id=USER, **given)

        self.following(work)
        left = self.held()
        turns = {turn.id for turn in self.run(lambda: self.memory.resources.store.turns(USER))}
        for one in memories:
            if one.id not in left and one.id in self.texts and not turns & set(one.turn_ids[:1]):
                self.erased.add(one.text)

    def following(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what writes its own commit; note that one."""
        store_type = type(self.memory.resources.store)
        write = store_type.commit
        before = self.held()

        async def noting(store: Any, commit: Commit) -> None:
            after = {**before, **{memory.id: memory for memory in (*commit.new, *commit.changed)}}
            self.expected = {key: memory for key, memory in after.items() if key not in commit.forgotten_ids}
            await write(store, commit)

        store_type.commit = noting  # type: ignore[method-assign, assignment] # its second argument has another name
        try:
            self.attempt(work)
        finally:
            store_type.commit = write  # type: ignore[method-assign] # puts back what was there

    @rule()
    def doctor(self) -> None:
        """There is nothing to mend."""
        for diagnosis in self.run(lambda: self.memory.doctor(repair=True)):
            faults = [fault for fault in diagnosis.faults if "turns do not exist" not in fault]
            assert faults == []

    @rule()
    def carry_away_and_back(self) -> None:
        """An export of everything, loaded again, changes nothing."""
        before = self.held()

        async def work() -> None:
            lines = [line async for line in self.memory.export(user_id=USER)]
            receipt = await self.memory.load(lines)
            assert (receipt.memories_stored, receipt.links_mended) == (0, 0)

        self.run(work)
        assert self.held() == before

    @rule(moment=st.integers(-1, 10))
    def look_back(self, moment: int) -> None:
        """As of a time there is what had been told by then, and it is whole."""
        then = START + timedelta(days=moment)
        seen = self.run(lambda: self.memory.memories(user_id=USER, states=(), as_of=then))
        assert violations(seen) == []
        assert all(memory.known_at <= then for memory in seen)

    @rule(writes=st.integers(0, 6), part=st.sampled_from([0.0, 0.5, 1.0]))
    def crash_soon(self, writes: int, part: float) -> None:
        """The process will die at one of its next writes."""
        self.backend.left, self.backend.part = writes, part

    # What holds at all times

    @invariant()
    def rules_hold(self) -> None:
        if not hasattr(self, "runner"):
            return
        memories = self.held()
        assert violations(memories.values()) == []
        for memory in memories.values():
            assert self.texts.get(memory.id, memory.text) == memory.text, "no text changes"
            head = self.head_of(memory, memories)
            assert head.active, "every earlier state leads to one in force"

    def head_of(self, memory: Memory, memories: dict[str, Memory]) -> Memory:
        while later := (*memory.linked("superseded_by"), *memory.linked("merged_into")):
            memory = memories[later[0]]
        return memory

    @invariant()
    def erased_is_nowhere(self) -> None:
        if not hasattr(self, "runner") or not self.erased:
            return

        async def all_of_it() -> str:
            return str([await self.backend.scroll(name, Filter()) for name in (TURNS, MEMORIES, CONTROL)])

        stored = self.run(all_of_it)
        assert not [text for text in self.erased if text.removeprefix("Ana says ") in stored]


TestAnySequence = Lifecycle.TestCase
TestAnySequence.settings = settings(
    max_examples=max(1, OPERATIONS // STEPS),
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
