"""The words of an answer, while they are written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from dualmem import DualMem
from dualmem.reply import partial_text
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]
FAST = {"cites": ["M1"], "found": True, "answer": 'She said "hello" 🏠, in Köln.'}
DEEP = {"cites": ["F1"], "found": True, "answer": "Herons."}


class StreamingModel(ScriptedChatModel):
    """Sends its replies in pieces of three characters."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._generate(messages, stop, None, **kwargs).generations[0].message
        text = reply.text
        for start in range(0, len(text), 3):
            last = start + 3 >= len(text)
            usage = reply.usage_metadata if last else None  # type: ignore[attr-defined] # an AIMessage
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + 3], usage_metadata=usage))


@pytest.fixture
async def streamed(open_memory: Open, chat_of: Make) -> Callable[..., Any]:
    """Recall with a model that streams; give the events of words by step, and the result."""
    await open_memory(strategy="verbatim").remember(chat_of("Ana: the herons said hello in Köln"), user_id="ana")

    async def run(script: dict[str, Any], **options: Any) -> tuple[dict[str, list[str]], Any]:
        memory = open_memory(StreamingModel(script=script), strategy="verbatim", **options)
        words: dict[str, list[str]] = {}
        result: Any = None
        given = {"user_id": "ana", "question": "What did the herons say?"}
        event: Any
        async for event in memory.recall_graph.astream(
            given, context=memory.settings, stream_mode=["custom", "values"], subgraphs=True
        ):
            _, mode, update = event
            if mode == "custom" and update["event"] == "token":
                words.setdefault(update["step"], []).append(update["text"])
            elif mode == "values":
                result = update.get("recollection") or result
        return words, result

    return run


async def test_both_answers_are_streamed_word_by_word(streamed: Any, grades: Make) -> None:
    fact = {"facts": [{"turns": [1], "fact": "The herons said hello.", "score": 9}]}
    script = {"answer": [FAST, DEEP], "gate": [grades(complete=False)], "deliberate.extract": fact}
    words, found = await streamed(script, stream_tokens=True, write_back=False)
    assert "".join(words["answer"]) == FAST["answer"]
    assert "".join(words["deliberate.answer"]) == found.answer == "Herons."
    assert len(words["answer"]) > 3
    assert found.usage.by_step["answer"] > 0


async def test_nothing_is_streamed_unless_it_is_asked_for(streamed: Any) -> None:
    words, found = await streamed({"answer": [FAST]}, gate="never")
    assert (words, found.answer) == ({}, FAST["answer"])


async def test_a_reply_that_must_be_repaired_is_streamed_as_far_as_it_could_be_read(streamed: Any) -> None:
    broken = '{"cites": [], "answer": "Her'
    words, found = await streamed({"answer": [broken], "repair": [json.dumps(FAST)]}, gate="never", stream_tokens=True)
    assert "".join(words["answer"]) == "Her"
    assert found.answer == FAST["answer"]


@given(text=st.text(max_size=30), ascii_only=st.booleans())
def test_what_is_there_of_a_field_only_grows(text: str, ascii_only: bool) -> None:
    reply = json.dumps({"cites": ["M1"], "answer": text, "more": "x"}, ensure_ascii=ascii_only)
    shown = ""
    for end in range(len(reply) + 1):
        there = partial_text(reply[:end], "answer")
        assert there.startswith(shown)
        shown = there
    assert shown == text
