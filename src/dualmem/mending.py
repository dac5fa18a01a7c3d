"""Bring the memories of a user back under the rules of the lifecycle, with as little change as that takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cmp_to_key
from itertools import pairwise

from dualmem.lifecycle import MIRROR
from dualmem.ordering import earlier, retirement
from dualmem.records import Link, Memory, Relation

MENDED = "mended: the store's links did not agree"


def mend(memories: Iterable[Memory], *, at: datetime) -> list[Memory]:
    """Return the memories that must change for `violations` to find nothing, as they should be.

    What one side of a link says counts where the other side says nothing. Links to what does not exist go. A chain
    that branches or runs in a circle is put in order by time. Text, sources and times of memories stay.

    Args:
        memories: All memories of one user.
        at: When it is mended.
    """
    given = {memory.id: memory for memory in memories}
    known = {key: memory for key, memory in given.items() if memory.state != "quarantined"}
    fixed: dict[str, list[Link]] = {key: [] for key in known}
    merged = _compact_merges(known, fixed, at)
    chains = _chains(known, merged)
    for chain in chains:
        for before, after in pairwise(chain):
            _restore(known, fixed, after, before, "supersedes", at)
    symmetric: tuple[Relation, ...] = ("merged_with", "contradicts")
    for relation in symmetric:
        for left, right in sorted(_pairs(known, relation)):
            _restore(known, fixed, left, right, relation, at)
    places = {key: (chain, place) for chain in chains for place, key in enumerate(chain)}
    changed = []
    for key, memory in known.items():
        links = _in_old_order(memory, fixed[key])
        chain, place = places.get(key, ([key], 0))
        later = [known[other] for other in chain[place + 1 :]]
        update: dict[str, object] = {"links": links, "state": "active", "retired_at": None}
        if key in merged:
            update |= {"state": "merged", "retired_at": memory.retired_at or known[merged[key]].known_at}
        elif later:
            update |= {"state": "superseded", "retired_at": memory.retired_at or retirement(memory, later)}
        mended = memory.model_copy(update=update)
        if mended != memory:
            changed.append(mended)
    apart = [memory for key, memory in given.items() if key not in known]
    # What is quarantined has no links, and stays out of force.
    return changed + [one.model_copy(update={"links": (), "retired_at": None}) for one in apart if one.links]


def _pairs(known: Mapping[str, Memory], relation: Relation) -> set[tuple[str, str]]:
    """Return the pairs that one side at least says are related."""
    pairs = {(key, other) for key, one in known.items() for other in one.linked(relation) if other in known}
    return {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}


def _compact_merges(known: Mapping[str, Memory], fixed: dict[str, list[Link]], at: datetime) -> dict[str, str]:
    """Restore the links of compact merges; return what each merged memory is merged into."""
    said = [(key, part) for key, memory in known.items() for part in memory.linked("merges")]
    said += [(whole, key) for key, memory in known.items() for whole in memory.linked("merged_into")]
    merged: dict[str, str] = {}
    for whole, part in said:
        above = whole
        while above in merged:
            above = merged[above]
        if whole in known and part in known and above != part:  # none into itself, in however many steps
            merged.setdefault(part, whole)
    for part, whole in merged.items():
        _restore(known, fixed, whole, part, "merges", at)
    return merged


def _chains(known: Mapping[str, Memory], merged: Mapping[str, str]) -> list[list[str]]:
    """Return the chains, each from its earliest state to its head; those of one state are left out."""
    said = [(key, other) for key, memory in known.items() for other in memory.linked("superseded_by")]
    said += [(other, key) for key, memory in known.items() for other in memory.linked("supersedes")]
    later: dict[str, set[str]] = {key: set() for key in known}
    before: dict[str, set[str]] = {key: set() for key in known}
    for one, other in said:
        if one in known and other in known and one != other and not {one, other} & merged.keys():
            later[one].add(other)
            before[other].add(one)
    chains: list[list[str]] = []
    seen: set[str] = set()
    for key in known:
        if key not in seen and (later[key] or before[key]):
            group = _connected(key, later, before)
            seen |= group
            chains.append(_as_linked(group, later, before) or _by_time(group, known))
    return chains


def _connected(key: str, later: Mapping[str, set[str]], before: Mapping[str, set[str]]) -> set[str]:
    group, waiting = {key}, [key]
    while waiting:
        one = waiting.pop()
        more = (later[one] | before[one]) - group
        group |= more
        waiting += more
    return group


def _as_linked(group: set[str], later: Mapping[str, set[str]], before: Mapping[str, set[str]]) -> list[str]:
    """Return the order the links give, or nothing where they give none."""
    first = [key for key in group if not before[key]]
    if len(first) != 1 or any(len(later[key]) > 1 or len(before[key]) > 1 for key in group):
        return []
    order = first
    while later[order[-1]]:
        order.extend(later[order[-1]])
    return order


def _by_time(group: set[str], known: Mapping[str, Memory]) -> list[str]:
    def compare(left: str, right: str) -> int:
        one, other = known[left], known[right]
        forth, back = earlier(one, other), earlier(other, one)
        return 0 if forth == back else -1 if forth else 1

    return sorted(sorted(group), key=cmp_to_key(compare))


def _restore(
    known: Mapping[str, Memory],
    fixed: dict[str, list[Link]],
    source: str,
    target: str,
    relation: Relation,
    at: datetime,
) -> None:
    """Put a link and its mirror in place, with what either side knows of it."""
    forth = _link_of(known[source], relation, target)
    back = _link_of(known[target], MIRROR[relation], source)
    forth = forth or (back or Link(relation=relation, target=target, reason=MENDED, at=at)).model_copy(
        update={"relation": relation, "target": target, "replaced": None}
    )
    fixed[source].append(forth)
    fixed[target].append(_mirrored(known[target], forth, source))


def _link_of(memory: Memory, relation: Relation, target: str) -> Link | None:
    return next((link for link in memory.links if (link.relation, link.target) == (relation, target)), None)


def _mirrored(memory: Memory, forth: Link, source: str) -> Link:
    """Return the link back, as `memory` has it or as it should be."""
    relation = MIRROR[forth.relation]
    return _link_of(memory, relation, source) or forth.model_copy(
        update={"relation": relation, "target": source, "replaced": None}
    )


def _in_old_order(memory: Memory, links: Iterable[Link]) -> tuple[Link, ...]:
    places = {(link.relation, link.target): place for place, link in reversed(list(enumerate(memory.links)))}
    return tuple(sorted(links, key=lambda link: places.get((link.relation, link.target), len(places))))
