"""Whatever many users do in any order, nobody ever sees, changes or removes anything of another.

`TRUST_OPERATIONS` sets how many operations are done, 300 by default; the long form is 10000.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from dualmem import DualMem
from dualmem.errors import InputError, InvalidUser, NotFound
from dualmem.records import Scope
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
OPERATIONS = int(os.environ.get("TRUST_OPERATIONS", "300"))

ALIKE = (
    "ana",
    "Ana",
    "ana.",
    "ana.b",
    "ana/b",
    "ana b",
    "an",
    "anaa",
    "ána",
    "ana@x.org",
    "ana%",
    "ana*",
    "*",
    "7",
    "07",
)
"""Ids that a careless comparison could take for each other; the rest of the hundred are numbered."""
USERS = (*ALIKE, *(f"user-{number}" for number in range(100 - len(ALIKE))))

WORDS = ("boat", "house", "garden", "river", "bread", "violin", "train", "winter", "letter", "market")
SECRET = re.compile(r"secret(\d+)x")


class Crowd:
    """A hundred users over one store; what each is shown is checked for the marks of the others."""

    def __init__(self, memory: DualMem, seed: int) -> None:
        self.memory = memory
        self.random = random.Random(seed)  # noqa: S311 - to be repeated
        self.memories: dict[str, set[str]] = {user: set() for user in USERS}
        self.turns: dict[str, set[str]] = {user: set() for user in USERS}
        self.done: Counter[str] = Counter()
        self.said = 0

    def check(self, user: str, shown: object) -> None:
        """Everything that is shown to a user must be of that user."""
        marks = {int(found) for found in SECRET.findall(str(shown))}
        assert marks <= {USERS.index(user)}, f"{user!r} was shown what is of {[USERS[mark] for mark in marks]}"

    def text(self, user: str) -> str:
        self.said += 1
        return f"My {self.random.choice(WORDS)} {self.said} is secret{USERS.index(user)}x and I like it."

    async def remember(self, user: str, other: str) -> None:
        """Messages come with fields that name somebody else."""
        foreign = {"user_id": other, "id": f"{other}-1", "metadata": {"user_id": other, "state": "active"}}
        text = self.text(user)
        message: Any = self.random.choice(
            (
                {"role": "user", "content": text},
                {"role": "user", "content": text, **foreign},
                HumanMessage(text, additional_kwargs=foreign, response_metadata=foreign, name=other),
            )
        )
        conversation = self.random.choice(("default", "chat", other))
        receipt = await self.memory.remember([message], user_id=user, conversation_id=conversation)
        assert receipt.user_id == user
        await self.learn(user)

    async def learn(self, user: str) -> None:
        made = await self.memory.memories(user_id=user, states=())
        assert {one.user_id for one in made} <= {user}
        self.check(user, made)
        self.memories[user] = {one.id for one in made}
        turns = await self.memory.resources.store.turns(user)
        self.check(user, turns)
        self.turns[user] = {turn.id for turn in turns}

    async def search(self, user: str, other: str) -> None:
        question = f"What about my {self.random.choice(WORDS)}, of user {other}?"
        scope = self.random.choice((None, Scope(conversation_ids=(other, "chat")), Scope(speakers=(other,))))
        self.check(user, await self.memory.search(question, user_id=user, scope=scope))
        self.check(user, await self.memory.context(question, user_id=user, scope=scope))

    async def recall(self, user: str, other: str) -> None:
        found = await self.memory.recall(f"Tell me all about the {self.random.choice(WORDS)}", user_id=user)
        self.check(user, found.model_dump_json())
        assert found.user_id == user
        assert {item.memory_id for item in found.evidence if item.memory_id} <= self.memories[user]
        assert other is not user

    async def read_foreign(self, user: str, other: str) -> None:
        """The ids of another are as good as none."""
        for memory_id in sorted(self.memories[other])[:1]:
            for call in (self.memory.memory, self.memory.history, self.memory.why):
                with pytest.raises(NotFound):
                    await call(memory_id, user_id=user)
            with pytest.raises(NotFound):
                await self.memory.undo(memory_id, user_id=user)
        for turn_id in sorted(self.turns[other])[:1]:
            with pytest.raises(NotFound):
                await self.memory.turn(turn_id, user_id=user)
            with pytest.raises(NotFound):
                await self.memory.from_turn(turn_id, user_id=user)

    async def forget_foreign(self, user: str, other: str) -> None:
        foreign: list[dict[str, Any]] = [
            *({"memory_id": one} for one in sorted(self.memories[other])[:1]),
            *({"turn_id": one} for one in sorted(self.turns[other])[:1]),
        ]
        for given in foreign:
            with pytest.raises(NotFound):
                await self.memory.forget(user_id=user, **given)
        await self.unchanged(other)

    async def unchanged(self, user: str) -> None:
        memories, turns = self.memories[user], self.turns[user]
        await self.learn(user)
        assert (self.memories[user], self.turns[user]) == (memories, turns)

    async def forget(self, user: str, other: str) -> None:
        what = self.random.choice(("memory_id", "turn_id", "conversation_id", "everything"))
        if what == "everything" and self.random.random() < 0.8:
            return
        own: dict[str, list[Any]] = {
            "memory_id": sorted(self.memories[user]),
            "turn_id": sorted(self.turns[user]),
            "conversation_id": ["chat", other],
            "everything": [True],
        }
        if own[what]:
            await self.memory.forget(user_id=user, **{what: self.random.choice(own[what])})
        await self.learn(user)
        await self.unchanged(other)

    async def export(self, user: str, _: str) -> None:
        self.check(user, [line async for line in self.memory.export(user_id=user)])

    async def doctor(self, user: str, _: str) -> None:
        (diagnosis,) = await self.memory.doctor(user_id=user)
        self.check(user, diagnosis)

    async def nobody(self, _: str, other: str) -> None:
        """A missing or blank user is an error, wherever one is named."""
        blank: Any = self.random.choice(
            ("", " ", "\n", "\u200b", None, [], {"user_id": other}, True, b"ana", f"{other}\x00")
        )
        calls: list[Callable[[], Any]] = [
            lambda: self.memory.remember([("user", "hello there")], user_id=blank),
            lambda: self.memory.recall("Where?", user_id=blank),
            lambda: self.memory.search("Where?", user_id=blank),
            lambda: self.memory.memories(user_id=blank),
            lambda: self.memory.forget(user_id=blank, everything=True),
            lambda: self.memory.resume(user_id=blank),
        ]
        for call in calls:
            with pytest.raises(InvalidUser):
                await call()
        with pytest.raises(InvalidUser):
            self.memory.export(user_id=blank)

    async def scope(self, user: str, other: str) -> None:
        """A scope narrows one's own memory, and cannot name another's."""
        foreign: Any = {"user_id": other}
        with pytest.raises(InputError):
            await self.memory.recall("Where?", user_id=user, scope=foreign)

    async def run(self, operations: int) -> None:
        names = (
            "remember",
            "search",
            "recall",
            "read_foreign",
            "forget_foreign",
            "forget",
            "export",
            "doctor",
            "nobody",
            "scope",
        )
        weights = (30, 20, 10, 10, 5, 6, 3, 1, 2, 2)
        # In the short form a few users meet often; in the long one all of them do.
        crowd = USERS if operations >= 5_000 else (*ALIKE[:6], *USERS[-2:])
        for _ in range(operations):
            (name,) = self.random.choices(names, weights)
            user, other = self.random.sample(crowd, 2)
            await getattr(self, name)(user, other)
            self.done[name] += 1
        for user in crowd:
            await self.unchanged(user)


def repeat_evidence(prompt: str) -> dict[str, Any]:
    """Answer with all that stands in the prompt, so that what leaks into it is seen."""
    return {"cites": re.findall(r"\[([MT]\d+)\]", prompt), "found": True, "answer": prompt[-4000:]}


async def test_nobody_sees_another(open_memory: Open) -> None:
    memory = open_memory(
        ScriptedChatModel(script={"answer": repeat_evidence}), strategy="verbatim", gate="never", context_tokens=400
    )
    crowd = Crowd(memory, seed=8)
    await crowd.run(OPERATIONS)
    assert all(crowd.done.values())
    assert set(crowd.done) >= {"remember", "search", "recall", "read_foreign", "forget"}
    assert sum(map(len, crowd.memories.values())) > 20


async def test_metadata_names_no_user(open_memory: Open) -> None:
    memory = open_memory(strategy="verbatim")
    message = {"role": "user", "content": "I have a boat.", "user_id": "bea", "metadata": {"user_id": "bea"}}
    await memory.remember([message], user_id="ana")
    assert await memory.memories(user_id="bea", states=()) == []
    assert await memory.resources.store.turns("bea") == []
    (made,) = await memory.memories(user_id="ana")
    assert made.user_id == "ana"


async def test_an_export_of_one_becomes_nobody_elses_by_its_contents(open_memory: Open) -> None:
    """Lines of an export may name whom they like: what is loaded becomes the user's it is loaded for."""
    memory = open_memory(strategy="verbatim")
    await memory.remember([("user", "I have a boat.")], user_id="ana")
    await memory.remember([("user", "I have a house.")], user_id="bea")
    lines = [line async for line in memory.export(user_id="ana")]
    changed = [lines[0], *(line.replace('"ana"', '"bea"') for line in lines[1:])]
    assert changed != lines
    with contextlib.suppress(InputError):
        await memory.load(changed, user_id="cyd")
    assert [one.text for one in await memory.memories(user_id="bea")] == ["I have a house."]
    assert all(one.user_id == "cyd" for one in await memory.memories(user_id="cyd", states=()))
