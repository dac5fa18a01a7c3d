"""Check what a store really holds against the rules, and mend what can be mended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from dualmem.context import Context
from dualmem.ingestion.placing import place
from dualmem.lifecycle import violations
from dualmem.mending import mend
from dualmem.records import Memory, Turn
from dualmem.stores.commit import Commit
from dualmem.stores.payload import of_user


class Diagnosis(BaseModel):
    """What is wrong with the memory of one user, in words."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    turns: int
    memories: int
    faults: tuple[str, ...] = ()
    """What breaks a rule."""
    mended: bool = False
    """Whether the faults were there and are not any longer."""
    pending: int = 0
    """Turns whose memories are not extracted yet. No fault: `resume` takes them up."""

    @property
    def healthy(self) -> bool:
        """Whether no fault is left."""
        return self.mended or not self.faults


@dataclass
class _Held:
    """What the store holds of a user."""

    turns: list[Turn]
    memories: list[Memory]
    unindexed: list[str]
    unembedded: list[Memory]

    @property
    def orphans(self) -> list[str]:
        """Ids of memories that say they come from turns, none of which is there."""
        known = {turn.id for turn in self.turns}
        return [
            memory.id
            for memory in self.memories
            if memory.origin != "import" and memory.turn_ids and not known & set(memory.turn_ids)
        ]

    @property
    def misplaced(self) -> dict[str, int]:
        """New positions of turns that share one."""
        moved: dict[str, int] = {}
        for conversation in {turn.conversation_id for turn in self.turns}:
            moved |= place([turn for turn in self.turns if turn.conversation_id == conversation], []).moved
        return moved

    def faults(self) -> list[str]:
        """Return what breaks a rule, in words."""
        return [
            *violations(self.memories),
            *(f"{key}: its turns do not exist; `forget --memory` takes it out" for key in self.orphans),
            *(f"{key}: another turn has its position" for key in self.misplaced),
            *(f"conversation {name!r}: turns that no search finds" for name in self.unindexed),
            *(f"{memory.id}: no search finds it by meaning" for memory in self.unembedded),
        ]


async def diagnose(user_id: str, context: Context, *, repair: bool = False) -> Diagnosis:
    """Check the memory of one user, and mend it where `repair` is set; text and sources are never changed.

    Raises:
        ModelUnavailable: Something has to be embedded, and the embedding model failed.
    """
    store = context.store
    async with store.writer(user_id):  # a commit that was cut short is carried out by it
        held = await _look(user_id, context)
        faults = held.faults()
        if faults and repair:
            await store.move_turns(held.misplaced)
            changed = mend(held.memories, at=datetime.now(UTC))
            await store.commit(Commit(user_id, changed=tuple(changed)))
            for conversation_id in held.unindexed:
                await store.index_turns(user_id, conversation_id)
            await store.embed_memories(held.unembedded)
            held = await _look(user_id, context)
        left = held.faults()
    return Diagnosis(
        user_id=user_id,
        turns=len(held.turns),
        memories=len(held.memories),
        faults=tuple(left or faults),
        mended=bool(faults) and not left,
        pending=sum(turn.state == "pending" for turn in held.turns),
    )


async def _look(user_id: str, context: Context) -> _Held:
    store = context.store
    return _Held(
        turns=await store.turns(user_id),
        memories=await store.memories(of_user(user_id)),
        unindexed=await store.unindexed(user_id),
        unembedded=await store.unembedded(user_id),
    )
