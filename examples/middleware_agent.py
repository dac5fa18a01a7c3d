"""An agent whose memory works without its doing: recall before the model, ingestion in the background after the turn.

Needs the extra `agents`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver

from dualmem import DualMem
from dualmem.integrations.middleware import MemoryMiddleware


async def main(memory: DualMem | None = None, model: BaseChatModel | None = None) -> list[str]:
    """Tell the agent something in one thread, and ask for it in another."""
    replies = []
    async with memory or DualMem() as mem:
        middleware = MemoryMiddleware(mem, remember="background")
        agent: Any = create_agent(
            model or mem.resources.chat(mem.settings).model,
            system_prompt="You are a helpful assistant.",
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )
        for thread, text in (("monday", "I play the cello."), ("friday", "What do I play?")):
            result = await agent.ainvoke(
                {"messages": [("user", text)]}, {"configurable": {"thread_id": thread, "user_id": "ana"}}
            )
            replies.append(result["messages"][-1].text)
            print(replies[-1])
            # A server would go on; here the next question comes at once, and must find what was said.
            await middleware.aflush()
    return replies


if __name__ == "__main__":
    asyncio.run(main())
