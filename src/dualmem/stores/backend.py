"""The protocol between `Store` and a vector database.

It knows points, filters and rankings, nothing of turns or memories. Three collections live behind it:
`turns`, `memories` and `control` (which embedding model the store was built with, commits under way, writer
leases, rejected drafts). Every method is safe to call from several tasks at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from dualmem.errors import EmbeddingMismatch, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Item = TypeVar("Item")

Payload = dict[str, Any]
"""JSON values only. Times are stored as UTC timestamps (float seconds)."""

FieldType = Literal["tenant", "keyword", "float", "integer"]
"""How a payload field is indexed. `tenant` is the keyword that shards and orders the data by user."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: token ids, unique and ascending, and their weights. IDF is applied by the database."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One stored record. `vectors` may be empty, and be set later."""

    id: str
    """A UUID in its canonical form."""
    payload: Payload
    vectors: Mapping[str, Sequence[float] | Sparse]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a payload field; `any_of`, `none_of`, or a closed range from `low` to `high`.

    Where several parts are given, all must hold. On a field that holds a list, `any_of` is met when one
    element is, `none_of` when no element is. A point without the field (or with null, or an empty list) meets
    `none_of` and, with `or_missing`, everything, else nothing; with `instead`, what the range says of that other field.
    An empty `any_of` is never met by a field.
    """

    field: str
    any_of: tuple[str, ...] | None = None
    none_of: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    or_missing: bool = False
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """All of `conditions`, and, where `either` is not empty, at least one of those."""

    conditions: tuple[Condition, ...] = ()
    either: tuple[Condition, ...] = ()

    def narrowed(self, *conditions: Condition) -> Filter:
        """Return the filter with more conditions."""
        return replace(self, conditions=(*self.conditions, *conditions))


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranking to compute: nearest by a vector, or (without one) by a payload field in order."""

    name: str
    limit: int
    filter: Filter
    using: str = ""
    """Name of the vector."""
    vector: Sequence[float] | Sparse | None = None
    order_by: str = ""
    """A `float` or `integer` field, when `vector` is None."""
    descending: bool = False


class Scored(NamedTuple):
    """A point as one ranking returned it. A ranking by a field scores 0.

    The same point in several rankings of one call may share its payload: copy it before changing it. A tuple, because
    a search makes hundreds of them.
    """

    id: str
    score: float
    payload: Payload


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What a collection holds."""

    name: str
    dense: Mapping[str, int]
    """Dense vectors and their sizes; all compare by cosine. The size of a collection that exists is its own,
    whatever is said here: 0 will do for a reader who does not know it."""
    sparse: tuple[str, ...]
    """Sparse vectors, all with IDF."""
    fields: Mapping[str, FieldType]
    """Indexed payload fields: every field a filter or an order names is here."""

    def check(self, vectors: Mapping[str, Sequence[float] | Sparse]) -> None:
        """Refuse vectors this collection cannot hold.

        To be asked before anything is written: Qdrant Edge 0.9.0 may keep the payload of a point whose vector
        it refuses, and a sparse vector of unequal lengths makes its files unreadable for good.

        Raises:
            EmbeddingMismatch: A dense vector has another size than the collection's.
            StoreError: There is no vector of that name, or the numbers cannot be stored.
        """
        for name, vector in vectors.items():
            if name not in (self.sparse if isinstance(vector, Sparse) else self.dense):
                raise StoreError(f"{self.name!r} has no {_kind(vector)} vector {name!r}")
            if not isinstance(vector, Sparse) and len(vector) != self.dense[name]:
                raise EmbeddingMismatch(
                    f"the vector {name!r} of {self.name!r} has {self.dense[name]} numbers, this one {len(vector)}"
                )
            if not _storable(vector):
                raise StoreError(f"no {_kind(vector)} vector to store as {name!r}: {str(vector)[:200]}")


def _kind(vector: Sequence[float] | Sparse) -> str:
    return "sparse" if isinstance(vector, Sparse) else "dense"


def _storable(vector: Sequence[float] | Sparse) -> bool:
    if not isinstance(vector, Sparse):
        return all(map(isfinite, vector))
    return (
        len(vector.indices) == len(vector.values)
        # Token ids are unsigned 32-bit integers.
        and all(0 <= index < 2**32 for index in vector.indices)
        and all(left < right for left, right in pairwise(vector.indices))
        and all(map(isfinite, vector.values))
    )


class Backend(Protocol):
    """A vector database with several collections."""

    @property
    def key(self) -> str:
        """What names its data: of several backends in one process, those with the same key write to the same."""

    @property
    def place(self) -> str:
        """The store in words, for messages: without a user, password or key."""

    @property
    def shared(self) -> bool:
        """Whether other processes may write to the same data."""

    async def open(self, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
        """Open the collections of `specs`.

        With `create` the missing ones are made, else nothing is. Opening again is allowed and cheap.

        Returns:
            True when all collections exist and are open; False when they do not exist and `create` is False.

        Raises:
            StoreLocked: Another process has the embedded store open.
            StoreError: The place cannot be read or written, or the server cannot be reached.
        """

    async def close(self) -> None:
        """Flush and release everything; closing twice is allowed."""

    async def compact(self) -> None:
        """Write the files anew without what was deleted, where they are this process's own."""

    async def upsert(self, collection: str, points: Sequence[Point], *, only_new: bool = False) -> None:
        """Write `points` durably; with `only_new`, those whose id exists are left as they are.

        Of several with one id the last counts, with `only_new` the first. A point that exists is replaced
        whole, vectors included. A crash inside the call may leave some of `points` written, never a part of one.

        Raises:
            EmbeddingMismatch: A dense vector has another size than the collection's.
            StoreError: A vector or payload cannot be stored, or the writing failed; to write again is harmless.
        """

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Payload) -> None:
        """Set the fields of `payload` in the payload of each of `ids`, and leave the others.

        A field set to None is removed. Ids that do not exist are passed over.
        """

    async def set_vectors(self, collection: str, points: Sequence[Point]) -> None:
        """Set the vectors of existing points; payloads and vectors that are not named stay as they are.

        Ids that do not exist are passed over.
        """

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove points; ids that do not exist are passed over."""

    async def ready(self, collection: str, points: Sequence[Point]) -> Sequence[Point]:
        """Return points that `upsert` is to write later, as far as possible checked and converted for it already.

        Raises:
            EmbeddingMismatch: A vector has another size than the collection's.
            StoreError: A point cannot be stored.
        """

    async def retrieve(self, collection: str, ids: Sequence[str], *, fields: Sequence[str] = ()) -> dict[str, Payload]:
        """Return the payloads of those of `ids` that exist; with `fields`, only these of their fields."""

    async def scroll(
        self,
        collection: str,
        filter: Filter,  # noqa: A002 - the field's term
        *,
        order_by: str = "",
        descending: bool = False,
        limit: int | None = None,
        ids_only: bool = False,
    ) -> list[tuple[str, Payload]]:
        """Return every point that meets `filter`, paging to the end or to `limit`.

        With `order_by` (a `float` or `integer` field) in its order, and points without the field are left out.
        """

    async def vectors(self, collection: str, ids: Sequence[str], name: str) -> dict[str, list[float]]:
        """Return a dense vector of those of `ids` that have it, normalised to length 1."""

    async def count(self, collection: str, filter: Filter) -> int:  # noqa: A002 - the field's term
        """Count exactly."""

    async def facet(self, collection: str, field: str, filter: Filter) -> dict[str, int]:  # noqa: A002 - the field's term
        """Count points by the values of a keyword field, exactly; a list counts for each of its elements.

        Values that no point has are left out.
        """

    async def rank(
        self, collection: str, rankings: Sequence[Ranking], *, with_payload: bool = True
    ) -> list[list[Scored]]:
        """Compute all `rankings` in one round trip; each list is in rank order.

        Without `with_payload` the payloads are empty, which is many times faster where most points are left out later.

        A point without the vector is in no ranking by it, and a sparse ranking holds only points that share a
        token with the query.
        """


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Cut `items` into pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def distinct(points: Sequence[Point], *, only_new: bool) -> list[Point]:
    """Keep one point of each id: the last, or with `only_new` the first, which exists for those after it."""
    return list({point.id: point for point in (reversed(points) if only_new else points)}.values())


def check_payload(payload: Payload) -> None:
    """Refuse a payload that is no JSON, before anything is written; the clients differ in what they make of one.

    Raises:
        StoreError: It holds a value JSON has not (NaN, a set), or a lone surrogate.
    """
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise StoreError(f"a payload cannot be stored: {error}") from error
