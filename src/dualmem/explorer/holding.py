"""A page of what held at a time in the world, without reading all that is stored.

Whether a memory held then follows from its own times (`clocks`), but for two kinds: a state among others of its chain,
and what lasts unless its date is a span that is over. Those two are read; all others the database counts and pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dualmem.clocks import seen_at
from dualmem.explorer.views import LASTING, PAGE, View
from dualmem.lifecycle import CHAINED
from dualmem.records import Memory
from dualmem.stores.backend import Condition, Filter
from dualmem.stores.listing import order_of
from dualmem.stores.payload import is_any, of_user
from dualmem.stores.store import Store

_ALONE = Condition("relations", none_of=CHAINED)


async def held_page(store: Store, view: View, moment: datetime) -> tuple[list[Memory], int]:
    """Return a page of what held at `moment` by the rules of `clocks.seen_at`, and how many there are on all pages."""
    plain = _plain(view, moment)
    read = await _read(store, view, moment)
    total = await store.listing.count(plain) + len(read)
    first, last = (view.page - 1) * PAGE, min(view.page * PAGE, total)
    if first >= last:
        return [], total
    if not view.oldest_first:
        first, last = total - last, total - first
    size = last - first
    passed = await _passed(store, plain, read, first)
    found = await store.listing.memories(plain, offset=first - passed, limit=size)
    page = sorted([*found, *read[passed : passed + size]], key=order_of)[:size]
    return page if view.oldest_first else page[::-1], total


def _plain(view: View, moment: datetime) -> Filter:
    """Return the filter of memories whose own times say that they held."""
    instant = moment.timestamp()
    conditions = [
        is_any("state", "active"),
        _ALONE,
        Condition("valid_start", high=instant, instead="known_at"),
        Condition("valid_end", low=instant, or_missing=True),
    ]
    if view.known is not None:
        conditions.append(Condition("known_at", high=view.known.timestamp()))
    return view.where().narrowed(*conditions)


async def _read(store: Store, view: View, moment: datetime) -> list[Memory]:
    """Return those that must be read to know whether they held, and did; in order."""
    chained = is_any("relations", *CHAINED)
    over = Condition("valid_end", high=moment.timestamp() - 1e-6)
    lasting = await store.memories(
        view.where().narrowed(is_any("state", "active"), _ALONE, is_any("kind", *LASTING), over)
    )
    states = await store.memories(of_user(view.user_id, chained))
    wanted = {memory.id for memory in lasting}
    if states:
        wanted.update(await store.listing.ids(view.where().narrowed(chained)))
    seen = seen_at([*lasting, *states], as_of=view.known, valid_at=moment)
    return sorted((memory for key, memory in seen.items() if memory.active and key in wanted), key=order_of)


async def _passed(store: Store, plain: Filter, read: Sequence[Memory], first: int) -> int:
    """Return how many of `read` have a place before `first` among all."""
    low, high = 0, len(read)
    while low < high:
        middle = (low + high) // 2
        if middle + await store.listing.before(plain, read[middle]) < first:
            low = middle + 1
        else:
            high = middle
    return low
