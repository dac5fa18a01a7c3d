"""Each kind of fault of a model, at each step: nothing lost, nothing made up, nothing silent, and whole again afterwards.

`TRUST_LONG=1` runs every fault at every step; by default every fault is met while remembering and answering, and some
of them at each other step.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import ssl
from collections.abc import Callable
from typing import Any

import httpx2 as httpx  # the one that openai uses
import openai
import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from dualmem import DualMem
from dualmem.errors import ModelError
from dualmem.lifecycle import violations
from dualmem.records import Memory, Recollection
from dualmem.testing import STEPS, ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
Fault = Callable[[Any], Any]
"""Makes, of what a healthy model would reply, the fault: an error to raise, a text, or a message."""

LONG = bool(os.environ.get("TRUST_LONG"))
REQUEST = httpx.Request("POST", "http://model.invalid/v1/chat/completions")


def status(code: int, kind: type[openai.APIStatusError], text: str, **headers: str) -> Fault:
    """A provider's answer that is an HTTP error."""
    return lambda _: kind(text, response=httpx.Response(code, headers=headers, request=REQUEST), body={"message": text})


def raising(error: Exception) -> Fault:
    return lambda _: error


def replying(text: str) -> Fault:
    return lambda _: text


def dressed(before: str, after: str = "") -> Fault:
    return lambda good: f"{before}{json.dumps(good, ensure_ascii=False)}{after}"


def ended(**metadata: Any) -> Fault:
    """A whole reply that the provider marks as none."""
    return lambda good: AIMessage(json.dumps(good), response_metadata=metadata)


def changed(change: Callable[[Any], Any]) -> Fault:
    """A reply with every value in it changed."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(part) for key, part in value.items()}
        return [walk(part) for part in value] if isinstance(value, list) else change(value)

    return walk


SCHEMA = {"type": "object", "properties": {"memories": {"type": "array"}}, "required": ["memories"]}

BROKEN: dict[str, Fault] = {
    # The call fails.
    "connection refused": raising(httpx.ConnectError("connection refused")),
    "connect timeout": raising(httpx.ConnectTimeout("timed out")),
    "read timeout": raising(openai.APITimeoutError(REQUEST)),
    "TimeoutError": raising(TimeoutError()),
    "cut stream": raising(httpx.RemoteProtocolError("peer closed connection without sending complete message body")),
    "connection reset": raising(ConnectionResetError(104, "reset by peer")),
    "certificate": raising(ssl.SSLCertVerificationError("certificate verify failed")),
    "429": status(429, openai.RateLimitError, "rate limit"),
    "429 with Retry-After": status(429, openai.RateLimitError, "rate limit", **{"Retry-After": "7"}),
    "quota exhausted": status(429, openai.RateLimitError, "insufficient_quota"),
    "400 context length": status(400, openai.BadRequestError, "maximum context length exceeded"),
    "400 content policy": status(400, openai.BadRequestError, "content management policy"),
    "401": status(401, openai.AuthenticationError, "invalid key"),
    "403": status(403, openai.PermissionDeniedError, "no access"),
    "404 no such model": status(404, openai.NotFoundError, "no such model"),
    "500": status(500, openai.InternalServerError, "internal error"),
    "502 a page of HTML": status(502, openai.InternalServerError, "<html><body>Bad Gateway</body></html>"),
    "503": status(503, openai.InternalServerError, "overloaded"),
    "body is no JSON": raising(json.JSONDecodeError("Expecting value", "<html>", 0)),
    "body without choices": raising(TypeError("'NoneType' object is not iterable")),
    "client's own fault": raising(KeyError("choices")),
    "out of memory": raising(MemoryError("model")),
    "text that cannot be decoded": raising(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")),
    # The reply is none.
    "empty": replying(""),
    "blank": replying(" \n\t\x00 "),
    "refusal in words": replying("I'm sorry, but I can't help with that."),
    "refusal by field": lambda _: AIMessage("", additional_kwargs={"refusal": "no"}),
    "content filter": ended(finish_reason="content_filter"),
    "cut off, marked": ended(finish_reason="length"),
    "cut off, Anthropic": ended(stop_reason="max_tokens"),
    "truncated JSON": lambda good: json.dumps(good)[: len(json.dumps(good)) // 2],
    "wrong schema": replying('{"result": {"items": [1, 2, 3]}}'),
    "schema echoed": replying(json.dumps(SCHEMA)),
    "null": replying("null"),
    "list of numbers": replying("[1, 2, 3]"),
    "an error in place of a reply": replying('{"error": {"message": "model is loading", "code": 503}}'),
    "a page": replying("<!DOCTYPE html><html><body>Sign in</body></html>"),
    "wrong language": replying("对不起，我不明白您的问题。请再说一遍。"),
    "thought without end": replying("<think>The user wants JSON. Let me see. " + "Wait. " * 50),
    "10 MB": lambda good: json.dumps(good) + " " * 10_000_000,
    "10 MB of braces": replying("{" * 10_000_000),
    "nested too deep": replying('{"memories": ' + "[" * 50_000 + "]" * 50_000 + "}"),
    "endless number": replying('{"memories": [{"turns": [' + "9" * 50_000 + "]}]}"),
    "repeats itself": replying('{"memories": [' + '{"turns": [1], "quote": "a", ' * 500),
}
"""No usable reply: turns must stay pending, a question must say so."""

DRESSED: dict[str, Fault] = {
    "thinking": dressed("<think>Is {this} JSON? No: { }</think>"),
    "code fence": dressed("```json\n", "\n```"),
    "prose": dressed("Sure! Here is the JSON you asked for:\n\n", "\n\nLet me know if you need more."),
    "byte order mark": dressed("\ufeff"),
    "said twice": lambda good: json.dumps(good) * 2,
    "more fields": lambda good: {**good, "confidence": 0.9, "notes": ["x"]},
    "blocks": lambda good: AIMessage([{"type": "text", "text": part} for part in ("", json.dumps(good))]),
    "usage without details": lambda good: AIMessage(
        json.dumps(good), usage_metadata={"input_tokens": 1, "output_tokens": 0, "total_tokens": 1}
    ),
}
"""A usable reply, oddly dressed: as good as a plain one."""

ODD: dict[str, Fault] = {
    "unknown numbers": changed(lambda value: 999 if isinstance(value, int) and not isinstance(value, bool) else value),
    "unknown labels": changed(lambda value: "Z99" if isinstance(value, str) and len(value) <= 3 else value),
    "odd case": changed(lambda value: value.upper() if isinstance(value, str) else value),
    "numbers as text": changed(lambda value: str(value) if isinstance(value, int) else value),
    "text as null": changed(lambda value: None if isinstance(value, str) else value),
    "everything a list": changed(lambda value: [value]),
    "lone surrogates": changed(lambda value: f"{value}\ud800\x00" if isinstance(value, str) else value),
    "someone else's words": changed(lambda value: "Zoe owns the moon." if isinstance(value, str) else value),
}
"""A reply of the right form whose contents are wrong: what is wrong in it is refused, and counted."""

FAULTS = {**BROKEN, **DRESSED, **ODD}


class FaultyModel(ScriptedChatModel):
    """Replies by its script, but with a fault at some step."""

    at: str = ""
    fault: Any = None

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        # A correction is asked of the same step.
        shown = next((m.text for m in reversed(messages) if any(mark in m.text for mark in STEPS.values())), "")
        step = next(name for name, mark in STEPS.items() if mark in shown)
        self.prompts.append((step, messages))
        reply = self._next(step)
        if callable(reply):
            reply = reply(shown)
        if step == self.at:
            reply = self.fault(reply)
        if isinstance(reply, BaseException):
            raise reply
        if not isinstance(reply, AIMessage):
            reply = AIMessage(reply if isinstance(reply, str) else json.dumps(reply))
        return ChatResult(generations=[ChatGeneration(message=reply)])


LINES = (
    "Ana: Ana lives in Berlin.",
    "Ana: Ana owns a boat.",
    "Ana: Ana lives in Porto.",
    "Ana: Ana works at a bakery.",
)
SAID = {line.partition(": ")[2] for line in LINES}


def some(step: str, every: int) -> list[tuple[str, str]]:
    """Return the cases of a step: all faults, or each n-th."""
    return [(step, name) for place, name in enumerate(FAULTS) if LONG or place % every == 0]


# Remembering


@pytest.mark.parametrize(("step", "name"), [*some("extract", 1), *some("consolidate", 3), *some("evolve", 6)])
async def test_what_a_model_gets_wrong_while_remembering_is_told_and_made_up_for(
    open_memory: Open, reader: Make, chat_of: Make, step: str, name: str
) -> None:
    model = FaultyModel(script=reader().script, at=step, fault=FAULTS[name])
    memory = open_memory(model, window_turns=4)
    receipt = await memory.remember(chat_of(*LINES), user_id="ana")

    turns = await memory.resources.store.turns("ana")
    assert [turn.text for turn in turns] == [line.partition(": ")[2] for line in LINES], (
        "turns are stored whatever comes"
    )
    made = await memory.memories(user_id="ana", states=())
    assert {one.text.casefold() for one in made} <= {text.casefold() for text in SAID}, "nothing is made up"
    assert violations(made) == []
    assert len(model.prompts) <= 16, "calls are bounded"
    if receipt.memories_made < len(LINES):
        assert receipt.failures or receipt.rejected, "what is missing is told"
    assert bool(receipt.turns_pending) is bool(receipt.failures)
    assert all("\n" not in failure and len(failure) < 500 for failure in receipt.failures)
    if name in BROKEN and step != "evolve":
        assert receipt.turns_pending == len(LINES) or receipt.rejected
    if name in BROKEN and step == "extract":
        assert receipt.turns_pending == len(LINES)
    if name in BROKEN and step == "evolve":
        assert receipt.rejected, "a review that failed is counted"

    model.at = ""
    await memory.resume(user_id="ana")
    again = await memory.remember(chat_of(*LINES), user_id="ana")
    assert (again.turns_stored, again.turns_pending) == (0, 0)
    known = await memory.memories(user_id="ana", states=())
    assert violations(known) == []
    if name not in ODD:
        assert {one.text for one in known} == SAID
        assert len(known) == len(SAID), "none twice"


async def test_a_model_that_hangs_is_given_up_and_the_turns_wait(
    open_memory: Open, reader: Make, chat_of: Make
) -> None:
    class Hanging(ScriptedChatModel):
        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    chat = chat_of(*LINES)
    receipt = await open_memory(Hanging(script={}), call_timeout=0.05).remember(chat, user_id="ana")
    assert (receipt.turns_stored, receipt.turns_pending, receipt.memories_made) == (4, 4, 0)
    assert "no reply from the model within 0.05 s" in receipt.failures[0]
    (resumed,) = await open_memory(reader()).resume(user_id="ana")
    assert (resumed.turns_pending, resumed.memories_made) == (0, 4)


# Recalling

QUESTION = "Where does Ana live?"
ANSWER = {"cites": ["M1"], "found": True, "answer": "In Porto."}
DEEP = {"cites": ["F1"], "found": True, "answer": "In Porto, by the turns."}
FACTS = {"facts": [{"turns": [number], "fact": "Ana lives in Porto.", "score": 9} for number in (1, 2, 3)]}
RECALL = [
    *((step, {}) for step in ("answer", "gate")),
    ("agree", {"gate": "majority"}),
    ("filter", {"memory_filter": "model"}),
    ("rerank", {"rerank": "model"}),
    ("deliberate.extract", {"gate": "always"}),
    ("deliberate.filter", {"gate": "always", "fact_filter_above": 0}),
]


def check(found: Recollection, stored: list[Memory]) -> None:
    """An answer has words, and rests on what is stored."""
    assert found.answer.strip()
    assert {item.memory_id for item in found.evidence if item.memory_id} <= {one.id for one in stored}


@pytest.mark.parametrize(
    ("step", "options", "name"),
    [
        (step, options, name)
        for step, options in RECALL
        for _, name in some(step, 1 if step == "answer" else 3 if step in {"gate", "deliberate.extract"} else 7)
    ],
)
async def test_what_a_model_gets_wrong_while_recalling_is_an_error_or_is_told(
    open_memory: Open, reader: Make, chat_of: Make, grades: Make, step: str, options: dict[str, Any], name: str
) -> None:
    await open_memory(reader()).remember(chat_of(*LINES), user_id="ana")
    # No two samples are the same word for word, so that they have to be compared.
    wordings = itertools.cycle(("In Porto.", "Porto.", "Porto, she says."))
    script = {
        "answer": lambda shown: DEEP if "[F1]" in shown else {**ANSWER, "answer": next(wordings)},
        "gate": grades(),
        "agree": {"reason": "", "agree": [1, 2, 3], "best": 1},
        "filter": {"keep": ["M1"]},
        "rerank": {"order": ["M1"]},
        "deliberate.extract": FACTS,
        "deliberate.filter": {"keep": [1]},
        "consolidate": {"decisions": []},
    }
    model = FaultyModel(script=script, at=step, fault=FAULTS[name])
    memory = open_memory(model, write_back=False, **options)
    before = await memory.memories(user_id="ana", states=())
    if step == "answer" and name in BROKEN:
        with pytest.raises(ModelError) as caught:
            await memory.recall(QUESTION, user_id="ana")
        assert "\n" not in str(caught.value)
        assert len(model.prompts) <= 2
    elif step == "answer" and name in ODD:
        # What cannot be read is an error; what can be read cites nothing that was not offered.
        with contextlib.suppress(ModelError):
            check(await memory.recall(QUESTION, user_id="ana"), before)
    else:
        found = await memory.recall(QUESTION, user_id="ana")
        check(found, before)
        assert len(model.prompts) <= 20
        if name in BROKEN:
            failures = found.coverage.failures if found.coverage is not None else ()
            assert found.degraded_reason or failures or not found.verdict.readable, "a fault is told"
        if name in DRESSED:
            assert not found.degraded_reason
    assert await memory.memories(user_id="ana", states=()) == before, "asking changes nothing"


@pytest.mark.parametrize("name", [name for _, name in some("consolidate", 4)])
async def test_what_a_model_gets_wrong_at_the_write_back_costs_no_answer(
    open_memory: Open, reader: Make, chat_of: Make, name: str
) -> None:
    await open_memory(strategy="verbatim").remember(
        chat_of("Ana: We moved, Porto is home now", "Ana: I like boats"), user_id="ana"
    )
    fact = {"facts": [{"turns": [1], "fact": "Ana moved, Porto is home now.", "score": 9}]}
    script = {"answer": DEEP, "deliberate.extract": fact, "consolidate": {"decisions": []}}
    model = FaultyModel(script=script, at="consolidate", fault=FAULTS[name])
    found = await open_memory(model, gate="always", check_support=False).recall(QUESTION, user_id="ana")
    assert found.answer == DEEP["answer"]
    memories = await open_memory(model).memories(user_id="ana", states=())
    assert violations(memories) == []
    assert len(memories) == len({one.id for one in memories})


def test_there_are_enough_kinds_of_fault() -> None:
    assert len(FAULTS) >= 40
