"""A tour: remember, recall, what changed, where it comes from, forget.

Run it with `python examples/quick_tour.py`; it needs a model, see the README.
"""

from __future__ import annotations

import asyncio

from dualmem import DualMem

CONVERSATION = [
    {"role": "user", "content": "I live in Berlin.", "timestamp": "2024-03-01T10:00:00+00:00"},
    {"role": "assistant", "content": "Noted!", "timestamp": "2024-03-01T10:00:10+00:00"},
    {"role": "user", "content": "I moved, I live in Porto now.", "timestamp": "2024-06-20T19:00:00+00:00"},
]


async def main(memory: DualMem | None = None, user_id: str = "tour") -> None:
    """Take the tour."""
    async with memory or DualMem(store=":memory:") as mem:
        receipt = await mem.remember(CONVERSATION, user_id=user_id)
        print(f"stored {receipt.turns_stored} turns, made {receipt.memories_made} memories")

        found = await mem.recall("Where do I live?", user_id=user_id)
        print(f"answer: {found.answer} (route {found.route}: {found.verdict.reason})")
        for item in found.evidence:
            print(f"  {item.status}: {item.text}")
            for turn in item.sources:
                print(f'    {turn.speaker}, {turn.said_at:%d %B %Y}: "{turn.text}"')

        # Evidence without any chat model, as records and as text for a prompt of your own.
        print([item.text for item in await mem.search("home", user_id=user_id)])
        print(await mem.context("home", user_id=user_id))

        # What is in force, and the chain behind it.
        for memory_in_force in await mem.memories(user_id=user_id):
            chain = await mem.history(memory_in_force.id, user_id=user_id)
            print(" -> ".join(state.text for state in chain))

        forgotten = await mem.forget(user_id=user_id, everything=True)
        print(f"forgot {forgotten.turns} turns and {forgotten.memories} memories")


if __name__ == "__main__":
    asyncio.run(main())
