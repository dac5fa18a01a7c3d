"""Why a memory is as it is, what a turn led to, and taking a decision back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import InputError, NotFound
from dualmem.lifecycle import violations
from dualmem.records import Memory

Open = Callable[..., DualMem]
Make = Callable[..., Any]
LINES = ("Ana: Ana lives in Berlin.", "Ana: Ana lives in Porto.", "Ana: Ana owns a boat.", "Ana: Ana lives in Faro.")


@pytest.fixture
async def memory(open_memory: Open, reader: Make, chat_of: Make) -> DualMem:
    """A memory that holds Berlin, Porto and Faro in a chain, and a boat."""
    made = open_memory(reader())
    await made.remember(chat_of(*LINES), user_id="ana", conversation_id="chat")
    return made


async def states(memory: DualMem) -> dict[str, str]:
    held = await memory.memories(user_id="ana", states=())
    assert violations(held) == []
    return {one.text.split()[-1].rstrip("."): one.state for one in held}


async def named(memory: DualMem, text: str) -> Memory:
    return next(one for one in await memory.memories(user_id="ana", states=()) if text in one.text)


async def test_why_tells_who_retired_a_memory_when_from_which_turns_and_with_which_reason(memory: DualMem) -> None:
    found = await memory.why((await named(memory, "Porto")).id[:8], user_id="ana")
    assert [turn.text for turn in found.sources] == ["Ana lives in Porto."]
    retired, retires = found.decisions
    assert (retired.relation, retired.later.text, retired.earlier.text) == (
        "supersedes",
        "Ana lives in Faro.",
        "Ana lives in Porto.",
    )
    assert (retired.reason, [turn.text for turn in retired.turns]) == ("lives changed", ["Ana lives in Faro."])
    assert retired.at == (await named(memory, "Porto")).links[-1].at
    assert (retires.later.text, retires.earlier.text) == ("Ana lives in Porto.", "Ana lives in Berlin.")
    assert retired.id in {
        one.id for one in (await memory.why((await named(memory, "Faro")).id, user_id="ana")).decisions
    }
    assert (await memory.why((await named(memory, "boat")).id, user_id="ana")).decisions == ()


async def test_why_of_what_is_not_there(memory: DualMem) -> None:
    for identifier, user in (("nothing", "ana"), ((await named(memory, "boat")).id, "bea")):
        with pytest.raises(NotFound):
            await memory.why(identifier, user_id=user)


async def test_undo_by_a_retired_memory(memory: DualMem) -> None:
    porto = await named(memory, "Porto")
    undone = await memory.undo(porto.id[:8], user_id="ana")
    assert (undone.active_again, undone.decision.reason) == ((porto.id,), "lives changed")
    assert await states(memory) == {"Berlin": "superseded", "Porto": "active", "boat": "active", "Faro": "active"}
    assert [item.text for item in await memory.search("Where does Ana live?", user_id="ana")].count(porto.text) == 1


async def test_undo_by_a_decision(memory: DualMem) -> None:
    berlin = await named(memory, "Berlin")
    (decision,) = (await memory.why(berlin.id, user_id="ana")).decisions
    await memory.undo(decision.id[:9], user_id="ana")
    assert await states(memory) == {"Berlin": "active", "Porto": "superseded", "boat": "active", "Faro": "active"}
    with pytest.raises(NotFound):
        await memory.undo(decision.id, user_id="ana")


async def test_undo_needs_one_decision(memory: DualMem) -> None:
    await memory.undo((await named(memory, "Porto")).id, user_id="ana")
    before = await states(memory)
    with pytest.raises(InputError, match="no decisions"):
        await memory.undo((await named(memory, "boat")).id, user_id="ana")
    for identifier in ("", "zzz"):
        with pytest.raises(NotFound):
            await memory.undo(identifier, user_id="ana")
    with pytest.raises(NotFound):
        await memory.undo((await named(memory, "Berlin")).id, user_id="bea")
    assert await states(memory) == before


async def test_a_memory_of_several_decisions_names_them(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(consolidate={"decisions": []}, evolve=_conflicts(("B", "A"), ("C", "A"))))
    texts = ("Ana lives in Berlin.", "Ana lives in Porto.", "Ana lives in Faro.")
    await memory.remember(chat_of(*(f"Ana: {text}" for text in texts)), user_id="ana")
    berlin = await named(memory, "Berlin")
    with pytest.raises(InputError, match="2 decisions") as caught:
        await memory.undo(berlin.id, user_id="ana")
    first, _ = (await memory.why(berlin.id, user_id="ana")).decisions
    assert first.id[:8] in str(caught.value)
    undone = await memory.undo(first.id, user_id="ana")
    assert (undone.decision.relation, undone.active_again) == ("contradicts", ())
    assert len((await memory.why(berlin.id, user_id="ana")).decisions) == 1
    await memory.undo(berlin.id, user_id="ana")
    assert all(not one.links for one in await memory.memories(user_id="ana", states=()))


def _conflicts(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {
        "relations": [
            {"later": later, "earlier": earlier, "reason": "odd", "relation": "conflicts_with"}
            for later, earlier in pairs
        ]
    }


async def test_a_merge_is_undone(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana owns a boat.", "Ana: Ana owns a boat."), user_id="ana")
    first, second = await memory.memories(user_id="ana")
    undone = await memory.undo(first.id, user_id="ana")
    assert (undone.decision.relation, undone.decision.later.id) == ("merged_with", second.id)
    assert all(not one.links for one in await memory.memories(user_id="ana"))


async def test_a_compact_merge_is_shown_and_undone(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(), merge="compact")
    await memory.remember(chat_of("Ana: Ana owns a boat.", "Ana: Ana owns a boat."), user_id="ana")
    (whole,) = await memory.memories(user_id="ana")
    parts = await memory.memories(user_id="ana", states=("merged",))
    found = await memory.why(parts[0].id, user_id="ana")
    assert [(one.relation, one.later.id, one.reason) for one in found.decisions] == [("merges", whole.id, "said again")]
    undone = await memory.undo(parts[0].id, user_id="ana")
    assert set(undone.active_again) == {one.id for one in parts}
    assert {one.id for one in await memory.memories(user_id="ana", states=())} == {one.id for one in parts}


async def test_what_came_of_a_turn(memory: DualMem, chat_of: Make) -> None:
    faro = await named(memory, "Faro")
    effects = await memory.from_turn(faro.turn_ids[0][:8], user_id="ana")
    assert effects.turn.text == "Ana lives in Faro."
    assert ([one.text for one in effects.alone], effects.shared) == (["Ana lives in Faro."], ())
    assert [one.text for one in effects.retired] == ["Ana lives in Porto."]
    receipt = await memory.forget(user_id="ana", turn_id=effects.turn.id)
    assert (receipt.memories, receipt.restored) == (len(effects.alone), len(effects.retired))


async def test_a_turn_shared_with_others(open_memory: Open, reader: Make, chat_of: Make) -> None:
    both = {"turns": [1, 2], "quote": "Ana lives", "text": "Ana lives in Porto.", "subject": "Ana"}
    memory = open_memory(reader(extract={"memories": [both]}))
    await memory.remember(chat_of("Ana: Ana lives", "Ana: in Porto."), user_id="ana")
    first, _ = await memory.resources.store.turns("ana")
    effects = await memory.from_turn(first.id, user_id="ana")
    assert ([one.text for one in effects.shared], effects.alone) == (["Ana lives in Porto."], ())
    for identifier in ("", "nothing"):
        with pytest.raises(NotFound):
            await memory.from_turn(identifier, user_id="ana")


async def test_what_was_known_already_leaves_nothing_to_take_back_and_its_turn_can_be_forgotten(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    known = {"operations": [{"new": 1, "target": "A", "operation": "NOOP", "reason": "known"}]}
    memory = open_memory(reader(update=known), preset="mem0star")
    for number, conversation in enumerate(("one", "two")):
        lines = chat_of("Ana: Ana owns a boat.", start=number)
        await memory.remember(lines, user_id="ana", conversation_id=conversation)
    (boat,) = await memory.memories(user_id="ana", states=())
    assert len(boat.turn_ids) == 2
    assert (await memory.why(boat.id, user_id="ana")).decisions == ()
    with pytest.raises(InputError, match=r"part of no decisions; .* forget its turn"):
        await memory.undo(boat.id, user_id="ana")
    receipt = await memory.forget(user_id="ana", turn_id=boat.turn_ids[1])
    assert (receipt.memories, receipt.sources) == (0, 1)
    (left,) = await memory.memories(user_id="ana", states=())
    assert left.turn_ids == boat.turn_ids[:1]
