"""The rules of a memory's life, as pure operations on a working set.

Held at every step (MemoryLACE, stage I, step 3): chains of superseded states are linear and run by time, with
one head, which alone is active; links are kept on both sides; there is no cycle; nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dualmem.records import Link, Memory, Relation

_MIRROR: dict[Relation, Relation] = {
    "supersedes": "superseded_by",
    "superseded_by": "supersedes",
    "merged_with": "merged_with",
    "contradicts": "contradicts",
}


@dataclass
class WorkingSet:
    """Memories under consideration, and what was changed among them.

    Whatever a decision touches must be loaded: the memories, and the chains they are part of.
    """

    memories: dict[str, Memory] = field(default_factory=dict)
    new: dict[str, None] = field(default_factory=dict)
    """Ids of memories that are not stored yet, in order."""
    changed: dict[str, None] = field(default_factory=dict)
    """Ids of stored memories that differ from what is stored, in order."""

    def load(self, memories: Iterable[Memory]) -> None:
        """Take in stored memories; one that is here already is kept as it is here."""
        for memory in memories:
            self.memories.setdefault(memory.id, memory)

    def add(self, memory: Memory) -> None:
        """Take in a memory that is not stored yet."""
        self.memories[memory.id] = memory
        self.new[memory.id] = None

    def missing_links(self) -> list[str]:
        """Return the ids that supersession links lead to and that are not loaded."""
        return [
            target
            for memory in self.memories.values()
            for relation in ("supersedes", "superseded_by")
            for target in memory.linked(relation)
            if target not in self.memories
        ]

    def chain(self, memory_id: str) -> list[Memory]:
        """Return the chain a memory is part of, from the earliest state to the head."""
        first = self.memories[memory_id]
        while (earlier := first.linked("supersedes")) and earlier[0] in self.memories:
            first = self.memories[earlier[0]]
        chain = [first]
        while (later := chain[-1].linked("superseded_by")) and later[0] in self.memories:
            chain.append(self.memories[later[0]])
        return chain

    def supersede(self, new_id: str, old_id: str, *, reason: str, at: datetime) -> str:
        """Make `new_id` a state in the chain of `old_id`, in its place by time.

        Told or true later than the head, it becomes the head and the old head is retired. An older statement
        that arrives late takes its place in the history and never retires a newer one.

        Returns:
            "" when it was done, else why it was refused.
        """
        new = self.memories[new_id]
        chain = self.chain(old_id)
        if new_id == old_id or any(state.id == new_id for state in chain):
            return "already in the chain"
        if new.linked("supersedes") or new.linked("superseded_by"):
            return "already in another chain"
        place = sum(1 for state in chain if _earlier(state, new))
        before = chain[place - 1] if place else None
        after = chain[place] if place < len(chain) else None
        if before is not None and after is not None:
            self._unlink(after.id, before.id, "supersedes")
        if before is not None:
            self._link(new_id, before.id, "supersedes", reason, at)
            # What was known before a late statement came must not change by it.
            self._retire(before.id, min(before.retired_at or new.known_at, new.known_at))
        if after is not None:
            self._link(after.id, new_id, "supersedes", reason, at)
            self._retire(new_id, max(after.known_at, new.known_at))
        return ""

    def contradict(self, left_id: str, right_id: str, *, reason: str, at: datetime) -> str:
        """Link two claims that cannot both be true; both stay active.

        Returns:
            "" when it was done, else why it was refused.
        """
        return self._relate(left_id, right_id, "contradicts", reason, at)

    def merge(self, left_id: str, right_id: str, *, reason: str, at: datetime) -> str:
        """Link two memories that say the same; both originals stay (linked merge).

        Returns:
            "" when it was done, else why it was refused.
        """
        return self._relate(left_id, right_id, "merged_with", reason, at)

    def absorb(self, new_id: str, old_id: str) -> str:
        """Let an old memory take over the provenance of a new one that says the same; the new one is not kept.

        Returns:
            "" when it was done, else why it was refused.
        """
        new, old = self.memories[new_id], self.memories[old_id]
        if new_id == old_id or new_id not in self.new or new.links:
            return "already related"
        known = set(old.turn_ids)
        more = tuple(source for source in new.sources if source.turn_id not in known)
        self._put(old.model_copy(update={"sources": (*old.sources, *more)}))
        del self.memories[new_id]
        del self.new[new_id]
        return ""

    def remove(self, memory_id: str) -> list[str]:
        """Take a memory out, as if it had never been said: its chain is closed, its links go.

        Where it was the head of a chain, the state before it is in force again.

        Returns:
            The ids of memories that became active again.
        """
        memory = self.memories[memory_id]
        earlier, later = memory.linked("supersedes"), memory.linked("superseded_by")
        reason = next((link.reason for link in memory.links if link.relation == "superseded_by"), "")
        for link in memory.links:
            if link.target in self.memories:
                self._unlink(memory_id, link.target, link.relation)
        restored: list[str] = []
        if earlier and later:
            self._link(later[0], earlier[0], "supersedes", reason, self.memories[later[0]].known_at)
            self._retire(earlier[0], self.memories[later[0]].known_at)
        elif earlier:
            self._put(self.memories[earlier[0]].model_copy(update={"state": "active", "retired_at": None}))
            restored.append(earlier[0])
        del self.memories[memory_id]
        self.new.pop(memory_id, None)
        self.changed.pop(memory_id, None)
        return restored

    def drop_sources(self, memory_id: str, turn_ids: Collection[str]) -> None:
        """Take some turns out of a memory's provenance."""
        memory = self.memories[memory_id]
        kept = tuple(source for source in memory.sources if source.turn_id not in turn_ids)
        self._put(memory.model_copy(update={"sources": kept}))

    def _relate(self, left_id: str, right_id: str, relation: Relation, reason: str, at: datetime) -> str:
        left = self.memories[left_id]
        if left_id == right_id:
            return "related to itself"
        if any(link.target == right_id for link in left.links):
            return "already related"
        if any(state.id == right_id for state in self.chain(left_id)):
            return "already in the chain"
        self._link(left_id, right_id, relation, reason, at)
        return ""

    def _link(self, source_id: str, target_id: str, relation: Relation, reason: str, at: datetime) -> None:
        source, target = self.memories[source_id], self.memories[target_id]
        turn_ids = source.turn_ids
        forth = Link(relation=relation, target=target_id, reason=reason, at=at, turn_ids=turn_ids)
        back = Link(relation=_MIRROR[relation], target=source_id, reason=reason, at=at, turn_ids=turn_ids)
        self._put(source.model_copy(update={"links": (*source.links, forth)}))
        self._put(target.model_copy(update={"links": (*target.links, back)}))

    def _unlink(self, source_id: str, target_id: str, relation: Relation) -> None:
        for one, other, name in ((source_id, target_id, relation), (target_id, source_id, _MIRROR[relation])):
            memory = self.memories[one]
            kept = tuple(link for link in memory.links if (link.relation, link.target) != (name, other))
            self._put(memory.model_copy(update={"links": kept}))

    def _retire(self, memory_id: str, at: datetime) -> None:
        self._put(self.memories[memory_id].model_copy(update={"state": "superseded", "retired_at": at}))

    def _put(self, memory: Memory) -> None:
        self.memories[memory.id] = memory
        if memory.id not in self.new:
            self.changed[memory.id] = None


def _earlier(state: Memory, new: Memory) -> bool:
    """Whether `state` comes before `new`: by event time where both are dated states, else by when they were told.

    The date of a plan is not when the plan holds from: a meeting put forward is still the newer plan.
    """
    if (
        state.kind == new.kind == "state"
        and state.valid is not None
        and new.valid is not None
        and state.valid.start is not None
        and new.valid.start is not None
        and state.valid.start != new.valid.start
    ):
        return state.valid.start < new.valid.start
    return state.told <= new.told


def violations(memories: Iterable[Memory]) -> list[str]:
    """Return every broken invariant among all memories of one user, in words."""
    known = {memory.id: memory for memory in memories}
    found: list[str] = []
    for memory in known.values():
        later, earlier = memory.linked("superseded_by"), memory.linked("supersedes")
        if len(later) > 1 or len(earlier) > 1:
            found.append(f"{memory.id}: its chain branches")
        if memory.state == "active" and later:
            found.append(f"{memory.id}: active, though superseded by {later[0]}")
        if memory.state == "superseded" and not later:
            found.append(f"{memory.id}: superseded by nothing")
        if (memory.retired_at is None) != (memory.state == "active"):
            found.append(f"{memory.id}: state {memory.state!r} and retired_at {memory.retired_at} disagree")
        for link in memory.links:
            other = known.get(link.target)
            if other is None:
                found.append(f"{memory.id}: {link.relation} {link.target}, which does not exist")
            elif memory.id not in other.linked(_MIRROR[link.relation]):
                found.append(f"{memory.id}: {link.relation} {link.target}, which has no link back")
        if _circles(memory, known):
            found.append(f"{memory.id}: its chain is a circle")
    return found


def _circles(memory: Memory, known: Mapping[str, Memory]) -> bool:
    seen = {memory.id}
    while (later := memory.linked("superseded_by")) and later[0] in known:
        if later[0] in seen:
            return True
        seen.add(later[0])
        memory = known[later[0]]
    return False
