"""Answer now, remember later: one worker that ingests conversations while the agent goes on talking.

The raw turns of a conversation are what is worth keeping; extraction can wait until a model has time. LangGraph
Server does the same with runs that nobody waits for: `client.runs.create(None, "ingestion", input=...)`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from dualmem import DualMem, IngestReceipt


@dataclass
class Worker:
    """Remembers what is put into its queue, one conversation after the other."""

    memory: DualMem
    queue: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    receipts: list[IngestReceipt] = field(default_factory=list)

    def later(self, messages: list[Any], *, user_id: str, conversation_id: str) -> None:
        """Have messages remembered when their turn comes; the same ones again cost nothing."""
        self.queue.put_nowait({"messages": list(messages), "user_id": user_id, "conversation_id": conversation_id})

    async def run(self) -> None:
        """Work until cancelled. Turns whose extraction failed are taken up with the conversation's next ones."""
        while True:
            given = await self.queue.get()
            try:
                self.receipts.append(await self.memory.remember(given.pop("messages"), **given))
            finally:
                self.queue.task_done()


async def main(memory: DualMem | None = None) -> list[IngestReceipt]:
    """Talk, and let the worker remember."""
    async with memory or DualMem() as mem:
        worker = Worker(mem)
        working = asyncio.create_task(worker.run())
        history: list[dict[str, str]] = []
        for text in ("I play the cello.", "I live in Porto."):
            history += [{"role": "user", "content": text}, {"role": "assistant", "content": "I see!"}]
            worker.later(history, user_id="ana", conversation_id="chat")
        await worker.queue.join()
        working.cancel()
        for receipt in worker.receipts:
            print(f"{receipt.turns_stored} new turns, {receipt.turns_known} known, {receipt.memories_made} memories")
        return worker.receipts


if __name__ == "__main__":
    asyncio.run(main())
