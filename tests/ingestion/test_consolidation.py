"""Candidates, and the decisions on new memories, over a real store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.context import Context
from dualmem.errors import ModelUnavailable
from dualmem.ingestion.candidates import MOST, find_candidates, memory_of
from dualmem.ingestion.consolidation import Consolidated, consolidate_memories, pair_strategy
from dualmem.ingestion.rereading import Rereading
from dualmem.lifecycle import WorkingSet, violations
from dualmem.prompts.pair_comparison import PairReply
from dualmem.records import Draft, Memory, Source
from dualmem.stores.commit import Commit
from dualmem.testing import ScriptedChatModel

NOW = datetime(2025, 1, 1, tzinfo=UTC)
Make = Callable[..., Memory]


def context_of(memory: DualMem) -> Context:
    return Context(memory.settings, memory.resources)


async def stored(memory: DualMem, *memories: Memory) -> None:
    store = memory.resources.store
    async with store.writer("ana"):
        await store.commit(Commit("ana", new=memories))


async def candidates(memory: DualMem, *new: Memory) -> dict[str, list[str]]:
    working = WorkingSet()
    await memory.resources.store.open(create=True)
    found = await find_candidates(new, context_of(memory), Rereading(working))
    assert all(other.id in working.memories or other in new for _, offered in found for other in offered)
    return {one.id: [other.id for other in offered] for one, offered in found}


def ids(a_memory: Make, *texts: str, start: int = 0, **fields: Any) -> list[Memory]:
    """Make memories with real ids; a store takes no others."""
    made = [a_memory("", day, text=text, **fields) for day, text in enumerate(texts, start=start)]
    return [
        memory_of(
            Draft(
                text=one.text,
                kind=one.kind,
                speaker=one.speaker,
                subject=one.subject,
                attribute=one.attribute,
                entities=one.entities,
                sources=one.sources,
                position=one.position,
                said_at=one.known_at,
            ),
            user_id=one.user_id,
            conversation_id="chat",
            now=NOW,
        )
        for one in made
    ]


async def test_similar_memories_are_offered_and_others_are_not(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = open_memory()
    near, far = ids(a_memory, "Ana lives in Porto.", "Bicycles are blue.")
    await stored(memory, near, far)
    (new,) = ids(a_memory, "Ana lives in Faro.", start=5)
    assert await candidates(memory, new) == {new.id: [near.id]}


async def test_a_shared_entity_makes_a_candidate(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    memory = open_memory(candidate_similarity=-1.0, similar_memories=1)
    similar, sharing = (
        *ids(a_memory, "The trip is on Monday."),
        *ids(a_memory, "Livraria Lello has stairs.", entities=("Livraria  LELLO",), start=1),
    )
    await stored(memory, similar, sharing)
    (new,) = ids(a_memory, "The trip is on Tuesday.", entities=("livraria lello",), start=5)
    working = WorkingSet()
    ((_, offered),) = await find_candidates([new], context_of(memory), Rereading(working))
    assert [one.id for one in offered] == [similar.id]
    assert sharing.id in working.memories


async def test_earlier_memories_of_the_batch_are_candidates_and_later_ones_are_not(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    first, second = ids(a_memory, "Ana lives in Porto.", "Ana lives in Faro.")
    assert await candidates(open_memory(), first, second) == {first.id: [], second.id: [first.id]}


async def test_superseded_memories_and_those_of_other_users_are_no_candidates(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = open_memory()
    (mine,) = ids(a_memory, "Ana lives in Porto.", state="active")
    (gone,) = ids(a_memory, "Ana lives in Berlin.", start=1)
    (theirs,) = ids(a_memory, "Ana lives in Rome.", user_id="bea")
    store = memory.resources.store
    await stored(memory, mine, gone.model_copy(update={"state": "superseded", "retired_at": NOW}))
    async with store.writer("bea"):
        await store.commit(Commit("bea", new=(theirs,)))
    (new,) = ids(a_memory, "Ana lives in Faro.", start=5)
    assert await candidates(memory, new) == {new.id: [mine.id]}


async def test_candidates_are_bounded(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    memory = open_memory(similar_memories=50)
    await stored(memory, *ids(a_memory, *(f"Ana lives in Porto {number}." for number in range(20))))
    (new,) = ids(a_memory, "Ana lives in Porto now.", start=30)
    assert len((await candidates(memory, new))[new.id]) == MOST


async def test_nothing_new_asks_nothing(open_memory: Callable[..., DualMem]) -> None:
    assert await find_candidates([], context_of(open_memory()), Rereading()) == []


# Decisions


SAID: dict[str, dict[str, Any]] = {
    "same": {"same": True, "both": True},
    "changed": {"same": False, "both": False, "sign": "later"},
    "conflict": {"same": False, "both": False, "sign": ""},
    "independent": {"same": False, "both": True},
    "malformed": {"same": "perhaps", "both": True},
}


def reply(*decisions: tuple[Any, Any, str]) -> dict[str, Any]:
    return {
        "decisions": [
            {"new": new, "target": target, "reason": "because", **SAID[decision]} for new, target, decision in decisions
        ]
    }


HOMES = ("Ana lives in Porto.", "Ana lives in Faro.", "Ana lives in Rome.")


async def consolidated(memory: DualMem, new: list[Memory]) -> Consolidated:
    await memory.resources.store.open(create=True)
    done = await consolidate_memories(new, context_of(memory), at=NOW)
    assert violations(done.working.memories.values()) == []
    return done


@pytest.mark.parametrize(
    ("decision", "counted"), [("same", "merge"), ("changed", "supersede"), ("conflict", "contradict")]
)
async def test_each_decision_becomes_its_relation(
    open_memory: Callable[..., DualMem], a_memory: Make, decision: str, counted: str
) -> None:
    model = ScriptedChatModel(script={"consolidate": [reply((1, "A", decision))]})
    memory = open_memory(model)
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert dict(done.outcome.done) == {counted: 1}
    assert [one.id for one in done.new] == [new.id]
    assert set(done.group) == {old.id, new.id}
    assert list(done.working.changed) == [old.id]
    assert [call.step for call in done.calls] == ["consolidate"]


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        ((1, "B", "changed"), "decision on a memory that was not offered"),
        ((2, "A", "changed"), "decision on a memory that was not offered"),
        ((0, "A", "changed"), "decision on a memory that was not offered"),
        ((-1, "A", "changed"), "decision on a memory that was not offered"),
        ((1, "A", "malformed"), "malformed decision"),
        (("first", "A", "changed"), "malformed decision"),
    ],
)
async def test_what_was_not_offered_is_dropped_counted_and_its_memory_kept(
    open_memory: Callable[..., DualMem], a_memory: Make, decision: tuple[Any, Any, Any], reason: str
) -> None:
    independent = reply(decision, (1, "none", "independent"))
    memory = open_memory(ScriptedChatModel(script={"consolidate": [independent]}))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert done.rejected == (reason,)
    assert list(done.working.new) == [new.id]
    assert not done.working.changed


async def test_a_label_offered_to_another_memory_is_not_taken(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    """The second label belongs to a memory that was offered to the second new one only."""
    memory = open_memory(ScriptedChatModel(script={"consolidate": [reply((1, "B", "changed"), (2, "B", "changed"))]}))
    home, job = (*ids(a_memory, "Ana lives in Porto."), *ids(a_memory, "Work happens at Lune bakery.", start=1))
    await stored(memory, home, job)
    new = [*ids(a_memory, "Ana lives in Faro.", start=5), *ids(a_memory, "Work happens at Kneipp bakery.", start=6)]
    done = await consolidated(memory, new)
    assert done.rejected == ("decision on a memory that was not offered",)
    assert done.working.memories[job.id].linked("superseded_by") == (new[1].id,)
    assert done.working.memories[home.id].active


async def test_labels_in_brackets_and_lists_are_understood(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": [reply(("1", ["[A]"], "changed"))]}))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    assert (await consolidated(memory, [new])).outcome.done["supersede"] == 1


async def test_the_first_decision_on_a_memory_counts(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": [reply((1, "A", "changed"), (1, "A", "same"))]}))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert (dict(done.outcome.done), done.rejected) == ({"supersede": 1}, ("second decision on one memory",))


@pytest.mark.parametrize("target", ["none", None, []])
async def test_without_a_target_a_memory_is_independent(
    open_memory: Callable[..., DualMem], a_memory: Make, target: Any
) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": [reply((1, target, "changed"))]}))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert (done.rejected, list(done.working.changed)) == ((), [])


@pytest.mark.parametrize(
    ("text", "sign", "counted"),
    [
        ("Ana moved and lives in Faro.", "moved", "supersede"),
        ("Ana lives in Faro.", "Later", "supersede"),
        ("Ana lives in Faro.", "moved", "contradict"),
        ("Ana lives in Faro.", " ", "contradict"),
    ],
)
async def test_a_change_needs_words_that_say_so(
    open_memory: Callable[..., DualMem], a_memory: Make, text: str, sign: str, counted: str
) -> None:
    decision = {"new": 1, "target": "A", "same": False, "both": False, "sign": sign, "reason": ""}
    memory = open_memory(ScriptedChatModel(script={"consolidate": [{"decisions": [decision]}]}))
    old, new = (*ids(a_memory, HOMES[0]), *ids(a_memory, text, start=1))
    await stored(memory, old)
    assert dict((await consolidated(memory, [new])).outcome.done) == {counted: 1}


@pytest.mark.parametrize(
    ("relation", "sign", "strategy"),
    [
        ("changed", "moved", "supersede"),
        ("impossible", "moved", "supersede"),
        ("changed", "", "contradict"),
        ("changed", "quit", "contradict"),
        ("changed", "moving", "supersede"),
        ("changed", "lives", "supersede"),
        ("impossible", "lives", "contradict"),
        ("impossible", "", "contradict"),
        ("same", "", "merge"),
        ("fits", "moved", None),
        ("different things", "moved", None),
    ],
)
def test_what_a_small_model_says_of_a_pair_counts_as_far_as_it_can_be_checked(
    a_memory: Make, relation: Any, sign: str, strategy: str | None
) -> None:
    old, new = a_memory("a", text="Ana lives in Porto."), a_memory("b", text="Ana moved and lives in Faro.")
    reply = PairReply(old_about="home", new_about="home", sign=sign, relation=relation)
    assert pair_strategy(reply, old, new) == strategy


async def test_an_unreadable_reply_leaves_the_memories_independent(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": ["nonsense"], "repair": ["more nonsense"]}))
    old, *new = ids(a_memory, *HOMES)
    await stored(memory, old)
    done = await consolidated(memory, new)
    assert done.rejected == ("unreadable decisions",) * 2
    assert (list(done.working.new), list(done.working.changed)) == ([one.id for one in new], [])


async def test_a_model_that_is_down_decides_nothing(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": [ConnectionError("refused")]}))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    with pytest.raises(ModelUnavailable):
        await consolidate_memories([new], context_of(memory), at=NOW)
    assert (await memory.memories(user_id="ana")) == [old]


async def test_memories_without_candidates_cost_no_call(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    model = ScriptedChatModel(script={})
    done = await consolidated(open_memory(model), ids(a_memory, "Ana lives in Porto.", "Bicycles are blue."))
    assert (len(done.new), done.group, model.prompts) == (2, (), [])


async def test_many_drafts_are_decided_in_several_calls(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    model = ScriptedChatModel(script={"consolidate": reply()})
    memory = open_memory(model, decision_drafts=2)
    old, *new = ids(a_memory, *(f"Ana lives in Porto {number}." for number in range(6)))
    await stored(memory, old)
    done = await consolidated(memory, new)
    assert (model.calls("consolidate"), len(done.calls), len(done.new)) == (3, 3, 5)


async def test_what_is_stored_already_or_comes_twice_is_not_new(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = open_memory(ScriptedChatModel(script={"consolidate": reply()}))
    old, new = ids(a_memory, "Ana lives in Porto.", "Bicycles are blue.")
    await stored(memory, old)
    done = await consolidated(memory, [old, new, new])
    assert [one.id for one in done.new] == [new.id]


async def test_several_states_in_one_batch_make_one_chain(open_memory: Callable[..., DualMem], a_memory: Make) -> None:
    decisions = reply((1, "A", "changed"), (2, "A", "changed"), (3, "A", "changed"))
    memory = open_memory(ScriptedChatModel(script={"consolidate": [decisions]}))
    old, *new = ids(a_memory, *HOMES, "Ana lives in Oslo.")
    await stored(memory, old)
    done = await consolidated(memory, new)
    assert [one.text for one in done.working.chain(old.id)] == [*HOMES, "Ana lives in Oslo."]
    assert [one.text for one in done.working.memories.values() if one.active] == ["Ana lives in Oslo."]


# mem0's operations, read as relations


def operations(*given: tuple[int, str, str]) -> dict[str, Any]:
    return {
        "operations": [
            {"new": new, "target": target, "reason": "because", "operation": operation}
            for new, target, operation in given
        ]
    }


def star(open_memory: Callable[..., DualMem], *replies: Any) -> DualMem:
    return open_memory(ScriptedChatModel(script={"update": list(replies)}), strategy="mem0star", similarity=0.5)


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
async def test_update_and_delete_replace_and_keep_the_history(
    open_memory: Callable[..., DualMem], a_memory: Make, operation: str
) -> None:
    memory = star(open_memory, operations((1, "A", operation)))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert done.working.memories[old.id].linked("superseded_by") == (new.id,)


async def test_noop_adds_the_turns_of_the_new_memory_to_the_old_one(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = star(open_memory, operations((1, "A", "noop ")))
    old, new = ids(a_memory, *HOMES[:2])
    new = new.model_copy(update={"sources": (Source(turn_id="other", quote="x"),)})
    await stored(memory, old)
    done = await consolidated(memory, [new])
    assert done.working.memories[old.id].turn_ids == (*old.turn_ids, "other")
    assert (new.id in done.working.memories, list(done.working.new)) == (False, [])
    assert set(done.group) <= set(done.working.memories)


async def test_an_operation_on_a_memory_that_another_one_absorbed_is_refused_and_counted(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    """The second new memory refers to the first, which the old one absorbed."""
    memory = star(open_memory, operations((1, "A", "NOOP"), (2, "B", "UPDATE")))
    old, *new = ids(a_memory, *HOMES)
    await stored(memory, old)
    done = await consolidated(memory, new)
    assert list(done.working.new) == [new[1].id]
    assert len(done.rejected) == 1


async def test_a_second_operation_on_a_memory_is_refused_and_counted(
    open_memory: Callable[..., DualMem], a_memory: Make
) -> None:
    memory = star(open_memory, operations((1, "A", "NOOP"), (1, "A", "NOOP")))
    old, new = ids(a_memory, *HOMES[:2])
    await stored(memory, old)
    assert len((await consolidated(memory, [new])).rejected) == 1
