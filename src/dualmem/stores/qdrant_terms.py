"""The protocol's terms in those of qdrant-client, and its failures in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from dualmem.errors import ConfigurationError
from dualmem.stores.backend import Sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dualmem.stores.backend import Condition, FieldType, Filter, Point, Ranking


PORT = 6333
"""Where qdrant-client calls a server whose URL has no port."""


def shown(url: str) -> str:
    """Return a server's URL as it may be shown: without a user and password, with the port that is called.

    Raises:
        ConfigurationError: It is no URL of a server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        raise ConfigurationError("the URL of the Qdrant server cannot be read") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError("the URL of the Qdrant server must begin with http:// or https:// and name a host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}"


def reason(error: Exception) -> str:
    """Say what went wrong with a request, to follow the name of the server."""
    if isinstance(error, UnexpectedResponse):
        if error.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            return f"refused the API key ({error.status_code}): set DUALMEM_QDRANT_API_KEY to one it accepts"
        return f"answered {error.status_code}: {_detail(error)}"
    if isinstance(error, ResponseHandlingException):
        if isinstance(error.source, httpx.TimeoutException):
            return "did not answer in time"
        if isinstance(error.source, httpx.TransportError):
            return f"cannot be reached: {error.source}"
        return f"gave an answer that cannot be read: {type(error.source).__name__}"
    return f"failed: {error}"


def _detail(error: UnexpectedResponse) -> str:
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        # No answer of Qdrant's own: a proxy's page, for instance.
        return error.reason_phrase or error.content[:200].decode(errors="replace")


def client_filter(where: Filter) -> models.Filter | None:
    """Translate a filter; None when it lets everything through."""
    must = [part for condition in where.conditions for part in _required(condition)]
    must_not = [part for condition in where.conditions for part in _forbidden(condition)]
    either: list[models.Condition] = [
        models.Filter(must=_required(condition), must_not=_forbidden(condition)) for condition in where.either
    ]
    if not (must or must_not or either):
        return None
    return models.Filter(must=must or None, must_not=must_not or None, should=either or None)


def _required(condition: Condition) -> list[models.Condition]:
    parts: list[models.Condition] = []
    if condition.any_of is not None:
        parts.append(_match(condition.field, condition.any_of))
    if condition.low is not None or condition.high is not None:
        closed = models.Range(gte=condition.low, lte=condition.high)
        parts.append(models.FieldCondition(key=condition.field, range=closed))
    if parts and condition.or_missing:
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=condition.field))
        return [models.Filter(should=[models.Filter(must=parts), missing])]
    if parts and condition.instead:
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=condition.field))
        other = _required(replace(condition, field=condition.instead, instead=""))
        return [models.Filter(should=[models.Filter(must=parts), models.Filter(must=[missing, *other])])]
    return parts


def _forbidden(condition: Condition) -> list[models.Condition]:
    # Not `MatchExcept`, which a list meets as soon as one of its elements is another.
    return [] if condition.none_of is None else [_match(condition.field, condition.none_of)]


def _match(field: str, values: Sequence[str]) -> models.FieldCondition:
    match = models.MatchValue(value=values[0]) if len(values) == 1 else models.MatchAny(any=list(values))
    return models.FieldCondition(key=field, match=match)


def ids_filter(ids: Sequence[str]) -> models.Filter:
    """Return the filter of the points with `ids`."""
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])


def order(field: str, *, descending: bool) -> models.OrderBy:
    """Return the order by a field."""
    return models.OrderBy(key=field, direction=models.Direction.DESC if descending else models.Direction.ASC)


def query(ranking: Ranking, *, with_payload: bool) -> models.QueryRequest:
    """Translate a ranking."""
    using = ranking.using or None
    asked: models.Query | models.SparseVector | list[float]
    if ranking.vector is None:
        asked, using = models.OrderByQuery(order_by=order(ranking.order_by, descending=ranking.descending)), None
    else:
        asked = _vector(ranking.vector)
    return models.QueryRequest(
        query=asked, using=using, filter=client_filter(ranking.filter), limit=ranking.limit, with_payload=with_payload
    )


def stored_point(point: Point) -> models.PointStruct:
    """Translate a point."""
    return models.PointStruct(id=point.id, payload=point.payload, vector=_vectors(point.vectors))


def point_vectors(point: Point) -> models.PointVectors:
    """Translate the vectors of a point."""
    return models.PointVectors(id=point.id, vector=_vectors(point.vectors))


def _vectors(vectors: Mapping[str, Sequence[float] | Sparse]) -> dict[str, models.Vector]:
    return {name: _vector(vector) for name, vector in vectors.items()}


def _vector(vector: Sequence[float] | Sparse) -> models.SparseVector | list[float]:
    if isinstance(vector, Sparse):
        return models.SparseVector(indices=list(vector.indices), values=list(vector.values))
    return list(vector)


def index(kind: FieldType) -> models.PayloadSchemaType | models.KeywordIndexParams:
    """Return the index of a payload field."""
    match kind:
        case "tenant":
            return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        case "keyword":
            return models.PayloadSchemaType.KEYWORD
        case "float":
            return models.PayloadSchemaType.FLOAT
        case "integer":
            return models.PayloadSchemaType.INTEGER
