"""A memory that has something to tell, and a chat model that follows a script of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from dualmem import DualMem


class ScriptedAgentModel(BaseChatModel):
    """A chat model that an agent can bind tools to; it replies with `replies` in order, and keeps what it was sent."""

    replies: list[Any]
    requests: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted-agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.requests.append(list(messages))
        reply = self.replies[len(self.requests) - 1]
        message = reply.model_copy() if isinstance(reply, AIMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.fixture
def agent_model() -> Callable[..., ScriptedAgentModel]:
    """Make the model of an agent, with its replies in order."""
    return lambda *replies: ScriptedAgentModel(replies=list(replies))


@pytest.fixture
def talking(
    open_memory: Callable[..., DualMem], reader: Callable[..., Any], grades: Callable[..., Any]
) -> Callable[..., DualMem]:
    """Make a memory whose model extracts statements, answers "Porto" and is satisfied with it."""

    def make(**script: Any) -> DualMem:
        answer = {"cites": ["M1"], "found": True, "answer": "Ana lives in Porto."}
        return open_memory(reader(**{"answer": answer, "gate": grades(), **script}))

    return make
