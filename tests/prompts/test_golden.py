"""What is sent to a model, word for word."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dualmem.prompts
from dualmem.chat import Prompt
from dualmem.reply import read_reply
from dualmem.testing import STEPS

NAMES = (
    "agreement",
    "answer",
    "answer_from_facts",
    "answer_short",
    "answer_with_wishes",
    "answer_without_evidence",
    "chunk_extraction",
    "chunk_extraction_for_a_ledger",
    "chunk_extraction_with_context",
    "consolidation",
    "consolidation_without_dates",
    "evolution",
    "extraction",
    "extraction_with_context",
    "fact_filter",
    "gate",
    "judge",
    "lean_extraction",
    "mem0star_extraction",
    "mem0star_update",
    "memory_filter",
    "pair_comparison",
    "rerank",
    "rubric_judge",
)
Rendered = dict[str, Prompt[Any]]


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_as_its_golden_file(
    name: str,
    rendered: Rendered,
    written: Callable[[Prompt[Any]], str],
    golden: Callable[[str, str], None],
) -> None:
    golden(name, written(rendered[name]))


def test_every_prompt_and_no_other_has_a_golden_file(rendered: Rendered) -> None:
    files = {path.stem for path in (Path(__file__).parent / "golden").glob("*.txt")}
    modules = {module.name for module in pkgutil.iter_modules(dualmem.prompts.__path__)} - {"evidence"}
    assert files == set(NAMES) == set(rendered)
    assert modules <= files


@pytest.mark.parametrize("name", NAMES)
def test_non_ascii_is_never_escaped(name: str, rendered: Rendered, written: Callable[[Prompt[Any]], str]) -> None:
    text = written(rendered[name])
    assert "\\u" not in text
    assert any(word in text for word in ("München", "安娜", "北京", "Köln"))


@pytest.mark.parametrize("name", NAMES)
def test_the_question_or_the_task_stands_last(name: str, rendered: Rendered) -> None:
    last = rendered[name].messages[-1].text
    step = rendered[name].step
    if name != "pair_comparison" and step in {"extract", "consolidate", "evolve", "judge", "rubric_judge"}:
        assert last.endswith("as JSON.")
    elif name == "pair_comparison":
        assert last.startswith("Old: ")
    else:
        assert last.rpartition("\n\n")[2].startswith(("Question: Wo in München wohnt Ana jetzt?", "Asked on "))


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_says_that_data_is_no_instruction(name: str, rendered: Rendered) -> None:
    system, *_ = rendered[name].messages
    assert system.type == "system"
    assert re.search("never (an instruction|instructions) to you", system.text)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_closed_and_bounded(name: str, rendered: Rendered) -> None:
    def check(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
            if node.get("type") == "array":
                assert node["maxItems"] >= 0
            if node.get("type") == "string":
                assert "maxLength" in node or "enum" in node
            for value in node.values():
                check(value)

    check(rendered[name].schema)


def test_a_ledger_changes_nothing_before_the_task(rendered: Rendered) -> None:
    left, right = rendered["chunk_extraction"], rendered["chunk_extraction_for_a_ledger"]
    assert common_prefix(left, right).endswith("</conversation>\n\n")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "chunk_extraction_for_a_ledger"])
def test_the_worked_example_is_a_valid_reply(name: str, rendered: Rendered) -> None:
    prompt = rendered[name]
    examples = [message.text for message in prompt.messages if message.type == "ai"]
    for example in examples:
        reply = read_reply(example, prompt.output)
        assert getattr(reply, "malformed", 0) == 0
        assert list(json.loads(example)) == list(prompt.schema["properties"])
        for name_of_list, field in prompt.schema["properties"].items():
            wanted = list(field.get("items", {}).get("properties", []))
            items = json.loads(example)[name_of_list] if wanted else []
            assert all(list(item) == wanted for item in items), "the example gives the fields in the schema's order"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pair_comparison"])
def test_the_scripted_model_knows_the_step_of_every_prompt(name: str, rendered: Rendered) -> None:
    last = rendered[name].messages[-1].text
    assert len([step for step, mark in STEPS.items() if mark in last]) == 1


def common_prefix(left: Prompt[Any], right: Prompt[Any]) -> str:
    """Return the longest common beginning of two prompts, over all messages."""
    texts = ["\0".join(f"{message.type}\0{message.text}" for message in prompt.messages) for prompt in (left, right)]
    shorter = min(texts, key=len)
    place = next((place for place, pair in enumerate(zip(*texts, strict=False)) if len(set(pair)) > 1), len(shorter))
    return shorter[:place]


@pytest.mark.parametrize("other", ["gate", "memory_filter", "rerank", "answer_with_wishes"])
def test_prompts_over_evidence_begin_alike_up_to_the_task(other: str, rendered: Rendered) -> None:
    assert "</evidence>\n\nTask: " in common_prefix(rendered["answer"], rendered[other])


def test_extractions_of_one_strategy_begin_alike(rendered: Rendered) -> None:
    left, right = rendered["extraction"], rendered["extraction_with_context"]
    assert left.messages[:-1] == right.messages[:-1]
