"""Doubles for tests of code that uses dualmem: a scripted chat model and embeddings made from words.

Both are real LangChain objects. Nothing here touches a network or a model file.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from dualmem.errors import DualmemError

Scripted = str | Mapping[str, Any] | Exception | Callable[[str], "str | Mapping[str, Any]"]
"""A reply: text, an object sent as JSON, an error to raise, or a function of the last message."""


class UnexpectedCall(DualmemError):
    """A scripted model was called for a step that its script does not foresee."""


STEPS: dict[str, str] = {
    "extract": "Write the memories of this conversation as JSON.",
    "consolidate": "Decide for each new memory, as JSON.",
    "update": "Choose an operation for each new memory, as JSON.",
    "evolve": "List the relations, as JSON.",
    "rerank": "Task: order the lines",
    "filter": "Task: pick the lines",
    "answer": "Task: answer the question",
    "gate": "Task: grade an answer",
    "agree": "Compare them, as JSON.",
    "deliberate.extract": "Collect the facts that help to answer the question, as JSON.",
    "deliberate.filter": "Select, as JSON.",
    "judge": "Judge the answer, as JSON.",
    "rubric_judge": "Check the requirement, as JSON.",
}
"""How a step is known from the last message of its prompt."""


class ScriptedChatModel(BaseChatModel):
    """A chat model that replies by a script, step by step.

    `script` maps a step to its replies. A list is used up in order; a single reply is used every time. A call for
    a step that has no reply left raises UnexpectedCall, so a test notices a call that it did not expect.

    Attributes:
        script: Replies by step.
        prompts: Every prompt that came, as (step, messages).
    """

    script: dict[str, Any]
    prompts: list[tuple[str, list[BaseMessage]]] = Field(default_factory=list)
    _used: dict[str, int] = PrivateAttr(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the interface's form
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the interface's form
        **kwargs: Any,  # noqa: ARG002 - the interface's form
    ) -> ChatResult:
        last = messages[-1].text
        step = next((name for name, mark in STEPS.items() if mark in last), "repair")
        self.prompts.append((step, messages))
        reply = self._next(step)
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(last)
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        used = sum(len(message.text) for message in messages) // 4
        message = AIMessage(
            text,
            usage_metadata={
                "input_tokens": used,
                "output_tokens": len(text) // 4,
                "total_tokens": used + len(text) // 4,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _next(self, step: str) -> Any:
        replies = self.script.get(step, [])
        if not isinstance(replies, list):
            return replies
        place = self._used.get(step, 0)
        self._used[step] = place + 1
        if place < len(replies):
            return replies[place]
        message = f"call {place + 1} of step {step!r}, and the script has {len(replies)} replies for it"
        raise UnexpectedCall(message)

    def calls(self, step: str) -> int:
        """Return how often a step was called."""
        return sum(1 for name, _ in self.prompts if name == step)

    def leftovers(self) -> dict[str, int]:
        """Return how many replies of each step were not used."""
        return {
            step: len(replies) - self._used.get(step, 0)
            for step, replies in self.script.items()
            if isinstance(replies, list) and len(replies) > self._used.get(step, 0)
        }


class WordEmbeddings(Embeddings):
    """Deterministic embeddings: texts that share words are near each other."""

    model_name = "words"

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text."""
        vector = [0.0] * self.dimension
        for word in re.findall(r"\w+", text.casefold()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimension] += 1.0 if digest[4] % 2 else -1.0
        norm = math.sqrt(sum(value * value for value in vector))
        return [value / norm for value in vector] if norm else [1.0] + [0.0] * (self.dimension - 1)
