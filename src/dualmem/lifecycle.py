"""The rules of a memory's life, as pure operations on a working set.

Held at every step (MemoryLACE, stage I, step 3): chains of superseded states are linear and run by time, with
one head, which alone is active; links are kept on both sides; there is no cycle; nothing is deleted. What is
quarantined is in no chain and has no link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from dualmem.ordering import earlier, retirement
from dualmem.records import Link, Memory, Relation

MIRROR: Mapping[Relation, Relation] = {
    "supersedes": "superseded_by",
    "superseded_by": "supersedes",
    "merged_with": "merged_with",
    "contradicts": "contradicts",
    "merges": "merged_into",
    "merged_into": "merges",
}
"""What a relation is called from the other side."""

CHAINED: Final[tuple[Relation, ...]] = ("supersedes", "superseded_by", "merges", "merged_into")
"""The relations on which it depends whether a memory is in force."""

AGAIN = "said again"
"""The reason of a link from a state to the same state, told later."""

FORGOTTEN = "what stood between them was forgotten"
"""The reason of a link over a state that is gone; the reasons of its own links may tell what it said."""


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
    removed: dict[str, None] = field(default_factory=dict)
    """Ids of stored memories that were taken out, in order."""

    def load(self, memories: Iterable[Memory]) -> None:
        """Take in stored memories; one that is here already is kept as it is here, and what was taken out stays out."""
        for memory in memories:
            if memory.id not in self.removed:
                self.memories.setdefault(memory.id, memory)

    def add(self, memory: Memory) -> None:
        """Take in a memory that is not stored yet."""
        self.memories[memory.id] = memory
        self.new[memory.id] = None
        self.removed.pop(memory.id, None)

    def missing_links(self) -> list[str]:
        """Return the ids that links of chains and compact merges lead to and that are not loaded."""
        return [
            target
            for memory in self.memories.values()
            for relation in CHAINED
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

    def in_place_of(self, memory_id: str) -> Memory | None:
        """Return a memory, or what was written in its place and stands now; None if it is not here."""
        memory = self.memories.get(memory_id)
        while memory is not None and (wholes := memory.linked("merged_into")):
            memory = self.memories.get(wholes[0])
        return memory

    def supersede(self, new_id: str, old_id: str, *, reason: str, at: datetime) -> str:
        """Make `new_id` a state in the chain of `old_id`, in its place by time.

        Told or true later than the head, it becomes the head and the old head is retired. An older statement
        that arrives late takes its place in the history and never retires a newer one. What says the same as a
        retired state goes into the chain with it, else it would still claim what is over; a history that it has of its
        own is one of the same thing, and goes there, too.

        Returns:
            "" when it was done, else why it was refused.
        """
        new = self.memories[new_id]
        chain = self.chain(old_id)
        if new_id == old_id or any(state.id == new_id for state in chain):
            return "already in the chain"
        if new.linked("supersedes") or new.linked("superseded_by"):
            return "already in another chain"
        if refusal := _no_longer_related(new, self.memories[old_id]):
            return refusal
        self._insert(new_id, chain, reason, reason, at, by=new)
        for partner in self._said_again(chain, new):
            self._join(partner, new_id, reason, at, by=new)
        self._settle(new_id)
        return ""

    def _join(self, memory_id: str, new_id: str, later_reason: str, at: datetime, *, by: Memory) -> None:
        """Put a memory, with the states before it, into another chain, each at its place by time."""
        states = self.chain(memory_id)
        known = [None, *(self._unlink(after.id, before.id, "supersedes")[0] for before, after in pairwise(states))]
        for state, link in zip(states, known, strict=True):
            self._insert(state.id, self.chain(new_id), AGAIN, later_reason, at, by=by, known=link)

    def _insert(
        self,
        memory_id: str,
        chain: Sequence[Memory],
        reason: str,
        later_reason: str,
        at: datetime,
        *,
        by: Memory,
        known: Link | None = None,
    ) -> None:
        """Put a memory into a chain at its place by time; `known` is its link to a state before it until now."""
        memory = self.memories[memory_id]
        place = sum(1 for state in chain if earlier(state, memory))
        before = chain[place - 1] if place else None
        after = chain[place] if place < len(chain) else None
        broken = None
        if before is not None and after is not None:
            broken, _ = self._unlink(after.id, before.id, "supersedes")
        if before is not None and known is not None and known.target == before.id:
            self._relink(memory_id, before.id, known)
        elif before is not None:
            self._link(memory_id, before.id, "supersedes", reason, at, by=by, replaced=known)
        if after is not None:
            why = later_reason if by.id in {after.id, memory_id} else reason
            self._link(after.id, memory_id, "supersedes", why, at, by=by, replaced=broken)

    def _said_again(self, chain: Sequence[Memory], new: Memory) -> list[str]:
        """Return what says the same as states that `new` replaces, is in force, and was not told later."""
        found: dict[str, None] = {}
        known = {new.id, *(state.id for state in chain)}
        waiting = [state for state in chain if earlier(state, new)]
        while waiting:
            for key in waiting.pop().linked("merged_with"):
                partner = self.memories.get(key)
                if partner is None or key in found or key in known or not partner.active:
                    continue
                if earlier(partner, new):
                    found[key] = None
                    waiting.append(partner)
        return list(found)

    def withdraw(self, memory_id: str) -> list[str]:
        """Undo the decision by which a memory came into its chain.

        One that came in front of another leaves the chain, which closes behind it. One that came at the end is parted
        from what it had replaced, together with what has replaced it since.

        Returns:
            The ids of memories that became active again.
        """
        memory = self.memories[memory_id]
        was_active = {key for key, one in self.memories.items() if one.active}
        before, after = memory.linked("supersedes"), memory.linked("superseded_by")
        came_last = not any(link.relation == "superseded_by" and link.by == memory_id for link in memory.links)
        known = self._unlink(memory_id, before[0], "supersedes")[0] if before else None
        if after and not came_last:
            broken, _ = self._unlink(after[0], memory_id, "supersedes")
            if before:
                self._relink(after[0], before[0], (broken.replaced if broken else None) or known)
        for one in (memory_id, *before, *after):
            self._settle(one)
        return [key for key, one in self.memories.items() if one.active and key not in was_active]

    def separate(self, left_id: str, right_id: str, relation: Relation) -> None:
        """Undo a relation between two memories that is no place in a chain."""
        self._unlink(left_id, right_id, relation)

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

    def compact(self, new_id: str, old_id: str, merged: Memory, *, reason: str, at: datetime) -> str:
        """Let `merged`, which says what both say, take the place of both (compact merge).

        It takes the old one's place in its chain, and the conflicts of both.

        Args:
            new_id: A memory in no chain.
            old_id: An active memory.
            merged: Is not stored yet.
            reason: Why.
            at: When it is decided.

        Returns:
            "" when it was done, else why it was refused.
        """
        new, old = self.memories[new_id], self.memories[old_id]
        if new_id == old_id or merged.id in self.memories:
            return "related to itself"
        if not (new.active and old.active):
            return "no longer in force"
        if new.linked("supersedes") or any(link.target == new_id for link in old.links):
            return "already related"
        self.add(merged)
        for part in (old_id, new_id):
            for link in self.memories[part].links:
                if link.relation == "contradicts" and link.target not in self.memories[merged.id].linked("contradicts"):
                    self._link(merged.id, link.target, "contradicts", link.reason, link.at, by=merged)
        for link in [link for link in old.links if link.relation == "supersedes"]:
            self._unlink(old_id, link.target, "supersedes")
            self._relink(merged.id, link.target, link)
        for part in (old_id, new_id):
            self._link(merged.id, part, "merges", reason, at, by=new)
            self._put(self.memories[part].model_copy(update={"state": "merged", "retired_at": merged.known_at}))
        self._settle(merged.id)
        return ""

    def absorb(self, new_id: str, old_id: str) -> str:
        """Let an old memory take over the provenance of a new one that says the same; the new one is not kept.

        Returns:
            "" when it was done, else why it was refused.
        """
        new, old = self.memories[new_id], self.memories[old_id]
        if new_id == old_id or new_id not in self.new or new.links or "quarantined" in {new.state, old.state}:
            return "already related"
        known = set(old.turn_ids)
        more = tuple(source for source in new.sources if source.turn_id not in known)
        self._put(old.model_copy(update={"sources": (*old.sources, *more)}))
        self._drop(new_id)
        return ""

    def remove(self, memory_id: str) -> list[str]:
        """Take a memory out, as if it had never been said: its chain is closed, its links go.

        Where it was the head of a chain, the state before it is in force again; where it was written for two others,
        those are. What was written for it and another goes first, since that holds its words.

        Returns:
            The ids of memories that became active again.
        """
        again = [key for whole in self.memories[memory_id].linked("merged_into") for key in self.remove(whole)]
        memory = self.memories[memory_id]
        parts = [part for part in memory.linked("merges") if part in self.memories]
        # What else may come into force is in one of these chains: a search through all would make removing many slow.
        idle = [one.id for key in (memory_id, *parts) for one in self.chain(key) if not one.active]
        before, after = memory.linked("supersedes"), memory.linked("superseded_by")
        linked = [link for link in memory.links if link.target in self.memories]
        links = {link.target: self._unlink(memory_id, link.target, link.relation) for link in linked}
        seat = parts[0] if parts else None
        if seat is not None:
            # The older of the two takes the place back that it had given up.
            for target in before:
                self._relink(seat, target, links[target][0])
            for target in after:
                self._relink(target, seat, links[target][1])
        elif before and after:
            broken = links[after[0]][1]
            self._relink(after[0], before[0], None if broken is None else broken.replaced)
        for one in [state.id for key in (*before, *after) for state in self.chain(key)]:
            kept = tuple(_without(link, memory_id) for link in self.memories[one].links)
            if kept != self.memories[one].links:
                self._put(self.memories[one].model_copy(update={"links": kept}))
        self._drop(memory_id)
        for part in parts:
            self._put(self.memories[part].model_copy(update={"state": "active", "retired_at": None}))
        for one in (*parts, *before, *after):
            self._settle(one)
        return [one for one in dict.fromkeys((*again, *idle)) if one in self.memories and self.memories[one].active]

    def drop_sources(self, memory_id: str, turn_ids: Collection[str]) -> None:
        """Take some turns out of a memory's provenance."""
        memory = self.memories[memory_id]
        kept = tuple(source for source in memory.sources if source.turn_id not in turn_ids)
        self._put(memory.model_copy(update={"sources": kept}))

    def _relate(self, left_id: str, right_id: str, relation: Relation, reason: str, at: datetime) -> str:
        left = self.memories[left_id]
        if left_id == right_id:
            return "related to itself"
        if refusal := _no_longer_related(left, self.memories[right_id]):
            return refusal
        if any(link.target == right_id for link in left.links):
            return "already related"
        if any(state.id == right_id for state in self.chain(left_id)):
            return "already in the chain"
        self._link(left_id, right_id, relation, reason, at, by=left)
        return ""

    def _link(
        self,
        source_id: str,
        target_id: str,
        relation: Relation,
        reason: str,
        at: datetime,
        *,
        by: Memory,
        replaced: Link | None = None,
    ) -> None:
        """Link two memories on both sides, for a decision that the coming of `by` led to."""
        told: dict[str, Any] = {"reason": reason, "at": at, "turn_ids": by.turn_ids, "by": by.id}
        self._attach(source_id, Link(relation=relation, target=target_id, replaced=replaced, **told))
        self._attach(target_id, Link(relation=MIRROR[relation], target=source_id, **told))

    def _relink(self, later_id: str, earlier_id: str, known: Link | None) -> None:
        """Make two states neighbours in a chain, for the reason of a link that is `known`."""
        told: dict[str, Any] = {"reason": FORGOTTEN, "at": self.memories[later_id].recorded_at, "by": later_id}
        if known is not None:
            told = known.model_dump(include={"reason", "at", "turn_ids", "by"})
        replaced = None if known is None else known.replaced
        self._attach(later_id, Link(relation="supersedes", target=earlier_id, replaced=replaced, **told))
        self._attach(earlier_id, Link(relation="superseded_by", target=later_id, **told))

    def _attach(self, memory_id: str, link: Link) -> None:
        memory = self.memories[memory_id]
        self._put(memory.model_copy(update={"links": (*memory.links, link)}))

    def _unlink(self, source_id: str, target_id: str, relation: Relation) -> tuple[Link | None, Link | None]:
        """Take a link away on both sides; return both."""
        taken: list[Link | None] = []
        for one, other, name in ((source_id, target_id, relation), (target_id, source_id, MIRROR[relation])):
            memory = self.memories[one]
            gone = [link for link in memory.links if (link.relation, link.target) == (name, other)]
            kept = tuple(link for link in memory.links if link not in gone)
            self._put(memory.model_copy(update={"links": kept}))
            taken.append(gone[0] if gone else None)
        return taken[0], taken[1]

    def _settle(self, memory_id: str) -> None:
        """Set state and times of all states in a memory's chain by their places in it."""
        chain = self.chain(memory_id)
        for place, state in enumerate(chain):
            if state.state in {"merged", "quarantined"}:
                continue
            wanted: dict[str, Any] = {"state": "active", "retired_at": None}
            if chain[place + 1 :]:
                wanted = {"state": "superseded", "retired_at": retirement(state, chain[place + 1 :])}
            if (state.state, state.retired_at) != tuple(wanted.values()):
                self._put(state.model_copy(update=wanted))

    def _drop(self, memory_id: str) -> None:
        del self.memories[memory_id]
        self.changed.pop(memory_id, None)
        if memory_id not in self.new:
            self.removed[memory_id] = None
        self.new.pop(memory_id, None)

    def _put(self, memory: Memory) -> None:
        self.memories[memory.id] = memory
        if memory.id not in self.new:
            self.changed[memory.id] = None


def _no_longer_related(*memories: Memory) -> str:
    """Return why no new link may lead to some memories; "" where one may."""
    states = {memory.state for memory in memories}
    if "quarantined" in states:
        return "quarantined"
    return "merged into another memory" if "merged" in states else ""


def _without(link: Link, memory_id: str) -> Link:
    """Return a link that knows nothing of a memory in what it had replaced."""
    if link.replaced is None:
        return link
    inner = _without(link.replaced, memory_id)
    gone = memory_id in {inner.target, inner.by}
    return link.model_copy(update={"replaced": inner.replaced if gone else inner})


def violations(memories: Iterable[Memory]) -> list[str]:
    """Return every broken invariant among all memories of one user, in words."""
    known = {memory.id: memory for memory in memories}
    return [
        f"{memory.id}: {complaint}"
        for memory in known.values()
        for complaint in (*_of_state(memory), *_of_links(memory, known))
    ]


def _of_state(memory: Memory) -> Iterator[str]:
    later, before, wholes = (memory.linked(name) for name in ("superseded_by", "supersedes", "merged_into"))
    if len(later) > 1 or len(before) > 1:
        yield "its chain branches"
    if memory.state == "active" and later:
        yield f"active, though superseded by {later[0]}"
    if memory.state == "superseded" and not later:
        yield "superseded by nothing"
    if (memory.state == "merged") != (len(wholes) == 1):
        yield f"state {memory.state!r}, and merged into {len(wholes)} memories"
    if memory.state == "merged" and (later or before):
        yield "merged, and in a chain"
    if memory.state == "quarantined" and memory.links:
        yield "quarantined, and linked"
    if (memory.retired_at is None) != (memory.state in {"active", "quarantined"}):
        yield f"state {memory.state!r} and retired_at {memory.retired_at} disagree"


def _of_links(memory: Memory, known: Mapping[str, Memory]) -> Iterator[str]:
    for link in memory.links:
        other = known.get(link.target)
        if other is None:
            yield f"{link.relation} {link.target}, which does not exist"
        elif memory.id not in other.linked(MIRROR[link.relation]):
            yield f"{link.relation} {link.target}, which has no link back"
    if _circles(memory, known):
        yield "its chain is a circle"


def _circles(memory: Memory, known: Mapping[str, Memory]) -> bool:
    seen = {memory.id}
    while (later := memory.linked("superseded_by")) and later[0] in known:
        if later[0] in seen:
            return True
        seen.add(later[0])
        memory = known[later[0]]
    return False
