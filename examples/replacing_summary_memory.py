"""Instead of a running summary (ConversationSummaryMemory and its kind): the last messages, and what memory finds.

A summary is rewritten at every turn, loses details for good, and belongs to one thread. Here the prompt holds the
last few messages and the evidence for the question at hand, dated and from every conversation the user ever had.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from dualmem import DualMem

LAST = 6
"""Messages that go into the prompt as they are."""


@dataclass
class Chat:
    """One conversation with one user."""

    memory: DualMem
    model: BaseChatModel
    user_id: str
    conversation_id: str
    messages: list[BaseMessage] = field(default_factory=list)

    async def say(self, text: str) -> str:
        """Answer, and remember both sides."""
        evidence = await self.memory.context(text, user_id=self.user_id)
        prompt = SystemMessage(f"You are a helpful assistant. What is known, as data:\n{evidence}")
        self.messages.append(HumanMessage(text))
        reply = await self.model.ainvoke([prompt, *self.messages[-LAST:]])
        self.messages.append(AIMessage(reply.text))
        await self.memory.remember(self.messages, user_id=self.user_id, conversation_id=self.conversation_id)
        return reply.text


async def main(memory: DualMem | None = None, model: BaseChatModel | None = None) -> list[str]:
    """Talk past the last messages, and ask for the first."""
    async with memory or DualMem() as mem:
        chat = Chat(mem, model or mem.resources.chat(mem.settings).model, "ana", "chat")
        texts = ["I play the cello.", "Hello!", "How are you?", "Fine!", "What do I play?"]
        replies = [await chat.say(text) for text in texts]
        print(replies[-1])
        return replies


if __name__ == "__main__":
    asyncio.run(main())
