"""One collection of an embedded store: Qdrant Edge's blocking calls, in the terms of the protocol."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

import qdrant_edge as qe

from dualmem.errors import DualmemError, StoreError, StoreLocked
from dualmem.stores.backend import Point, Scored, Sparse, batches, check_payload, distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dualmem.stores.backend import CollectionSpec, Condition, FieldType, Filter, Payload, Ranking

PAGE = 1000
"""Points read in one call. Edge holds the interpreter's lock during a call, so that a call must be short."""

BATCH = 256
"""Points written in one call."""

FLUSH_AFTER = 5000
"""Points changed between two flushes.

Every change is in the write-ahead log when its call returns, which outlives the process. A flush shortens that
log, which otherwise grows without end and is replayed on opening (0.1 s per 1,000 points); it costs up to half a
second.
"""

_EXACT = qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=True, oversampling=2.0))
"""A scan goes by vectors of one byte a number; twice as many as are wanted are then scored by the whole ones.

Of 100 wanted that are the same 100 as without quantization, with the same scores, in half the time.
"""

_EVERYTHING = 2**31
"""A limit that no store in one process reaches; Edge reserves nothing by it."""


@dataclass(frozen=True, slots=True)
class Ready(Point):
    """A point that was checked, in Edge's own form."""

    native: qe.Point


class Shard:
    """One open collection. Its calls block, and may come from any thread."""

    def __init__(self, path: Path, edge: qe.EdgeShard, spec: CollectionSpec) -> None:
        self.spec = spec
        self._path = path
        self._edge: qe.EdgeShard | None = edge
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._unflushed = 0

    @property
    def busy(self) -> bool:
        """Whether a call is under way, so that the next one waits."""
        return self._lock.locked()

    @contextmanager
    def _use(self) -> Iterator[qe.EdgeShard]:
        """Have the shard to oneself, so that a read and the write that follows from it are one step."""
        if os.getpid() != self._process:
            raise StoreError(f"the store at {self._path} was opened before this process was forked; open it anew")
        with self._lock, edge_errors(self._path):
            if self._edge is None:
                raise StoreError(f"the store at {self._path} is closed")
            yield self._edge

    def _write(self, edge: qe.EdgeShard, operation: qe.UpdateOperation, points: int) -> None:
        edge.update(operation)
        self._unflushed += points
        if self._unflushed >= FLUSH_AFTER:
            edge.flush()
            self._unflushed = 0

    def close(self) -> None:
        """Flush and release the files, once no call is under way."""
        if os.getpid() != self._process:
            return
        with self._lock, edge_errors(self._path):
            edge, self._edge = self._edge, None
            if edge is not None:
                edge.close()

    def replace(self, place: Path, aside: Path, build: Callable[[Iterable[list[qe.Point]]], Path]) -> None:
        """Let a copy take the place of this collection's files.

        Args:
            place: Where the files are.
            aside: Where the old ones go.
            build: Makes the copy of the points, and returns where it is.
        """
        with self._use() as edge:
            copy = build(_copied(edge))
            self._edge = None
            edge.close()
            try:
                place.rename(aside)
                copy.rename(place)
            finally:
                if not place.exists():
                    aside.rename(place)
                self._edge = qe.EdgeShard.load(str(place))
            self._unflushed = 0

    def index(self, fields: Mapping[str, FieldType]) -> None:
        """Index those of `fields` that are not indexed yet."""
        with self._use() as edge:
            known = edge.info().payload_schema
            for name in fields.keys() - known.keys():
                edge.update(qe.UpdateOperation.create_field_index(name, _index(fields[name])))

    def upsert(self, points: Sequence[Point], *, only_new: bool) -> None:
        """See `Backend.upsert`."""
        mode = qe.UpdateMode.InsertOnly if only_new else qe.UpdateMode.Upsert
        # All are converted, and so checked, before the first is written.
        converted = self.ready(distinct(points, only_new=only_new))
        for batch in batches([point.native for point in converted], BATCH):
            with self._use() as edge:
                self._write(edge, qe.UpdateOperation.upsert_points(list(batch), None, mode), len(batch))

    def ready(self, points: Sequence[Point]) -> list[Ready]:
        """See `Backend.ready`. Converting takes longer than writing: what has time for it before should use that."""
        return [point if isinstance(point, Ready) else self._converted(point) for point in points]

    def _converted(self, point: Point) -> Ready:
        self.spec.check(point.vectors)
        check_payload(point.payload)
        with edge_errors(self._path):
            native = qe.Point(point.id, _vectors(point.vectors), point.payload)
        return Ready(point.id, point.payload, point.vectors, native)

    def set_payload(self, ids: Sequence[str], payload: Payload) -> None:
        """See `Backend.set_payload`."""
        check_payload(payload)
        # By filter: by id, Edge stops at the first that does not exist.
        with self._use() as edge:
            for batch in batches(ids, PAGE):
                chosen = qe.Filter(must=[qe.HasIdCondition(set(batch))])
                self._write(edge, qe.UpdateOperation.set_payload_by_filter(chosen, payload), len(batch))

    def set_vectors(self, points: Sequence[Point]) -> None:
        """See `Backend.set_vectors`."""
        for point in points:
            self.spec.check(point.vectors)
        named = [point for point in distinct(points, only_new=False) if point.vectors]
        for batch in batches(named, BATCH):
            with self._use() as edge:
                # Edge stops at the first point that does not exist.
                found = {_canonical(row.id) for row in edge.retrieve([point.id for point in batch], False, False)}
                changes = [qe.PointVectors(point.id, _vectors(point.vectors)) for point in batch if point.id in found]
                if changes:
                    self._write(edge, qe.UpdateOperation.update_vectors(changes), len(changes))

    def delete(self, ids: Sequence[str]) -> None:
        """See `Backend.delete`."""
        for batch in batches(ids, PAGE):
            with self._use() as edge:
                self._write(edge, qe.UpdateOperation.delete_points(list(batch)), len(batch))

    def retrieve(self, ids: Sequence[str], fields: Sequence[str] = ()) -> dict[str, Payload]:
        """See `Backend.retrieve`."""
        found: dict[str, Payload] = {}
        for batch in batches(ids, PAGE):
            with self._use() as edge:
                found.update(_payloads(edge, batch, fields))
        return found

    def vectors(self, ids: Sequence[str], name: str) -> dict[str, list[float]]:
        """See `Backend.vectors`."""
        found: dict[str, list[float]] = {}
        for batch in batches(ids, PAGE):
            with self._use() as edge:
                for row in edge.retrieve(list(batch), False, [name]):
                    vector = row.vector.get(name) if isinstance(row.vector, dict) else None
                    if isinstance(vector, list):
                        found[_canonical(row.id)] = [float(value) for value in vector]  # type: ignore[arg-type] # no matrix
        return found

    def scroll(
        self, where: Filter, *, order_by: str, descending: bool, limit: int | None, ids_only: bool
    ) -> list[tuple[str, Payload]]:
        """See `Backend.scroll`."""
        limit = _EVERYTHING if limit is None else limit
        if not order_by:
            return self._pages(where, limit, ids_only=ids_only)
        direction = qe.Direction.Desc if descending else qe.Direction.Asc
        # Edge cannot go on from where an ordered page ended. All ids at once, and then the payloads by pages,
        # keeps each call short.
        request = qe.ScrollRequest(
            limit=limit,
            filter=edge_filter(where),
            order_by=qe.OrderBy(order_by, direction),
            with_payload=False,
            with_vector=False,
        )
        with self._use() as edge:
            ids = [_canonical(row.id) for row in edge.scroll(request)[0]]
        if ids_only:
            return [(key, {}) for key in ids]
        found = self.retrieve(ids)
        return [(key, found[key]) for key in ids if key in found]

    def _pages(self, where: Filter, limit: int, *, ids_only: bool) -> list[tuple[str, Payload]]:
        rows, offset = self.page(where, min(PAGE, limit), ids_only=ids_only)
        while offset is not None and len(rows) < limit:
            more, offset = self.page(where, min(PAGE, limit - len(rows)), ids_only=ids_only, offset=offset)
            rows += more
        return rows

    def page(
        self, where: Filter, limit: int, *, ids_only: bool, offset: qe.PointId | None = None
    ) -> tuple[list[tuple[str, Payload]], qe.PointId | None]:
        """Return at most `limit` points in the order of their ids, from `offset` on, and where the next ones start."""
        request = qe.ScrollRequest(
            offset=offset, limit=limit, filter=edge_filter(where), with_payload=not ids_only, with_vector=False
        )
        with self._use() as edge:
            rows, following = edge.scroll(request)
        return [(_canonical(row.id), row.payload or {}) for row in rows], following

    def count(self, where: Filter) -> int:
        """See `Backend.count`."""
        with self._use() as edge:
            return edge.count(qe.CountRequest(exact=True, filter=edge_filter(where)))

    def facet(self, field: str, where: Filter) -> dict[str, int]:
        """See `Backend.facet`."""
        request = qe.FacetRequest(field, limit=_EVERYTHING, exact=True, filter=edge_filter(where))
        with self._use() as edge:
            # Edge lists values that no point has any longer, too.
            return {str(hit.value): hit.count for hit in edge.facet(request).hits if hit.count}

    def rank(self, rankings: Sequence[Ranking], *, with_payload: bool = True) -> list[list[Scored]]:
        """See `Backend.rank`."""
        for ranking in rankings:
            if ranking.vector is not None:
                self.spec.check({ranking.using: ranking.vector})
        runnable = [place for place, ranking in enumerate(rankings) if ranking.limit > 0]
        ranked: list[list[Scored]] = [[] for _ in rankings]
        if not runnable:
            return ranked
        with self._use() as edge:
            found = edge.query_batch(qe.QueryBatchRequest([_query(rankings[place]) for place in runnable]))
            # A payload is read once, in how many rankings its point may be: reading costs as much as ranking.
            named = [[_canonical(hit.id) for hit in hits] for hits in found]
            payloads = _payloads(edge, list({key for keys in named for key in keys})) if with_payload else {}
        for place, hits, keys in zip(runnable, found, named, strict=True):
            by_vector = rankings[place].vector is not None
            ranked[place] = [
                Scored(key, hit.score if by_vector else 0.0, payloads.get(key, {}))
                for key, hit in zip(keys, hits, strict=True)
            ]
        return ranked


def _copied(edge: qe.EdgeShard) -> Iterator[list[qe.Point]]:
    """Return all points with payloads and vectors, batch by batch."""
    offset = None
    while True:
        page, offset = edge.scroll(qe.ScrollRequest(offset=offset, limit=BATCH, with_payload=True, with_vector=True))
        if page:
            yield [qe.Point(row.id, row.vector or {}, row.payload or {}) for row in page]
        if offset is None:
            return


@contextmanager
def edge_errors(path: Path) -> Iterator[None]:
    """Turn what Edge raises into this package's errors, which name the folder."""
    try:
        yield
    except DualmemError:
        raise
    except BaseException as error:
        # Edge raises bare `Exception`, and what it raises for damaged files is not even one of those.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if "Kind(WouldBlock)" in str(error):
            raise StoreLocked(
                f"the store at {path} is open in another process: close that one first, or keep the store on a "
                f"Qdrant server, which many processes share, by giving its URL as the store"
            ) from error
        raise StoreError(f"the store at {path} failed: {str(error).splitlines()[0]}") from error


def edge_filter(where: Filter) -> qe.Filter | None:
    """Translate a filter; None when it lets everything through."""
    must = [part for condition in where.conditions for part in _required(condition)]
    must_not = [part for condition in where.conditions for part in _forbidden(condition)]
    either: list[qe.ConditionType] = [
        qe.Filter(must=_required(condition), must_not=_forbidden(condition)) for condition in where.either
    ]
    if not (must or must_not or either):
        return None
    return qe.Filter(must=must or None, must_not=must_not or None, should=either or None)


def _required(condition: Condition) -> list[qe.ConditionType]:
    parts: list[qe.ConditionType] = []
    if condition.any_of is not None:
        parts.append(_match(condition.field, condition.any_of))
    if condition.low is not None or condition.high is not None:
        closed = qe.RangeFloat(gte=condition.low, lte=condition.high)
        parts.append(qe.FieldCondition(condition.field, range=closed))
    if parts and condition.or_missing:
        return [qe.Filter(should=[qe.Filter(must=parts), qe.IsEmptyCondition(condition.field)])]
    if parts and condition.instead:
        other = _required(replace(condition, field=condition.instead, instead=""))
        missing = qe.Filter(must=[qe.IsEmptyCondition(condition.field), *other])
        return [qe.Filter(should=[qe.Filter(must=parts), missing])]
    return parts


def _forbidden(condition: Condition) -> list[qe.ConditionType]:
    # Not Edge's `MatchExcept`, which a list meets as soon as one of its elements is another.
    return [] if condition.none_of is None else [_match(condition.field, condition.none_of)]


def _match(field: str, values: Sequence[str]) -> qe.FieldCondition:
    # One value has its own form, a quarter faster at 100,000 points.
    match = qe.MatchValue(values[0]) if len(values) == 1 else qe.MatchAny(list(values))
    return qe.FieldCondition(field, match)


def _query(ranking: Ranking) -> qe.QueryRequest:
    query: qe.ScoringQueryType
    if ranking.vector is None:
        direction = qe.Direction.Desc if ranking.descending else qe.Direction.Asc
        query = qe.OrderBy(ranking.order_by, direction)
    else:
        query = qe.Query.Nearest(_vector(ranking.vector), using=ranking.using)
    return qe.QueryRequest(
        limit=ranking.limit,
        query=query,
        filter=edge_filter(ranking.filter),
        params=_EXACT,
        with_payload=False,
        with_vector=False,
    )


def _canonical(identifier: qe.PointId) -> str:
    return _written(identifier.int) if isinstance(identifier, UUID) else str(identifier)


@lru_cache(maxsize=1 << 16)
def _written(number: int) -> str:
    """Return a UUID as it is written, in a third of `str`'s time; a search returns the same few hundred many times."""
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _payloads(edge: qe.EdgeShard, ids: Sequence[str], fields: Sequence[str] = ()) -> dict[str, Payload]:
    return {_canonical(row.id): row.payload or {} for row in edge.retrieve(list(ids), list(fields) or True, False)}


def _vector(vector: Sequence[float] | Sparse) -> qe.NamedVector:
    if isinstance(vector, Sparse):
        return qe.SparseVector(list(vector.indices), list(vector.values))
    return list(vector)


def _vectors(vectors: Mapping[str, Sequence[float] | Sparse]) -> qe.Vector:
    return {name: _vector(vector) for name, vector in vectors.items()}


def _index(kind: FieldType) -> qe.PayloadSchemaParams:
    match kind:
        case "tenant":
            return qe.KeywordIndexParams(is_tenant=True)
        case "keyword":
            return qe.KeywordIndexParams()
        case "float":
            return qe.FloatIndexParams()
        case "integer":
            return qe.IntegerIndexParams(lookup=False, range=True)
