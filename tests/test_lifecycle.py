"""The life of a memory: what each operation does, and that none breaks an invariant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmem.lifecycle import AGAIN, FORGOTTEN, WorkingSet, violations
from dualmem.mending import mend
from dualmem.records import Interval, Link, Memory

NOW = datetime(2025, 1, 1, tzinfo=UTC)
Make = Callable[..., Memory]


def working_set(*stored: Memory, new: tuple[Memory, ...] = ()) -> WorkingSet:
    working = WorkingSet()
    working.load(stored)
    for memory in new:
        working.add(memory)
    return working


def replace(working: WorkingSet, new: str, old: str) -> str:
    return working.supersede(new, old, reason=f"{new} after {old}", at=NOW)


def texts(working: WorkingSet, name: str) -> list[str]:
    return [memory.id for memory in working.chain(name)]


def active(working: WorkingSet) -> list[str]:
    return sorted(memory.id for memory in working.memories.values() if memory.active)


def unordered(working: WorkingSet) -> dict[str, Memory]:
    """Return the memories without the order in which their links were made."""
    return {
        key: memory.model_copy(update={"links": tuple(sorted(memory.links, key=str))})
        for key, memory in working.memories.items()
    }


def valid_from(day: int) -> Interval:
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return Interval(start=start, end=start, precision="day")


def test_a_later_state_replaces_an_earlier_one(a_memory: Make) -> None:
    working = working_set(a_memory("old", 1), new=(a_memory("new", 5),))
    assert replace(working, "new", "old") == ""
    old, new = working.memories["old"], working.memories["new"]
    assert (old.state, old.retired_at) == ("superseded", new.known_at)
    assert (new.state, new.retired_at) == ("active", None)
    assert (old.linked("superseded_by"), new.linked("supersedes")) == (("new",), ("old",))
    (link,) = old.links
    assert (link.reason, link.at, link.turn_ids) == ("new after old", NOW, new.turn_ids)
    assert (list(working.new), list(working.changed)) == (["new"], ["old"])
    assert violations(working.memories.values()) == []


def test_a_chain_grows_at_its_head_whichever_state_is_named(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2), a_memory("c", 3), a_memory("d", 4))
    for new, old in (("b", "a"), ("c", "a"), ("d", "b")):
        assert replace(working, new, old) == ""
    assert texts(working, "a") == texts(working, "d") == ["a", "b", "c", "d"]
    assert active(working) == ["d"]
    assert violations(working.memories.values()) == []


@pytest.mark.parametrize(("day", "chain", "head"), [(0, "lbd", "d"), (3, "bld", "d"), (9, "bdl", "l")])
def test_a_statement_that_arrives_late_takes_its_place_by_time(a_memory: Make, day: int, chain: str, head: str) -> None:
    working = working_set(a_memory("b", 2), a_memory("d", 4), new=(a_memory("l", day),))
    replace(working, "d", "b")
    assert replace(working, "l", "d") == ""
    assert texts(working, "l") == list(chain)
    assert active(working) == [head]
    assert violations(working.memories.values()) == []


def test_told_at_once_the_place_in_the_conversation_decides(a_memory: Make) -> None:
    working = working_set(a_memory("first", 1, position=3), a_memory("second", 1, position=8))
    replace(working, "first", "second")
    assert texts(working, "first") == ["first", "second"]
    assert active(working) == ["second"]


def test_states_are_ordered_by_when_they_hold(a_memory: Make) -> None:
    told_late = a_memory("berlin", 9, valid=valid_from(-300))
    working = working_set(a_memory("porto", 1, valid=valid_from(-10)), new=(told_late,))
    assert replace(working, "berlin", "porto") == ""
    assert texts(working, "berlin") == ["berlin", "porto"]
    assert active(working) == ["porto"]
    assert violations(working.memories.values()) == []


def test_the_date_of_a_plan_is_not_when_the_plan_holds_from(a_memory: Make) -> None:
    later_plan = a_memory("tuesday", 5, kind="plan", valid=valid_from(10))
    working = working_set(a_memory("friday", 1, kind="plan", valid=valid_from(13)), new=(later_plan,))
    replace(working, "tuesday", "friday")
    assert active(working) == ["tuesday"]


def test_a_late_statement_does_not_change_what_was_known_before_it(a_memory: Make) -> None:
    """As of a time between the head and the late statement, the first state was gone already."""
    working = working_set(a_memory("a", 1, valid=valid_from(1)), a_memory("c", 3, valid=valid_from(30)))
    replace(working, "c", "a")
    working.add(a_memory("b", 6, valid=valid_from(15)))
    replace(working, "b", "c")
    assert texts(working, "a") == ["a", "b", "c"]
    between = working.memories["c"].known_at + timedelta(days=1)

    def in_force(memory: Memory) -> bool:
        return memory.known_at <= between and (memory.retired_at is None or memory.retired_at > between)

    assert [memory.id for memory in working.memories.values() if in_force(memory)] == ["c"]


def test_what_says_the_same_as_a_retired_state_is_retired_with_it(a_memory: Make) -> None:
    """In however many words and hops it was said again; what was told after the change is not."""
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abcde")), a_memory("late", 20))
    working.merge("b", "a", reason="", at=NOW)
    working.merge("c", "b", reason="", at=NOW)
    working.merge("late", "c", reason="", at=NOW)
    assert replace(working, "e", "b") == ""
    assert texts(working, "a") == ["a", "b", "c", "e"]
    assert active(working) == ["d", "e", "late"]
    reasons = {
        key: [(link.reason, link.by) for link in working.memories[key].links if link.relation == "superseded_by"]
        for key in "abc"
    }
    assert reasons == {"a": [(AGAIN, "e")], "b": [(AGAIN, "e")], "c": [("e after b", "e")]}
    assert violations(working.memories.values()) == []
    assert working.withdraw("e") == ["c"]
    assert active(working) == ["c", "d", "e", "late"]


def test_what_says_the_same_is_retired_with_its_own_history(a_memory: Make) -> None:
    """Two chains whose heads say the same tell of one thing: what replaces one head replaces both."""
    names = ("berlin", "rome", "porto", "porto again", "faro")
    working = working_set(*(a_memory(name, day) for day, name in enumerate(names)))
    replace(working, "porto", "berlin")
    replace(working, "porto again", "rome")
    working.merge("porto again", "porto", reason="", at=NOW)
    assert active(working) == ["faro", "porto", "porto again"]
    assert replace(working, "faro", "porto") == ""
    assert active(working) == ["faro"]
    assert texts(working, "faro") == list(names)
    assert violations(working.memories.values()) == []
    # The decision that a state in between hides is known again when that is gone.
    kept = {key: memory.model_copy() for key, memory in working.memories.items()}
    working.remove("porto")
    (link,) = [link for link in working.memories["porto again"].links if link.relation == "supersedes"]
    assert (link.target, link.reason) == ("rome", "porto again after rome")
    working.memories.update(kept)
    assert working.withdraw("faro") == ["porto again"]
    assert violations(working.memories.values()) == []


def test_neighbours_of_a_history_that_is_joined_keep_their_reason(a_memory: Make) -> None:
    names = ("rome", "porto again", "berlin", "porto", "faro")
    working = working_set(*(a_memory(name, day) for day, name in enumerate(names)))
    replace(working, "porto again", "rome")
    replace(working, "porto", "berlin")
    working.merge("porto again", "porto", reason="", at=NOW)
    assert replace(working, "faro", "porto") == ""
    assert texts(working, "faro") == list(names)
    (link,) = [link for link in working.memories["porto again"].links if link.relation == "supersedes"]
    assert (link.target, link.reason, link.by) == ("rome", "porto again after rome", "porto again")
    assert violations(working.memories.values()) == []


def test_a_state_is_not_put_into_a_chain_twice(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2))
    assert replace(working, "a", "a") == "already in the chain"
    replace(working, "b", "a")
    before = dict(working.memories)
    assert replace(working, "b", "a") == "already in the chain"
    assert replace(working, "a", "b") == "already in the chain"
    assert working.memories == before


def test_a_state_is_in_one_chain_only(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abcd")))
    replace(working, "b", "a")
    replace(working, "d", "c")
    before = dict(working.memories)
    assert replace(working, "d", "a") == "already in another chain"
    assert working.memories == before


@pytest.mark.parametrize(("operation", "relation"), [("contradict", "contradicts"), ("merge", "merged_with")])
def test_both_sides_of_a_relation_stay_active(a_memory: Make, operation: str, relation: Any) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2))
    relate = getattr(working, operation)
    assert relate("b", "a", reason="why", at=NOW) == ""
    assert working.memories["a"].linked(relation) == ("b",)
    assert working.memories["b"].linked(relation) == ("a",)
    assert active(working) == ["a", "b"]
    assert list(working.changed) == ["b", "a"]
    assert relate("a", "b", reason="why", at=NOW) == "already related"
    assert relate("a", "a", reason="why", at=NOW) == "related to itself"
    assert violations(working.memories.values()) == []


@pytest.mark.parametrize("operation", ["contradict", "merge"])
def test_states_of_one_chain_are_not_related_otherwise(a_memory: Make, operation: str) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    replace(working, "b", "a")
    replace(working, "c", "b")
    for left, right in (("c", "a"), ("a", "c"), ("b", "c")):
        assert getattr(working, operation)(left, right, reason="", at=NOW) in {
            "already in the chain",
            "already related",
        }
    assert violations(working.memories.values()) == []


def test_loading_again_keeps_what_was_decided(a_memory: Make) -> None:
    old = a_memory("old", 1)
    working = working_set(old, new=(a_memory("new", 5),))
    replace(working, "new", "old")
    working.load([old])
    assert working.memories["old"].state == "superseded"


def test_what_is_missing_of_a_chain_is_named(a_memory: Make) -> None:
    link = Link(relation="supersedes", target="gone", at=NOW)
    working = working_set(a_memory("a", 1, links=(link,)))
    assert working.missing_links() == ["gone"]


# Taking a memory out


def test_the_state_before_a_removed_head_is_in_force_again(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2))
    replace(working, "b", "a")
    assert working.remove("b") == ["a"]
    assert (working.memories["a"].state, working.memories["a"].retired_at, working.memories["a"].links) == (
        "active",
        None,
        (),
    )
    assert violations(working.memories.values()) == []


def test_a_chain_is_closed_where_a_state_is_removed(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    replace(working, "b", "a")
    replace(working, "c", "b")
    assert working.remove("b") == []
    assert texts(working, "a") == ["a", "c"]
    assert active(working) == ["c"]
    assert violations(working.memories.values()) == []


def test_relations_go_with_a_removed_memory(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2), a_memory("c", 3))
    working.contradict("b", "a", reason="", at=NOW)
    working.merge("b", "c", reason="", at=NOW)
    working.remove("b")
    assert [memory.links for memory in working.memories.values()] == [(), ()]


def test_the_reason_of_a_removed_state_is_not_kept(a_memory: Make) -> None:
    """It may tell what was said; what was decided before the state came counts again."""
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    replace(working, "b", "a")
    replace(working, "c", "b")
    working.remove("b")
    assert [link.reason for memory in working.memories.values() for link in memory.links] == [FORGOTTEN] * 2
    late = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    replace(late, "c", "a")
    replace(late, "b", "a")
    late.remove("b")
    assert [link.reason for memory in late.memories.values() for link in memory.links] == ["c after a"] * 2


def test_nothing_of_a_removed_state_is_left_in_what_links_replaced(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abcd")))
    replace(working, "d", "a")
    replace(working, "c", "a")
    replace(working, "b", "a")
    working.remove("a")
    assert "'a'" not in str(working.memories)
    assert "after a" not in str([link.replaced for memory in working.memories.values() for link in memory.links])


# Taking a decision back


def test_a_replacement_that_is_taken_back_leaves_both_in_force(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2))
    before = dict(working.memories)
    replace(working, "b", "a")
    assert working.withdraw("b") == ["a"]
    assert working.memories == before


@pytest.mark.parametrize("order", ["bcd", "bdc", "cbd", "cdb", "dbc", "dcb"])
@pytest.mark.parametrize("last", ["b", "c", "d"])
def test_what_came_last_is_taken_back_as_if_it_had_never_come(a_memory: Make, order: str, last: str) -> None:
    """Wherever in the chain it went."""
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abcd")))
    for name in order.replace(last, ""):
        replace(working, name, "a")
    before = unordered(working)
    replace(working, last, "a")
    working.withdraw(last)
    assert unordered(working) == before


def test_a_state_in_the_middle_that_is_taken_back_keeps_what_replaced_it_since(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    replace(working, "b", "a")
    replace(working, "c", "b")
    assert working.withdraw("b") == ["a"]
    assert (texts(working, "a"), texts(working, "b"), active(working)) == (["a"], ["b", "c"], ["a", "c"])
    assert violations(working.memories.values()) == []


# Compact merge


def compacted(working: WorkingSet, make: Make, new: str, old: str) -> Memory:
    whole = make(f"{old}+{new}", 9)
    assert working.compact(new, old, whole, reason="both say it", at=NOW) == ""
    return working.memories[whole.id]


def test_a_compact_merge_takes_the_place_of_both(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")), a_memory("x", 4))
    replace(working, "b", "a")
    working.contradict("x", "b", reason="odd", at=NOW)
    compacted(working, a_memory, "c", "b")
    assert active(working) == ["b+c", "x"]
    assert texts(working, "a") == ["a", "b+c"]
    assert working.memories["b+c"].linked("contradicts") == ("x",)
    assert [working.memories[one].state for one in "bc"] == ["merged", "merged"]
    assert working.in_place_of("b") == working.memories["b+c"]
    assert violations(working.memories.values()) == []


def test_a_compact_merge_that_is_taken_back_leaves_all_as_it_was(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")), a_memory("x", 4))
    replace(working, "b", "a")
    working.contradict("x", "b", reason="odd", at=NOW)
    before = unordered(working)
    compacted(working, a_memory, "c", "b")
    assert sorted(working.remove("b+c")) == ["b", "c"]
    assert unordered(working) == before


def test_a_merge_is_taken_apart_where_something_replaced_it_since(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")), a_memory("z", 20))
    replace(working, "b", "a")
    compacted(working, a_memory, "c", "b")
    replace(working, "z", "b+c")
    assert working.remove("b+c") == ["c"]
    assert (texts(working, "a"), active(working)) == (["a", "b", "z"], ["c", "z"])
    assert violations(working.memories.values()) == []


def test_what_was_written_for_a_forgotten_memory_goes_with_it(a_memory: Make) -> None:
    working = working_set(a_memory("a", 1), a_memory("b", 2))
    compacted(working, a_memory, "b", "a")
    assert working.remove("a") == ["b"]
    assert list(working.memories) == ["b"]


def test_what_is_merged_takes_part_in_nothing_else(a_memory: Make) -> None:
    working = working_set(*(a_memory(name, day) for day, name in enumerate("abc")))
    compacted(working, a_memory, "b", "a")
    for operation in ("supersede", "contradict", "merge"):
        assert getattr(working, operation)("c", "a", reason="", at=NOW) == "merged into another memory"
    assert working.compact("c", "a", a_memory("other", 9), reason="", at=NOW) == "no longer in force"


# Any sequence of operations


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["supersede", "supersede", "contradict", "merge", "compact", "withdraw", "remove"]),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=20,
)
DATES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.none() | st.integers(0, 5),
        st.sampled_from(["state", "plan", "fact"]),
        st.booleans(),
    ),
    min_size=8,
    max_size=8,
)


@settings(max_examples=50)
@given(dates=DATES, operations=OPERATIONS)
def test_no_sequence_of_operations_breaks_an_invariant(
    a_memory: Make, dates: list[tuple[int, int | None, str, bool]], operations: list[tuple[str, int, int]]
) -> None:
    working = WorkingSet()
    for number, (day, holds, kind, fresh) in enumerate(dates):
        memory = a_memory(
            str(number), day, kind=kind, valid=None if holds is None else valid_from(holds), position=number
        )
        (working.add if fresh else lambda one: working.load([one]))(memory)
    texts_before = {key: memory.text for key, memory in working.memories.items()}
    for operation, left, right in operations:
        if str(left) not in working.memories or str(right) not in working.memories:
            continue
        before = dict(working.memories)
        if operation == "remove":
            again = working.remove(str(left))
            assert sorted(again) == sorted(
                key for key, one in working.memories.items() if one.active and not before[key].active
            )
        elif operation == "withdraw":
            working.withdraw(str(left))
        elif operation == "compact":
            whole = a_memory(f"{left} and {right}", 9)
            refused = working.compact(str(left), str(right), whole, reason="", at=NOW)
            assert refused == "" or working.memories == before, "what is refused changes nothing"
        else:
            refused = getattr(working, operation)(str(left), str(right), reason="", at=NOW)
            assert refused == "" or working.memories == before, "what is refused changes nothing"
        assert violations(working.memories.values()) == []
        assert mend(working.memories.values(), at=NOW) == [], "what is whole is not mended"
    assert all(memory.text == texts_before.get(key, memory.text) for key, memory in working.memories.items())
    touched = {*working.new, *working.changed}
    untouched = [memory for key, memory in working.memories.items() if key not in touched]
    assert all(not memory.links and memory.active for memory in untouched)


@settings(max_examples=30)
@given(order=st.permutations(range(6)))
def test_whatever_order_states_arrive_in_the_chain_is_the_same(a_memory: Make, order: list[int]) -> None:
    working = working_set(*(a_memory(str(day), day) for day in range(6)))
    for day in order[1:]:
        assert replace(working, str(day), str(order[0])) == ""
    assert texts(working, "3") == ["0", "1", "2", "3", "4", "5"]
    assert active(working) == ["5"]


# The check itself


def test_a_store_without_links_has_no_violations(a_memory: Make) -> None:
    assert violations([a_memory("a"), a_memory("b")]) == []


def link(relation: Any, target: str) -> Link:
    return Link(relation=relation, target=target, at=NOW)


def broken(a_memory: Make) -> dict[str, list[Memory]]:
    retired = {"state": "superseded", "retired_at": NOW}
    return {
        "branches": [
            a_memory("a", links=(link("superseded_by", "b"), link("superseded_by", "c")), **retired),
            a_memory("b", links=(link("supersedes", "a"),)),
            a_memory("c", links=(link("supersedes", "a"),)),
        ],
        "active, though superseded": [
            a_memory("a", links=(link("superseded_by", "b"),)),
            a_memory("b", links=(link("supersedes", "a"),)),
        ],
        "superseded by nothing": [a_memory("a", **retired)],
        "disagree": [
            a_memory("a", state="superseded", links=(link("superseded_by", "b"),)),
            a_memory("b", links=(link("supersedes", "a"),)),
        ],
        "does not exist": [a_memory("a", links=(link("contradicts", "b"),))],
        "no link back": [a_memory("a", links=(link("merged_with", "b"),)), a_memory("b")],
        "is a circle": [
            a_memory("a", links=(link("superseded_by", "b"), link("supersedes", "b")), **retired),
            a_memory("b", links=(link("superseded_by", "a"), link("supersedes", "a")), **retired),
        ],
    }


@pytest.mark.parametrize(
    "complaint",
    [
        "branches",
        "active, though superseded",
        "superseded by nothing",
        "disagree",
        "does not exist",
        "no link back",
        "is a circle",
    ],
)
def test_each_broken_invariant_is_found(a_memory: Make, complaint: str) -> None:
    assert any(complaint in found for found in violations(broken(a_memory)[complaint]))


# Mending


@pytest.mark.parametrize(
    "complaint",
    [
        "branches",
        "active, though superseded",
        "superseded by nothing",
        "disagree",
        "does not exist",
        "no link back",
        "is a circle",
    ],
)
def test_what_is_broken_is_mended_and_stays_so(a_memory: Make, complaint: str) -> None:
    memories = {memory.id: memory for memory in broken(a_memory)[complaint]}
    mended = {**memories, **{memory.id: memory for memory in mend(memories.values(), at=NOW)}}
    assert violations(mended.values()) == []
    assert mend(mended.values(), at=NOW) == []


LINKS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["supersedes", "superseded_by", "merged_with", "contradicts", "merges", "merged_into"]),
        st.integers(0, 7),
    ),
    max_size=16,
)
STATES = st.lists(st.tuples(st.sampled_from(["active", "superseded", "merged"]), st.booleans()), min_size=6, max_size=6)


@settings(max_examples=300)
@given(links=LINKS, states=STATES)
def test_whatever_is_broken_is_mended_and_nothing_but_links_and_states_changes(
    a_memory: Make, links: list[tuple[int, Any, int]], states: list[tuple[Any, bool]]
) -> None:
    made = [
        a_memory(
            str(number),
            number % 4,
            state=state,
            retired_at=NOW if retired else None,
            links=tuple(link(relation, str(target)) for source, relation, target in links if source == number),
        )
        for number, (state, retired) in enumerate(states)
    ]
    mended = {**{one.id: one for one in made}, **{one.id: one for one in mend(made, at=NOW)}}
    assert violations(mended.values()) == []
    assert mend(mended.values(), at=NOW) == []
    kept = {"links", "state", "retired_at"}
    assert [one.model_dump(exclude=kept) for one in mended.values()] == [one.model_dump(exclude=kept) for one in made]
