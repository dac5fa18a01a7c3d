"""Replies of a stub model, derived from each prompt by rule, so that a library does all the work it would do anyway.

The rules are the same for every library: the longest sentence of an utterance that has five words or more is a fact,
with its speaker in front, and no fact is ever a duplicate of another, so that all store the same number. An answer is
the line of the evidence that shares most words with the question; it is complete if all words of the question that
matter stand in the evidence, and a part of a history holds the facts that share a word with the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dualmem.testing import STEPS

FEWEST_WORDS = 5
MOST_FACTS = 3
"""Facts that a part of a history holds at most."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NUMBERED = re.compile(r"^\[(\d+)\] ([^:\n]+): (.*)$", re.MULTILINE)
_LABELLED = re.compile(r"^\[([A-Z]+\d*)\] (.*)$", re.MULTILINE)
_NEW = re.compile(r"^New (\d+): ", re.MULTILINE)
_FACT = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_SIMPLEMEM = "[Current Window Dialogues]"
_COMMON_WORDS = """
a about all an and any are as at be been by did do does for from had has have he her his how i in is it its me my of on
or say she so that the their them they this to was we were what when where which who why will with you
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class UnknownPrompt(ValueError):
    """There is no rule for a prompt: the library asks in a way that the stub does not know."""


def fact_in(text: str) -> str:
    """Return the longest sentence of an utterance, "" where it has fewer than five words."""
    longest = max(_SENTENCE.split(text.strip()), key=len)
    return longest if len(longest.split()) >= FEWEST_WORDS else ""


def words_of(text: str) -> set[str]:
    """Return the words of a text that matter."""
    return set(re.findall(r"[a-z0-9']+", text.lower())) - _COMMON


def reply_to(messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the assistant's message, as the OpenAI protocol has it.

    Args:
        messages: The prompt.
        body: The whole request.

    Raises:
        UnknownPrompt: No rule fits.
    """
    last = text_of(messages[-1])
    if body.get("tools"):
        return {"role": "assistant", "content": None, "tool_calls": _tool_calls(last, body["tools"])}
    if "## New Messages" in last:
        return _message({"memory": _mem0(last)})
    if _SIMPLEMEM in last:
        return _message(_simplemem(last))
    return _message(_RULES[step_of(messages, body)](last, _schema(body)))


def step_of(messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> str:
    """Return which step of which library a prompt belongs to.

    Raises:
        UnknownPrompt: No rule fits.
    """
    last = text_of(messages[-1])
    if body.get("tools"):
        return "langmem"
    if "## New Messages" in last:
        return "mem0"
    if _SIMPLEMEM in last:
        return "simplemem"
    for step, mark in STEPS.items():
        if mark in last and step in _RULES:
            return step
    message = f"no rule for a prompt that ends in {last[-120:]!r}"
    raise UnknownPrompt(message)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _message(value: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)}


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    wanted = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    properties: Mapping[str, Any] = wanted.get("properties", {})
    return properties


def _between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]


def _extract(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    memories = [
        {
            "turns": [int(number)],
            "quote": fact[:160],
            "text": f"{speaker}: {fact}"[:300],
            "kind": "fact",
            "subject": speaker,
            "attribute": "",
            "when": "",
            "topic": "",
            "entities": [],
            "standing": False,
        }
        for number, speaker, text in _NUMBERED.findall(_between(last, "conversation"))
        if (fact := fact_in(text))
    ]
    return {"memories": memories[: schema["memories"]["maxItems"]]}


def _consolidate(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    decision = {"target": "none", "same": False, "both": True, "sign": "", "reason": ""}
    return {"decisions": [{"new": int(number), **decision} for number in _NEW.findall(_between(last, "memories"))]}


def _evolve(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"relations": []}


def _question(last: str) -> str:
    return last.rpartition("Question: ")[2].partition("\n")[0]


def _answer(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    asked = words_of(_question(last))
    lines = _LABELLED.findall(_between(last, "evidence"))
    if not lines:
        return {"cites": [], "found": False, "answer": "I do not know."}
    label, text = max(lines, key=lambda line: len(asked & words_of(line[1])))
    return {"cites": [label], "found": True, "answer": text[:600]}


def _gate(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    lacking = sorted(words_of(_question(last)) - words_of(_between(last, "evidence")))
    return {
        "reason": "by words",
        "relevant": True,
        "faithful": True,
        "complete": not lacking,
        "missing": " ".join(lacking)[:80],
    }


def _filter(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"keep": [label for label, _ in _LABELLED.findall(_between(last, "evidence"))]}


def _read_chunk(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    asked = words_of(_question(last))
    said = [
        (len(asked & words_of(f"{speaker} {fact}")), int(number), f"{speaker}: {fact}"[:240])
        for number, speaker, text in _NUMBERED.findall(_between(last, "conversation"))
        if (fact := fact_in(text))
    ]
    best = sorted((one for one in said if one[0]), key=lambda one: (-one[0], one[1]))[:MOST_FACTS]
    return {"facts": [{"turns": [number], "fact": fact, "score": 8} for _, number, fact in best]}


def _select(last: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"keep": [int(number) for number in _FACT.findall(_between(last, "facts"))[:6]]}


_RULES: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "extract": _extract,
    "consolidate": _consolidate,
    "evolve": _evolve,
    "filter": _filter,
    "answer": _answer,
    "gate": _gate,
    "deliberate.extract": _read_chunk,
    "deliberate.filter": _select,
}


def _mem0(last: str) -> list[dict[str, Any]]:
    shown = last.partition("## New Messages\n")[2].partition("\n\n## ")[0]
    facts = [fact for line in shown.splitlines() if (fact := _spoken(line.partition(": ")[2]))]
    return [{"id": str(place), "text": fact, "attributed_to": "user"} for place, fact in enumerate(facts)]


def _simplemem(last: str) -> list[dict[str, Any]]:
    shown = last.partition(_SIMPLEMEM)[2].partition("\n\n[Requirements]")[0]
    return [{"lossless_restatement": fact, "keywords": []} for line in shown.splitlines() if (fact := _spoken(line))]


def _spoken(line: str) -> str:
    """Return the fact of a line `Speaker: text`, with its speaker."""
    speaker, colon, text = line.partition(": ")
    fact = fact_in(text) if colon else ""
    return f"{speaker}: {fact}"[:300] if fact else ""


def _tool_calls(last: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a call of LangMem's tool `Memory` for each fact of the session."""
    if not any(tool["function"]["name"] == "Memory" for tool in tools):
        message = f"no rule for the tools {[tool['function']['name'] for tool in tools]}"
        raise UnknownPrompt(message)
    shown = re.split(r"<session_[^>]*>", last)[-1]
    facts = [fact for line in shown.splitlines() if (fact := _spoken(line))]
    return [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": "Memory", "arguments": json.dumps({"content": fact})},
        }
        for place, fact in enumerate(facts)
    ]
