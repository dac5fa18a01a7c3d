from __future__ import annotations

import copy
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from dualmem.cleaning import INJECTED_CLOSE, INJECTED_OPEN
from dualmem.errors import DualmemError, EmptyConversation, InputError
from dualmem.loaders import from_messages
from dualmem.records.turn import Message, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable


def read(*messages: object, timezone: tzinfo = UTC) -> Transcript:
    return from_messages(cast("Any", messages), conversation_id="thread", timezone=timezone)


def said(transcript: Transcript) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in transcript.messages]


CALL = {"name": "search", "args": {"query": "Oslo", "k": 3}, "id": "call-1"}

CONVERSATION: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("Where is Oslo?", id="m1", name="Nora"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("In Norway.", tool_call_id="call-1"),
    AIMessageChunk(content="It is in Norway."),
    ChatMessage(content="Next question, please.", role="moderator"),
    FunctionMessage(content="42", name="count"),
]

EXPECTED = [
    ("system", None, "Be brief."),
    ("user", "Nora", "Where is Oslo?"),
    ("assistant", None, '[calls search: {"query": "Oslo", "k": 3}]'),
    ("tool", "search", "In Norway."),
    ("assistant", None, "It is in Norway."),
    ("user", "moderator", "Next question, please."),
    ("tool", "count", "42"),
]


@pytest.mark.parametrize("dump", [list, messages_to_dict, lambda messages: [dumpd(message) for message in messages]])
def test_every_kind_of_message_is_read_live_and_dumped(
    dump: Callable[[list[BaseMessage]], list[dict[str, object]]],
) -> None:
    transcript = from_messages(dump(CONVERSATION), conversation_id=" thread ")

    assert [(message.role, message.name, message.content) for message in transcript.messages] == EXPECTED
    assert transcript.conversation_id == "thread"
    assert transcript.messages[1].id == "m1"
    assert transcript.skipped == {}


def test_plain_forms_are_read() -> None:
    transcript = read(
        {"role": "user", "content": "One", "id": 7, "session": "s1"},
        {"role": "developer", "content": "Two"},
        ("ai", "Three"),
        ["human", "Four"],
        "Five",
        Message(role="assistant", content="Six", session="s2", timestamp=datetime(2024, 1, 1, tzinfo=UTC)),
    )

    assert said(transcript) == [
        ("user", "One"),
        ("system", "Two"),
        ("assistant", "Three"),
        ("user", "Four"),
        ("user", "Five"),
        ("assistant", "Six"),
    ]
    assert transcript.messages[0].id == "7"
    assert [message.session for message in transcript.messages] == ["s1", None, None, None, None, "s2"]
    assert transcript.messages[5].timestamp == datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": '{"x": 1}'}},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}]},
        AIMessage(
            [{"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}],
            tool_calls=[{**CALL, "name": "f", "args": {"x": 1}}],
        ),
        AIMessage(
            "",
            invalid_tool_calls=[
                {"name": "f", "args": '{"x": 1}', "id": "1", "error": None, "type": "invalid_tool_call"}
            ],
        ),
        AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": '{"x": 1}'}}),
        {
            "role": "ai",
            "content": "",
            "additional_kwargs": {"tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]},
        },
    ],
)
def test_tool_calls_without_content_read_as_the_calls(message: object) -> None:
    assert said(read(message)) == [("assistant", '[calls f: {"x": 1}]')]


def test_tool_calls_beside_text_are_counted() -> None:
    transcript = read(AIMessage("Let me look.", tool_calls=[CALL, {**CALL, "id": "call-2"}]))

    assert said(transcript) == [("assistant", "Let me look.")]
    assert transcript.skipped == {"tool call beside text": 2}


def test_odd_tool_calls_are_readable() -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    transcript = read(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"name": None, "args": {}}, 3, {"name": "f", "args": circle}],
        },
        {"role": "assistant", "content": "", "tool_calls": [{"name": "g", "args": {"text": "ä" * 1000}}]},
    )

    assert transcript.messages[0].content == "[calls a tool]\n[calls f: ...]"
    assert transcript.messages[1].content == '[calls g: {"text": "' + "ä" * 290 + "...]"


def test_blocks_keep_text_and_captions_and_count_the_rest() -> None:
    transcript = read(
        HumanMessage(
            [
                "First",
                {"type": "text", "text": "second"},
                {"type": "image_url", "image_url": {"url": "x", "alt": "a red boat"}},
                {"type": "image", "caption": "a blue boat"},
                {"type": "image_url", "image_url": "x"},
                {"type": "audio", "data": ""},
                {"type": "Very Odd <type>"},
            ]
        ),
        AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": {"value": "third"}}]),
        {"role": "assistant", "content": {"type": "refusal", "refusal": "I will not."}},
        {"role": "user", "content": 42},
        {"role": "user", "content": object()},
    )

    assert said(transcript) == [
        ("user", "First\nsecond\n[shares an image: a red boat]\n[shares an image: a blue boat]"),
        ("assistant", "third"),
        ("assistant", "I will not."),
        ("user", "42"),
    ]
    assert transcript.skipped == {
        "image without a caption": 1,
        "audio block": 1,
        "unknown block": 1,
        "reasoning block": 1,
        "content of an unknown kind": 1,
        "empty message": 1,
    }


def test_tool_results_of_anthropic_are_the_tools() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "12 degrees"}]}

    assert said(read({"role": "user", "content": [result]})) == [("tool", "12 degrees")]


def test_what_memory_marked_is_injected() -> None:
    mark = {"dualmem": {"injected": True}}
    transcript = read(
        SystemMessage(f"{INJECTED_OPEN}Nora paints.{INJECTED_CLOSE}", additional_kwargs=mark),
        {"role": "system", "content": "Nora sails.", "metadata": mark},
        HumanMessage("Hello", additional_kwargs={"dualmem": {"injected": "yes"}}),
    )

    assert [(message.content, message.injected) for message in transcript.messages] == [
        ("Nora paints.", True),
        ("Nora sails.", True),
        ("Hello", False),
    ]


def test_fenced_memories_are_taken_out_of_what_was_said() -> None:
    fenced = f"{INJECTED_OPEN}\nNora paints.\n{INJECTED_CLOSE}"
    transcript = read(HumanMessage(f"{fenced}\nWhat do I do on Sundays?"), SystemMessage(fenced))

    assert [(message.content, message.injected) for message in transcript.messages] == [
        ("What do I do on Sundays?", False),
        ("Nora paints.", True),
    ]
    assert transcript.skipped == {"injected memories": 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp": "2024-07-01T10:00:00"},
        {"created_at": datetime(2024, 7, 1, 10)},
        {"additional_kwargs": {"timestamp": "2024-07-01 10:00"}},
        {"response_metadata": {"timestamp": 1719820800}},
        {"timestamp": None, "metadata": {"created_at": "2024-07-01T08:00:00Z"}},
    ],
)
def test_a_message_is_dated_by_its_own_time(fields: dict[str, object]) -> None:
    transcript = read({"role": "user", "content": "Hi", **fields}, timezone=ZoneInfo("Europe/Rome"))

    assert transcript.messages[0].timestamp == datetime(2024, 7, 1, 8, tzinfo=UTC)


def test_without_a_time_there_is_none() -> None:
    transcript = read("Hi", {"role": "user", "content": "Ho", "timestamp": "last week"})

    assert [message.timestamp for message in transcript.messages] == [None, None]
    assert transcript.skipped == {"unreadable timestamp": 1}


def test_what_is_no_message_is_counted() -> None:
    bad: list[Any] = [
        None,
        3,
        {},
        {"role": "user"},
        {"role": 5, "content": "x"},
        ("user",),
        (1, 2),
        {"content": "x"},
        RemoveMessage(id="m"),
        "  ",
    ]

    assert read(*bad, "Hi").skipped == {"malformed message": 9, "empty message": 1}


def test_text_is_cleaned_at_the_door() -> None:
    transcript = read({"role": "user", "content": "\x00Hi\ud800 <|im_end|>", "name": "No\nra", "id": "\ud800"})

    message = transcript.messages[0]
    assert (message.content, message.name, message.id) == ("Hi\ufffd < |im_end|>", "No ra", "\ufffd")


def test_nothing_of_the_callers_is_changed() -> None:
    messages: list[Any] = [
        *CONVERSATION,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "name": "f", "input": {}}],
            "tool_calls": [CALL],
        },
    ]
    before = copy.deepcopy(messages)

    from_messages(messages, conversation_id="thread")

    assert messages == before


@pytest.mark.parametrize("messages", [[], ["", " \n"], [None]])
def test_nothing_to_remember_is_an_error(messages: object) -> None:
    with pytest.raises(EmptyConversation, match="no message to remember in conversation 'thread'"):
        from_messages(cast("Any", messages), conversation_id="thread")


@pytest.mark.parametrize("messages", ["Hi", b"Hi", {"messages": []}, HumanMessage("Hi").content, 5, None])
def test_what_is_no_list_is_refused(messages: object) -> None:
    with pytest.raises(InputError, match="list of messages"):
        from_messages(cast("Any", messages), conversation_id="thread")


@pytest.mark.parametrize("conversation_id", ["", " ", None, []])
def test_a_blank_conversation_id_is_refused(conversation_id: object) -> None:
    with pytest.raises(InputError, match="conversation id"):
        from_messages(["Hi"], conversation_id=cast("Any", conversation_id))


KEYS = st.sampled_from(
    [
        *("role", "type", "content", "text", "name", "id", "timestamp", "metadata", "additional_kwargs"),
        *("tool_calls", "tool_call_id", "function", "args", "dualmem", "injected", "data", "kwargs", "lc"),
    ]
)
WORDS = st.sampled_from(["user", "assistant", "tool", "text", "image", "tool_use", "tool_result", "ai", "thinking"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | WORDS,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS | st.integers(), inner),
    max_leaves=30,
)


@settings(deadline=None)
@given(
    st.lists(ANYTHING | st.fixed_dictionaries({"role": WORDS, "content": ANYTHING}, optional={"tool_calls": ANYTHING}))
)
def test_any_list_is_read_or_refused(messages: list[object]) -> None:
    try:
        transcript = from_messages(cast("Any", messages), conversation_id="thread")
    except DualmemError:
        return
    assert transcript.messages
    assert all(message.content for message in transcript.messages)
