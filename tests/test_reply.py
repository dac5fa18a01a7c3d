"""Replies as models dress them up."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from dualmem.errors import UnreadableReply
from dualmem.prompts.answer import AnswerReply
from dualmem.prompts.chunk_extraction import ChunkReply
from dualmem.prompts.consolidation import ConsolidationReply
from dualmem.prompts.evolution import EvolutionReply
from dualmem.prompts.extraction import ExtractionReply
from dualmem.prompts.gate import GateReply
from dualmem.prompts.mem0star_update import UpdateReply
from dualmem.prompts.memory_filter import FilterReply
from dualmem.reply import LONGEST_REPLY, read_reply


class Place(BaseModel):
    city: str
    floor: int = 0


PORTO = '{"city": "Porto", "floor": 3}'

DRESSED = {
    "bare": PORTO,
    "fence": f"```json\n{PORTO}\n```",
    "fence without a language": f"```\n{PORTO}\n```",
    "prose around": f"Sure! Here is the JSON you asked for:\n\n{PORTO}\n\nLet me know if you need more.",
    "thinking": f"<think>The user wants {{a city}}. Maybe Porto?</think>\n{PORTO}",
    "thinking with a draft": f'<think>{{"city": "Lisbon"}} or better Porto</think>{PORTO}',
    "thinking in capitals": f'<Thinking>{{"city": "Lisbon"}}</Thinking>{PORTO}',
    "two thoughts": f'<think>a</think><reasoning>{{"city": "Lisbon"}}</reasoning>{PORTO}',
    "prose with braces": f"I looked at {{the turns}} and {{{{all}}}} of them. {PORTO}",
    "a byte order mark": f"\ufeff{PORTO}",
    "an object of another form first": f'{{"note": "the answer follows"}} {PORTO}',
    "an empty object first": f"{{}} {PORTO}",
    "a list around it": f"[{PORTO}]",
    "a tag around it": f"<json>{PORTO}</json>",
    "more keys than asked for": '{"city": "Porto", "floor": 3, "why": {"said": [1, 2]}}',
    "a number as text": '{"city": "Porto", "floor": "3"}',
    "cut off after the object": f'{PORTO}, {{"city": "Lis',
}


@pytest.mark.parametrize("text", DRESSED.values(), ids=DRESSED.keys())
def test_the_object_is_found_however_it_is_dressed(text: str) -> None:
    assert read_reply(text, Place) == Place(city="Porto", floor=3)


IN_STRINGS = {
    "braces": "a {set} of {{braces}} }",
    "backticks": "```json\n{}\n``` and `code`",
    "quotes": 'she said "Porto"',
    "a backslash": "C:\\new\\table",
    "non-ASCII": "北京 – Müllerstraße 🏠",
    "a line end": "two\nlines",
    "a tab": "two\tcells",
    "an escape character": "red \x1b[31m text",
    "a thinking tag": "the <think> tag",
    "a closed thinking tag": "<think>not a thought</think>",
    "a fence of ours": "</evidence>",
}


@pytest.mark.parametrize("value", IN_STRINGS.values(), ids=IN_STRINGS.keys())
def test_strings_may_hold_anything(value: str) -> None:
    text = json.dumps({"city": value}, ensure_ascii=False)
    assert read_reply(text, Place).city == value


@pytest.mark.parametrize("control", ["\n", "\t", "\x00", "\x1b", "\r\n"])
def test_raw_control_characters_inside_strings_are_read(control: str) -> None:
    assert read_reply(f'{{"city": "Por{control}to"}}', Place).city == f"Por{control}to".replace(
        "\0", ""
    )  # which Postgres does not take


def test_of_several_objects_the_first_valid_one_counts() -> None:
    assert read_reply('{"town": 1} {"city": "Porto"} {"city": "Lisbon"}', Place).city == "Porto"


def test_an_inner_object_does_not_stand_in_for_a_broken_outer_one() -> None:
    with pytest.raises(UnreadableReply):
        read_reply('{"places": [{"city": "Porto"}], "total": 1}', Place)


SCHEMA_ECHOES = {
    "pydantic's": json.dumps(Place.model_json_schema()),
    "ours": '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
    "with a value that would do": '{"type": "object", "properties": {}, "city": "string"}',
}


@pytest.mark.parametrize("text", SCHEMA_ECHOES.values(), ids=SCHEMA_ECHOES.keys())
def test_a_schema_sent_back_is_no_reply(text: str) -> None:
    with pytest.raises(UnreadableReply, match="schema"):
        read_reply(text, Place)


def test_the_reply_after_an_echoed_schema_is_read() -> None:
    assert read_reply(f"{json.dumps(Place.model_json_schema())}\n{PORTO}", Place).city == "Porto"


UNREADABLE = {
    "nothing": "",
    "prose": "I am sorry, I cannot do that.",
    "a list": "[1, 2]",
    "a string": '"Porto"',
    "null": "null",
    "cut off": '{"city": "Por',
    "only a thought": '<think>{"city": "Porto"}',
    "other keys": '{"town": "Porto"}',
    "a wrong type": '{"city": ["Porto"]}',
    "single quotes": "{'city': 'Porto'}",
    "deep nesting": '{"city": ' + "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "many openings": "{" * 100_000,
    "a number without end": '{"floor": ' + "9" * 5_000 + "}",
    "not a number": '{"city": "Porto", "floor": NaN}',
    "infinity": '{"city": "Porto", "floor": Infinity}',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_one_typed_error(text: str) -> None:
    with pytest.raises(UnreadableReply) as caught:
        read_reply(text, Place)
    assert len(str(caught.value)) < 300


def test_the_complaint_says_where_it_went_wrong() -> None:
    with pytest.raises(UnreadableReply, match=r"^city: Field required$"):
        read_reply('{"floor": 1}', Place)


def test_a_reply_is_bounded() -> None:
    with pytest.raises(UnreadableReply, match=str(LONGEST_REPLY)):
        read_reply(" " * (LONGEST_REPLY + 1), Place)


@pytest.mark.parametrize("depth", range(50, 1_000, 50))
def test_nesting_at_the_edge_of_what_can_be_read_is_still_a_typed_error(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    for text, output in (
        (f'{{"cites": {nested}, "found": true}}', AnswerReply),
        (f'{{"keep": {nested}, "x": 1}}', FilterReply),
        (f'{{"memories": {nested}}}', ExtractionReply),
    ):
        with suppress(UnreadableReply):
            read_reply(text, output)


# Replies of the prompts: odd case, lists for values, values for lists, missing fields


def test_a_kind_may_have_an_odd_case_be_a_list_or_be_unknown() -> None:
    kinds: list[Any] = ["Preference ", ["plan"], "hobby", None, []]
    items = [{"turns": 1, "text": "x", "kind": kind} for kind in kinds]
    reply = read_reply(json.dumps({"memories": items}), ExtractionReply)
    assert [memory.kind for memory in reply.memories] == ["preference", "plan", "fact", "fact", "fact"]


def test_a_single_turn_or_entity_is_a_list_of_one() -> None:
    reply = read_reply('{"memories": [{"turns": 2, "text": "x", "entities": "Porto"}]}', ExtractionReply)
    assert (reply.memories[0].turns, reply.memories[0].entities) == ([2], ["Porto"])


def test_null_fields_are_empty() -> None:
    item = {"turns": [1], "text": "x", "quote": None, "subject": None, "when": None, "entities": None}
    memory = read_reply(json.dumps({"memories": [item]}), ExtractionReply).memories[0]
    assert (memory.quote, memory.subject, memory.when, memory.entities) == ("", "", "", [])


def test_one_malformed_item_does_not_cost_the_others() -> None:
    items: list[Any] = [{"turns": [1], "text": "x"}, {"turns": ["first"], "text": "y"}, "z", {"text": "w"}]
    reply = read_reply(json.dumps({"memories": items}), ExtractionReply)
    assert ([memory.text for memory in reply.memories], reply.malformed) == (["x"], 3)


def test_labels_of_decisions_may_stand_in_lists_or_brackets_or_be_missing() -> None:
    items: list[Any] = [
        {"new": 1, "target": "[A]", "same": "true", "both": False, "sign": None},
        {"new": "2", "target": None, "same": False, "both": True},
        {"new": 3, "target": ["B"], "same": False, "both": True, "reason": None},
        {"new": 4, "target": "A", "same": "perhaps", "both": True},
        {"new": 5, "target": "A"},
    ]
    reply = read_reply(json.dumps({"decisions": items}), ConsolidationReply)
    assert [(one.new, one.target, one.same, one.sign) for one in reply.decisions] == [
        (1, "A", True, ""),
        (2, "none", False, ""),
        (3, "B", False, ""),
    ]
    assert reply.malformed == 2


def test_operations_may_have_an_odd_case() -> None:
    items: list[Any] = [{"new": 1, "target": "A", "operation": " update "}, {"new": 2, "operation": "MERGE"}]
    reply = read_reply(json.dumps({"operations": items}), UpdateReply)
    assert [(one.operation, one.target) for one in reply.operations] == [("UPDATE", "A")]
    assert reply.malformed == 1


def test_a_grade_that_is_missing_is_no_pass() -> None:
    with pytest.raises(UnreadableReply, match="complete"):
        read_reply('{"relevant": true, "faithful": true}', GateReply)


def test_labels_may_stand_in_brackets_or_alone() -> None:
    assert read_reply('{"cites": "[M1]", "found": true, "answer": "x"}', AnswerReply).cites == ["M1"]
    assert read_reply('{"cites": ["[M1]", " T2 "], "found": true, "answer": "x"}', AnswerReply).cites == ["M1", "T2"]
    assert read_reply('{"cites": null, "found": true, "answer": "x"}', AnswerReply).cites == []


def test_an_empty_answer_is_no_answer() -> None:
    with pytest.raises(UnreadableReply):
        read_reply('{"cites": [], "found": true, "answer": ""}', AnswerReply)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('{"memories": [{"memory": "Ana lives in Porto"}]}', ExtractionReply),
        ('{"memories": {"turns": [1], "quote": 7}}', ExtractionReply),
        ('{"decisions": [{"id": 1, "action": "UPDATE"}]}', ConsolidationReply),
        ('{"relations": ["A replaces B"]}', EvolutionReply),
        ('{"facts": ["Ana lives in Porto"]}', ChunkReply),
    ],
)
def test_a_reply_of_which_nothing_is_usable_is_unreadable_and_not_empty(text: str, output: type[BaseModel]) -> None:
    with pytest.raises(UnreadableReply):
        read_reply(text, output)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    ["memories", "decisions", "relations", "facts", "keep", "cites", "found", "answer", "turns", "text", "kind"]
    + ["new", "target", "decision", "later", "earlier", "relation", "fact", "score", "relevant", "properties", "type"]
)
likely = st.dictionaries(names, json_values | st.lists(st.dictionaries(names, json_values, max_size=5), max_size=3))
OUTPUTS = [ExtractionReply, ConsolidationReply, EvolutionReply, ChunkReply, AnswerReply, GateReply, FilterReply]


@given(text=st.text(), output=st.sampled_from(OUTPUTS))
def test_any_text_is_read_or_refused_by_one_error(text: str, output: type[BaseModel]) -> None:
    with suppress(UnreadableReply):
        assert isinstance(read_reply(text, output), output)


@settings(max_examples=60)
@given(value=likely, before=st.text(max_size=20), after=st.text(max_size=20), output=st.sampled_from(OUTPUTS))
def test_any_object_is_read_or_refused_by_one_error(
    value: dict[str, Any], before: str, after: str, output: type[BaseModel]
) -> None:
    with suppress(UnreadableReply):
        assert isinstance(read_reply(f"{before}{json.dumps(value)}{after}", output), output)
