"""Compact merge: one memory is written that takes the place of two (MemoryLACE's ablation)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.lifecycle import violations
from dualmem.records import Memory
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]


def same(target: str = "A", merged: str = "") -> dict[str, Any]:
    return {
        "new": 1,
        "target": target,
        "same": True,
        "both": True,
        "sign": "",
        "reason": "the same boat",
        "merged": merged,
    }


async def told(memory: DualMem, chat_of: Make, *lines: str) -> list[Memory]:
    for number, line in enumerate(lines):
        await memory.remember(chat_of(f"Ana: {line}", start=number), user_id="ana", conversation_id=str(number))
    memories = await memory.memories(user_id="ana", states=())
    assert violations(memories) == []
    return memories


@pytest.mark.parametrize(
    ("merged", "text"),
    [
        ("Ana owns a blue boat, bought in May.", "Ana owns a blue boat, bought in May."),
        # What holds too few of the words of both is not taken.
        ("Ana is fine.", "Ana owns a blue boat. Ana bought a boat in May."),
        ("", "Ana owns a blue boat. Ana bought a boat in May."),
    ],
)
async def test_one_memory_takes_the_place_of_both(
    open_memory: Open, reader: Make, chat_of: Make, merged: str, text: str
) -> None:
    model = reader(consolidate={"decisions": [same(merged=merged)]})
    memory = open_memory(model, merge="compact", evolution=False, candidate_similarity=0.0)
    memories = await told(memory, chat_of, "Ana owns a blue boat.", "Ana bought a boat in May.")
    first, second, whole = sorted(memories, key=lambda one: (one.origin, one.told))
    assert [one.state for one in (first, second, whole)] == ["merged", "merged", "active"]
    assert (whole.text, whole.origin) == (text, "merge")
    assert whole.turn_ids == (*first.turn_ids, *second.turn_ids)
    assert whole.known_at == second.known_at
    found = [item for item in await memory.search("Which boat does Ana own?", user_id="ana") if item.memory_id]
    assert [item.text for item in found] == [text]
    asked = next(messages for step, messages in model.prompts if step == "consolidate")
    assert "merged:" in asked[0].text


async def test_of_two_that_say_the_same_the_longer_one_is_kept(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(consolidate={"decisions": [same()]}), merge="compact", candidate_similarity=0.0)
    memories = await told(memory, chat_of, "Ana owns a boat.", "Ana owns a blue boat.")
    assert [one.text for one in memories if one.active] == ["Ana owns a blue boat."]


async def test_a_merge_takes_the_place_of_a_state_in_its_chain(open_memory: Open, reader: Make, chat_of: Make) -> None:
    changed = {"new": 1, "target": "A", "same": False, "both": False, "sign": "later", "reason": "moved"}
    replies = [{"decisions": [changed]}, {"decisions": [same()]}, {"decisions": [changed]}]
    memory = open_memory(reader(consolidate=replies), merge="compact", candidate_similarity=0.0, evolution=False)
    lines = ("Ana lives in Berlin.", "Ana lives in Porto.", "Ana lives in old Porto.", "Ana lives in Faro.")
    memories = await told(memory, chat_of, *lines)
    head = next(one for one in memories if one.active)
    chain = await memory.history(head.id, user_id="ana")
    assert [(one.text, one.origin) for one in chain] == [
        ("Ana lives in Berlin.", "extraction"),
        ("Ana lives in old Porto.", "merge"),
        ("Ana lives in Faro.", "extraction"),
    ]


async def test_forgetting_a_part_takes_what_was_written_with_its_words(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    memory = open_memory(reader(consolidate={"decisions": [same()]}), merge="compact", candidate_similarity=0.0)
    await told(memory, chat_of, "Ana owns a boat.", "Ana owns a blue boat.")
    turn = next(one for one in await memory.resources.store.turns("ana") if "blue" in one.text)
    receipt = await memory.forget(user_id="ana", turn_id=turn.id)
    assert (receipt.turns, receipt.memories, receipt.restored) == (1, 2, 1)
    (left,) = await memory.memories(user_id="ana", states=())
    assert (left.text, left.state, left.links) == ("Ana owns a boat.", "active", ())


async def test_a_small_model_is_not_asked_for_the_text(open_memory: Open, chat_of: Make, reader: Make) -> None:
    pair = {"old_about": "boat", "new_about": "boat", "sign": "", "relation": "same"}
    model = reader(consolidate=None, repair=pair)
    assert isinstance(model, ScriptedChatModel)
    memory = open_memory(model, merge="compact", extraction="lean", candidate_similarity=0.0, compete_similarity=-1)
    memories = await told(memory, chat_of, "Ana owns a boat.", "Ana owns a blue boat.")
    assert [one.text for one in memories if one.active] == ["Ana owns a blue boat."]


async def test_by_default_both_stay(open_memory: Open, reader: Make, chat_of: Make) -> None:
    model = reader(consolidate={"decisions": [same()]})
    memory = open_memory(model, candidate_similarity=0.0)
    memories = await told(memory, chat_of, "Ana owns a boat.", "Ana owns a blue boat.")
    assert [one.state for one in memories] == ["active", "active"]
    asked = next(messages for step, messages in model.prompts if step == "consolidate")
    assert "merged:" not in asked[0].text
