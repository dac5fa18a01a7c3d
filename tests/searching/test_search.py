"""Search over a real store: which evidence comes first, and what each ranking gave to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.context import Context
from dualmem.identity import stable_id
from dualmem.records import Interval, Scope
from dualmem.searching.search import search
from dualmem.searching.turns import NAMED, score_turns
from dualmem.stores.commit import Commit
from dualmem.testing import ScriptedChatModel

Chat = Callable[..., list[dict[str, Any]]]
START = datetime(2024, 3, 1, 10, 0, tzinfo=UTC)
"""When the first line of `chat_of` is said."""


async def found_by(memory: DualMem, question: str, **options: Any) -> Any:
    context = Context(memory.settings.override(options), memory.resources)
    return await search(context, "ana", question)


async def scored(memory: DualMem, question: str, *, scope: Scope | None = None) -> dict[str, float]:
    context = Context(memory.settings, memory.resources)
    vector = await context.embedder.query(question)
    found = await score_turns(context, "ana", question, vector, most=50, scope=scope)
    return {found.turn(key).text: found.scores[key] for key in found.ids}


async def test_a_memory_outranks_the_bare_turn_of_the_same_words(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto.", "Ana: I saw Porto on a map", "Ben: fine"), user_id="ana")
    units = (await found_by(memory, "Who lives in Porto?", rerank="none")).units
    assert units[0].members[0].memory.text == "Ana lives in Porto."
    assert {"semantic", "keyword", "turns"} <= set(units[0].shares)
    bare = [unit for unit in units if not unit.members]
    assert [unit.turns[0].text for unit in bare][0] == "I saw Porto on a map"
    assert units[0].score == pytest.approx(sum(units[0].shares.values()))
    assert [unit.score for unit in units] == sorted((unit.score for unit in units), reverse=True)


async def test_an_answer_is_found_by_the_words_of_its_question(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    lines = ["Ana: hello", "Ben: which instrument do you practise", "Ana: oh cello mostly", "Ben: nice weather today"]
    await memory.remember(chat_of(*lines, *(f"Ana: filler number {n}" for n in range(9))), user_id="ana")
    found = await scored(memory, "instrument practise")
    assert list(found)[:2] == ["which instrument do you practise", "oh cello mostly"]


async def test_who_is_named_counts_more_and_two_names_do_not(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: tea in the garden", "Ben: tea in the garden", "Bot: tea"), user_id="ana")
    neutral, named = await scored(memory, "tea garden"), await scored(memory, "garden tea Ben Ana")
    assert set(neutral) == set(named)
    by_speaker = {}
    context = Context(memory.settings, memory.resources)
    for question in ("tea garden", "Ben tea garden", "my tea garden"):
        vector = await context.embedder.query(question)
        found = await score_turns(context, "ana", question, vector, most=9)
        by_speaker[question] = {found.turn(key).speaker: found.scores[key] for key in found.ids}
    # The same words in the same place: only who said it differs.
    assert by_speaker["Ben tea garden"]["Ben"] > by_speaker["Ben tea garden"]["Ana"]
    assert by_speaker["my tea garden"]["Ana"] == pytest.approx(NAMED * by_speaker["tea garden"]["Ana"], rel=0.2)
    assert by_speaker["my tea garden"]["Bot"] <= by_speaker["my tea garden"]["Ana"]


async def test_a_scope_keeps_other_turns_out(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: tea", "Ben: tea too"), user_id="ana")
    assert set(await scored(memory, "tea", scope=Scope(speakers=("Ben",)))) == {"tea too"}


async def test_the_weights_of_a_ranking_can_be_set(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto.", "Ana: Porto again and again"), user_id="ana")
    units = (await found_by(memory, "Porto", ranking_weights={"turns": 0.0})).units
    assert all(unit.shares.get("turns", 0.0) == 0.0 for unit in units)
    ranked = (await found_by(memory, "Porto", fusion="rrf", rerank="none")).units[0]
    assert ranked.shares["keyword"] == pytest.approx(1 / (memory.settings.rrf_k + 1))


async def test_equal_input_gives_equal_output(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of(*(f"Ana: Ana likes tea number {n}." for n in range(20))), user_id="ana")
    first, second = [await found_by(memory, "tea") for _ in range(2)]
    assert first == second


async def test_nothing_is_made_by_looking(open_memory: Callable[..., DualMem]) -> None:
    found = await found_by(open_memory(), "anything")
    assert (found.units, found.stored) == ((), False)


@pytest.mark.parametrize(
    ("since", "until", "texts"),
    [
        (1, None, {"Ana likes tea number 1.", "Ana likes tea number 2."}),
        (None, 0, {"Ana likes tea number 0."}),
        (1, 1, {"Ana likes tea number 1."}),
        (5, None, set()),
    ],
)
async def test_a_range_of_time_keeps_out_what_was_said_outside_of_it(
    open_memory: Callable[..., DualMem],
    reader: Callable[..., ScriptedChatModel],
    chat_of: Chat,
    since: int | None,
    until: int | None,
    texts: set[str],
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of(*(f"Ana: Ana likes tea number {n}." for n in range(3))), user_id="ana")
    first, last = [None if day is None else START + timedelta(days=day) for day in (since, until)]
    items = await memory.search("tea", user_id="ana", scope=Scope(since=first, until=last))
    assert {item.text for item in items} == texts


async def test_a_scope_holds_for_memories_that_turns_lead_to(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader(), rankings=("turns",))
    await memory.remember(chat_of("Ana: Ana lives in Porto.", "Ana: Ana likes Porto."), user_id="ana")
    for scope, texts in (
        (Scope(kinds=("state",)), {"Ana lives in Porto."}),
        (Scope(entities=(" ANA ",)), {"Ana lives in Porto.", "Ana likes Porto."}),
        (Scope(speakers=("Ben",)), set()),
    ):
        items = await memory.search("Porto", user_id="ana", scope=scope)
        assert {item.text for item in items} == texts


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("What was in May 2020?", {"Ana lives in Porto."}),
        ("What was in May 2015?", {"Ana ran a race."}),
        ("What was in May 2010?", set()),
    ],
)
async def test_an_open_end_goes_on_and_what_has_no_date_meets_none(
    open_memory: Callable[..., DualMem], a_memory: Callable[..., Any], question: str, texts: set[str]
) -> None:
    memory = open_memory(rankings=("time",))
    since = datetime(2016, 1, 1, tzinfo=UTC)
    race = Interval(start=datetime(2015, 5, 2, tzinfo=UTC), end=datetime(2015, 5, 3, tzinfo=UTC), precision="day")
    made = (
        a_memory("home", text="Ana lives in Porto.", valid=Interval(start=since, precision="year")),
        a_memory("race", text="Ana ran a race.", valid=race),
        a_memory("tea", text="Ana likes tea."),
    )
    store = memory.resources.store
    async with store.writer("ana"):
        await store.commit(Commit("ana", tuple(replace_id(each) for each in made)))
    found = await found_by(memory, question)
    assert {unit.members[0].memory.text for unit in found.units} == texts


def replace_id(memory: Any) -> Any:
    return memory.model_copy(update={"id": stable_id("memory", memory.id)})


async def test_a_scope_keeps_to_what_was_said_to_an_agent(
    open_memory: Callable[..., DualMem], reader: Callable[..., ScriptedChatModel], chat_of: Chat
) -> None:
    memory = open_memory(reader())
    for agent in ("coach", "chef"):
        lines = chat_of(f"Ana: Ana lives near the {agent}.", f"Ana: so much for the {agent}")
        await memory.remember(lines, user_id="ana", conversation_id=f"with the {agent}", agent_id=agent)
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana", conversation_id="with nobody")

    async def shown(*agents: str) -> set[str]:
        found = await memory.search("Where does Ana live?", user_id="ana", scope=Scope(agent_ids=agents))
        return {item.text for item in found}

    theirs = {agent: {f"Ana lives near the {agent}.", f"so much for the {agent}"} for agent in ("coach", "chef")}
    assert await shown("coach") == theirs["coach"]
    assert await shown("coach", "chef") == theirs["coach"] | theirs["chef"]
    assert await shown() == theirs["coach"] | theirs["chef"] | {"Ana lives in Porto."}
    assert await shown("nobody") == set()
