"""Each node of recall, called as a function."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime

from dualmem import DualMem, Scope
from dualmem.context import Context
from dualmem.errors import InputError, InvalidUser, ModelUnavailable, UnreadableReply
from dualmem.nodes.recall.answer import NOTHING_FOUND, NOTHING_STORED, answer
from dualmem.nodes.recall.filter import filter_evidence
from dualmem.nodes.recall.gate import gate
from dualmem.nodes.recall.retrieve import retrieve
from dualmem.records import Answer, ModelCall, PackedContext
from dualmem.state import RecallState
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
RuntimeOf = Callable[..., Runtime[Context]]
NOTHING = PackedContext(())


# retrieve


async def test_retrieve_packs_what_was_found(
    open_memory: Open, runtime_of: RuntimeOf, reader: Callable[..., Any], chat_of: Callable[..., Any]
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto.", "Bot: nice", "Ana: bicycles are blue."), user_id="ana")
    update = await retrieve({"user_id": " ana ", "question": " Where does Ana live?\x00 "}, runtime_of(memory))
    assert (update["user_id"], update["question"], update["stored"]) == ("ana", "Where does Ana live?", True)
    assert update["packed"].units[0].members[0].memory.text == "Ana lives in Porto."
    assert update["standing"] == []


async def test_the_question_is_the_last_human_message(open_memory: Open, runtime_of: RuntimeOf) -> None:
    messages: list[Any] = [
        HumanMessage("first"),
        HumanMessage([{"type": "text", "text": "second"}]),
        AIMessage("third"),
    ]
    update = await retrieve({"user_id": "ana", "messages": messages}, runtime_of(open_memory()))
    assert update["question"] == "second"
    update = await retrieve({"user_id": "ana", "messages": messages, "question": "mine"}, runtime_of(open_memory()))
    assert update["question"] == "mine"


async def test_a_chat_may_come_as_dictionaries(open_memory: Open, runtime_of: RuntimeOf) -> None:
    """That is how a server's clients send it."""
    messages: Any = [{"role": "user", "content": "Where do I live?"}, {"role": "assistant", "content": "Hm."}]
    update = await retrieve({"user_id": "ana", "messages": messages}, runtime_of(open_memory()))
    assert update["question"] == "Where do I live?"


async def test_scope_and_time_may_come_as_json(
    open_memory: Open, runtime_of: RuntimeOf, reader: Callable[..., Any], chat_of: Callable[..., Any]
) -> None:
    """That is how a server's clients send them."""
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana")
    state: Any = {
        "user_id": "ana",
        "question": "Where did Ana live last week?",
        "scope": {"conversation_ids": ["other"]},
        "asked_at": "2024-05-08T13:30:00+00:00",
    }
    update = await retrieve(state, runtime_of(memory))
    assert update["packed"].units == ()


@pytest.mark.parametrize("state", [{}, {"question": " \x00 "}, {"messages": []}, {"messages": [AIMessage("hi")]}])
async def test_without_a_question_there_is_nothing_to_do(
    open_memory: Open, runtime_of: RuntimeOf, state: RecallState
) -> None:
    with pytest.raises(InputError, match="question"):
        await retrieve({"user_id": "ana", **state}, runtime_of(open_memory()))


@pytest.mark.parametrize("user_id", [None, "", "  ", "a\x00b", 1.5])
async def test_a_user_is_needed(open_memory: Open, runtime_of: RuntimeOf, user_id: Any) -> None:
    with pytest.raises(InvalidUser):
        await retrieve({"user_id": user_id, "question": "?"}, runtime_of(open_memory()))


async def test_with_nothing_stored_retrieve_finds_nothing(open_memory: Open, runtime_of: RuntimeOf) -> None:
    update = await retrieve({"user_id": "ana", "question": "Where?"}, runtime_of(open_memory()))
    assert (update["packed"], update["stored"], update["standing"]) == (NOTHING, False, [])


# filter


def filtering(open_memory: Open, *replies: Any, repair: list[Any] | None = None) -> DualMem:
    script = {"filter": list(replies), "repair": repair or []}
    return open_memory(ScriptedChatModel(script=script), memory_filter="model")


async def test_units_with_a_kept_line_stay_whole(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    update = await filter_evidence(
        {"packed": packed, "question": "?"}, runtime_of(filtering(open_memory, {"keep": ["M1", "[T2]", "M9"]}))
    )
    assert update["packed"].units == (packed.units[0], packed.units[2])
    assert [call.step for call in update["calls"]] == ["filter"]


async def test_a_line_that_was_filtered_out_can_no_longer_be_cited(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    memory = open_memory(
        ScriptedChatModel(
            script={"filter": [{"keep": ["M3"]}], "answer": [{"cites": ["M1", "M3"], "found": True, "answer": "Tea."}]}
        ),
        memory_filter="model",
    )
    state: RecallState = {"packed": packed, "question": "?", "stored": True}
    state |= await filter_evidence(state, runtime_of(memory))
    drafted = (await answer(state, runtime_of(memory)))["drafted"]
    assert (drafted.memory_ids, drafted.turn_ids) == (("tea",), ())


@pytest.mark.parametrize(
    ("replies", "repair"),
    [([{"keep": []}], None), ([{"keep": ["M9"]}], None), (["no"], ["no"]), ([ConnectionError("refused")], None)],
)
async def test_a_filter_that_fails_or_keeps_nothing_leaves_everything(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext, replies: list[Any], repair: list[Any] | None
) -> None:
    update = await filter_evidence(
        {"packed": packed, "question": "?"}, runtime_of(filtering(open_memory, *replies, repair=repair))
    )
    assert "packed" not in update


async def test_the_filter_costs_nothing_where_it_is_off_or_has_nothing_to_do(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    assert await filter_evidence({"packed": packed, "question": "?"}, runtime_of(open_memory())) == {}
    assert await filter_evidence({"packed": NOTHING, "question": "?"}, runtime_of(filtering(open_memory))) == {}


# answer


def answering(open_memory: Open, *replies: Any, **options: Any) -> DualMem:
    return open_memory(ScriptedChatModel(script={"answer": list(replies)}), **options)


async def test_labels_are_turned_back_into_ids_and_unknown_ones_dropped(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    reply = {"cites": ["M2", "T1", "M9", "M2", "porto"], "found": True, "answer": " In Porto. "}
    update = await answer({"packed": packed, "question": "?"}, runtime_of(answering(open_memory, reply)))
    assert update["drafted"] == Answer(text="In Porto.", memory_ids=("porto",), turn_ids=("chat-2",))
    assert [call.step for call in update["calls"]] == ["answer"]


async def test_an_answer_that_found_nothing_abstains(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    reply = {"cites": [], "found": False, "answer": "I do not know."}
    update = await answer({"packed": packed, "question": "?"}, runtime_of(answering(open_memory, reply)))
    assert update["drafted"].abstained


@pytest.mark.parametrize(
    ("stored", "style", "text"),
    [(True, "conversational", NOTHING_FOUND), (False, "conversational", NOTHING_STORED), (False, "short", "NONE")],
)
async def test_without_evidence_no_model_is_asked(
    open_memory: Open,
    runtime_of: RuntimeOf,
    stored: bool,
    style: str,
    text: str,
) -> None:
    update = await answer(
        {"packed": NOTHING, "question": "?", "stored": stored},
        runtime_of(answering(open_memory, answer_style=style)),
    )
    assert update == {"drafted": Answer(text=text, abstained=True)}


async def test_without_an_answer_there_is_nothing_to_fall_back_on(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    state: RecallState = {"packed": packed, "question": "?"}
    with pytest.raises(ModelUnavailable):
        await answer(state, runtime_of(answering(open_memory, ConnectionError("refused"))))
    model = ScriptedChatModel(script={"answer": ["x"], "repair": ["y"]})
    with pytest.raises(UnreadableReply):
        await answer(state, runtime_of(open_memory(model)))


async def test_the_prompt_holds_standing_wishes_and_when_it_was_asked(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    model = ScriptedChatModel(script={"answer": [{"cites": [], "found": True, "answer": "x"}]})
    state: RecallState = {
        "packed": packed,
        "question": "?",
        "standing": ["Ana wants to be called Anni."],
        "asked_at": datetime(2024, 5, 8, tzinfo=UTC),
    }
    await answer(state, runtime_of(open_memory(model)))
    prompt = model.prompts[0][1][-1].text
    assert "Ana wants to be called Anni." in prompt
    assert "8 May 2024" in prompt


# gate

FAST = Answer(text="In Porto.", memory_ids=("porto",))


def judged(packed: PackedContext, drafted: Answer = FAST, *, stored: bool = True) -> RecallState:
    return {"user_id": "ana", "question": "Where?", "packed": packed, "drafted": drafted, "stored": stored}


async def test_the_gate_gives_the_public_result(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext, grades: Callable[..., Any]
) -> None:
    events: list[Any] = []
    memory = open_memory(ScriptedChatModel(script={"gate": [grades(reason="it says so")]}))
    state = judged(packed) | {"calls": [ModelCall(step="answer", tokens_in=5)]}
    update = await gate(state, runtime_of(memory, events))
    found = update["recollection"]
    assert (update["route"], update["answer"], update["verdict"].passed) == ("fast", "In Porto.", True)
    assert (found.outcome, found.route, found.dropped) == ("answered", "fast", ("dropped",))
    assert update["evidence_ids"] == ["berlin", "porto", "tea", "chat-7"]
    assert [item.memory_id for item in found.evidence if item.cited] == ["porto"]
    assert [item.unit for item in found.evidence] == [1, 1, 2, 3]
    assert set(found.usage.by_step) == {"answer", "gate"}
    assert [event["event"] for event in events] == ["verdict"]


async def test_with_nothing_stored_no_gate_is_asked(open_memory: Open, runtime_of: RuntimeOf) -> None:
    state = judged(NOTHING, Answer(text=NOTHING_STORED, abstained=True), stored=False)
    for policy in ("quality", "majority", "consensus", "always", "never"):
        update = await gate(state, runtime_of(open_memory(gate=policy)))
        assert (update["route"], update["recollection"].outcome) == ("fast", "nothing_stored")


async def test_a_gate_that_fails_lets_the_fast_answer_out_as_degraded(
    open_memory: Open, runtime_of: RuntimeOf, packed: PackedContext
) -> None:
    memory = open_memory(ScriptedChatModel(script={"gate": [ConnectionError("refused")]}))
    update = await gate(judged(packed), runtime_of(memory))
    found = update["recollection"]
    assert (update["route"], found.answer, found.outcome) == ("degraded", "In Porto.", "answered")
    assert "refused" in found.degraded_reason
    assert (found.verdict.passed, found.verdict.readable) == (False, False)


async def test_a_scope_may_be_given(
    open_memory: Open, runtime_of: RuntimeOf, reader: Callable[..., Any], chat_of: Callable[..., Any]
) -> None:
    memory = open_memory(reader())
    await memory.remember(chat_of("Ana: Ana lives in Porto."), user_id="ana", conversation_id="one")
    for name, found in (("one", 1), ("two", 0)):
        state: RecallState = {"user_id": "ana", "question": "Where?", "scope": Scope(conversation_ids=(name,))}
        assert len((await retrieve(state, runtime_of(memory)))["packed"].units) == found
