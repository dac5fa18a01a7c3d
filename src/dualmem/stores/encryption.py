"""Payloads encrypted before they reach a vector database, and decrypted as they come from it.

`EncryptedBackend` stands between `Store` and any backend. What filters, orders and leases need stays readable
(`PLAIN`); names that are filtered by stand there as keyed hashes (`HASHED`); everything else of a payload, whatever
fields it may get, is one ciphertext, bound to its collection, record and user. Words in sparse vectors have keyed
numbers. Dense vectors stay as they are, since a database must compare them: docs/privacy.md says what they give away.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from dualmem.errors import KeyMismatch, StoreError
from dualmem.stores.backend import Filter, Point, Scored, Sparse, check_payload
from dualmem.stores.keys import HOW_TO_SET, NONCE_BYTES, aes_gcm, derived
from dualmem.stores.payload import CONTROL, CONTROL_FIELDS, MEMORIES, MEMORY_FIELDS, TURN_FIELDS, TURNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dualmem.stores.backend import Backend, CollectionSpec, Condition, Payload, Ranking
    from dualmem.stores.keys import EncryptionKey

MARK: Final = "encryption"
"""The field of a store's own record that says how it is encrypted."""

HASHED: Final = frozenset({"conversation_id", "speaker", "entity_keys", "topic"})
"""Fields that filters name and that hold words."""

PLAIN: Final[Mapping[str, frozenset[str]]] = {
    TURNS: frozenset(TURN_FIELDS) - HASHED,
    MEMORIES: frozenset({*MEMORY_FIELDS, "position"}) - HASHED,
    # Of the store itself, and of leases: no words of anybody.
    CONTROL: frozenset({*CONTROL_FIELDS, "model", "dimension", "schema", MARK, "number", "owner", "until"}) - HASHED,
}
"""Fields that are stored as they are."""

SEALED: Final = "sealed"
"""The field of the ciphertext: nonce, text and tag in base64."""

_WITHOUT_WORDS: Final = frozenset({"identity", "lease"})
"""Records of the control collection that have nothing to encrypt."""

_WORDS_KEPT: Final = 1 << 16
"""Numbers of words that are not computed again."""


class Cipher:
    """What is done with the data key of a store."""

    def __init__(self, data_key: bytes) -> None:
        self._aes = aes_gcm(derived(data_key, "records"))
        self._hash_key = derived(data_key, "hashes")
        term_key = derived(data_key, "terms")

        @lru_cache(_WORDS_KEPT)
        def term(index: int) -> int:
            return int.from_bytes(hmac.digest(term_key, index.to_bytes(4, "little"), "sha256")[:4], "little")

        self._term = term

    def seal(self, secret: Payload, bound_to: bytes) -> str:
        """Encrypt fields; they can be opened only with the same `bound_to`."""
        nonce = os.urandom(NONCE_BYTES)
        text = json.dumps(secret, ensure_ascii=False, separators=(",", ":")).encode()
        return base64.b64encode(nonce + self._aes.encrypt(nonce, text, bound_to)).decode()

    def open(self, sealed: str, bound_to: bytes) -> Payload:
        """Decrypt fields.

        Raises:
            ValueError: They were changed, or are those of another record.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only for encrypted stores

        raw = base64.b64decode(sealed)
        try:
            text = self._aes.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound_to)
        except InvalidTag as error:
            message = "not what was encrypted"
            raise ValueError(message) from error
        opened: Payload = json.loads(text)
        return opened

    def hashed(self, field: str, value: Any) -> Any:
        """Return the keyed hash of a field's value, of each where it is a list; what is no text stays."""
        if isinstance(value, list | tuple):
            return [self.hashed(field, one) for one in value]
        if not isinstance(value, str) or not value:
            return value
        # A filter may name anything, a lone surrogate as well; no record has it.
        named = f"{field}\0{value}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._hash_key, named, "sha256")[:16].hex()

    def terms(self, vector: Sparse) -> Sparse:
        """Return a sparse vector whose words have their keyed numbers."""
        weights: defaultdict[int, float] = defaultdict(float)
        for index, value in zip(vector.indices, vector.values, strict=True):
            weights[self._term(index)] += value
        indices = tuple(sorted(weights))
        return Sparse(indices, tuple(weights[index] for index in indices))


class EncryptedBackend:
    """A `Backend` over another one, which sees no text.

    It can be opened and asked for what is stored plain; the rest needs `unlock`.

    Args:
        inner: The backend that stores.
        user_key: What the store's data key is wrapped by.
    """

    def __init__(self, inner: Backend, user_key: EncryptionKey) -> None:
        self.inner = inner
        self.user_key = user_key
        self.data_key = b""
        self._known: Cipher | None = None

    def unlock(self, mark: dict[str, Any] | None) -> None:
        """Take the key that the data is encrypted with from what the store keeps of it.

        Raises:
            KeyMismatch: The store is plain, or its data key was wrapped by another key.
        """
        if mark is None:
            message = (
                f"{self.place} is not encrypted, and a key is set; unset it ({HOW_TO_SET}), or make an encrypted store "
                f"of it with `dualmem reembed`"
            )
            raise KeyMismatch(message)
        self.data_key = self.user_key.data_key_of(mark, self.place)
        self._known = Cipher(self.data_key)

    @property
    def _cipher(self) -> Cipher:
        if self._known is None:
            message = f"{self.place} is not open"
            raise StoreError(message)
        return self._known

    @property
    def key(self) -> str:
        """See `Backend.key`."""
        return self.inner.key

    @property
    def place(self) -> str:
        """See `Backend.place`."""
        return self.inner.place

    @property
    def shared(self) -> bool:
        """See `Backend.shared`."""
        return self.inner.shared

    async def open(self, specs: Sequence[CollectionSpec], *, create: bool) -> bool:
        """See `Backend.open`."""
        return await self.inner.open(specs, create=create)

    async def close(self) -> None:
        """See `Backend.close`."""
        await self.inner.close()

    async def compact(self) -> None:
        """See `Backend.compact`."""
        await self.inner.compact()

    async def upsert(self, collection: str, points: Sequence[Point], *, only_new: bool = False) -> None:
        """See `Backend.upsert`."""
        stored = [
            Point(point.id, self._hidden(collection, point.id, point.payload), self._vectors(point.vectors))
            for point in points
        ]
        await self.inner.upsert(collection, stored, only_new=only_new)

    async def ready(self, collection: str, points: Sequence[Point]) -> Sequence[Point]:  # noqa: ARG002 - the protocol
        """See `Backend.ready`."""
        return points

    async def set_payload(self, collection: str, ids: Sequence[str], payload: Payload) -> None:
        """See `Backend.set_payload`. What is encrypted of a record is read, changed and written as a whole."""
        if payload.keys() <= PLAIN[collection]:
            await self.inner.set_payload(collection, ids, payload)
            return
        for record_id, stored in (await self.inner.retrieve(collection, ids)).items():
            whole = {**self._shown(collection, record_id, stored), **payload}
            changed = self._hidden(collection, record_id, whole)
            kept = {SEALED, *(HASHED & payload.keys()), *(PLAIN[collection] & payload.keys())}
            await self.inner.set_payload(collection, [record_id], {key: changed[key] for key in kept & changed.keys()})

    async def set_vectors(self, collection: str, points: Sequence[Point]) -> None:
        """See `Backend.set_vectors`."""
        await self.inner.set_vectors(collection, [replace(one, vectors=self._vectors(one.vectors)) for one in points])

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        """See `Backend.delete`."""
        await self.inner.delete(collection, ids)

    async def retrieve(self, collection: str, ids: Sequence[str], *, fields: Sequence[str] = ()) -> dict[str, Payload]:
        """See `Backend.retrieve`."""
        if fields and PLAIN[collection].issuperset(fields):
            return await self.inner.retrieve(collection, ids, fields=fields)
        # What a ciphertext is bound to is read with it.
        wanted = (*fields, SEALED, "user_id") if fields else ()
        found = await self.inner.retrieve(collection, ids, fields=wanted)
        shown = {key: self._shown(collection, key, payload) for key, payload in found.items()}
        if not fields:
            return shown
        return {key: {name: row[name] for name in fields if name in row} for key, row in shown.items()}

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
        """See `Backend.scroll`."""
        rows = await self.inner.scroll(
            collection,
            self._filter(filter),
            order_by=order_by,
            descending=descending,
            limit=limit,
            ids_only=ids_only,
        )
        return rows if ids_only else [(key, self._shown(collection, key, payload)) for key, payload in rows]

    async def vectors(self, collection: str, ids: Sequence[str], name: str) -> dict[str, list[float]]:
        """See `Backend.vectors`."""
        return await self.inner.vectors(collection, ids, name)

    async def count(self, collection: str, filter: Filter) -> int:  # noqa: A002 - the field's term
        """See `Backend.count`."""
        return await self.inner.count(collection, self._filter(filter))

    async def facet(
        self,
        collection: str,
        field: str,
        filter: Filter,  # noqa: A002 - the field's term
    ) -> dict[str, int]:
        """See `Backend.facet`. The values of hashed fields are counted here, from all records that meet the filter."""
        if field not in HASHED:
            return await self.inner.facet(collection, field, self._filter(filter))
        counts: Counter[str] = Counter()
        for _, payload in await self.scroll(collection, filter):
            value = payload.get(field)
            counts.update(set(value) if isinstance(value, list) else [] if value is None else [value])
        return dict(counts)

    async def rank(
        self, collection: str, rankings: Sequence[Ranking], *, with_payload: bool = True
    ) -> list[list[Scored]]:
        """See `Backend.rank`."""
        asked = [
            replace(
                one,
                filter=self._filter(one.filter),
                vector=self._cipher.terms(one.vector) if isinstance(one.vector, Sparse) else one.vector,
            )
            for one in rankings
        ]
        found = await self.inner.rank(collection, asked, with_payload=with_payload)
        if not with_payload:
            return found
        # A record in several rankings is decrypted once.
        stored = {row.id: row.payload for ranking in found for row in ranking}
        shown = {key: self._shown(collection, key, payload) for key, payload in stored.items()}
        return [[Scored(row.id, row.score, shown[row.id]) for row in ranking] for ranking in found]

    def _hidden(self, collection: str, record_id: str, payload: Payload) -> Payload:
        """Return a whole payload as it is stored."""
        check_payload(payload)
        plain = PLAIN[collection]
        stored = {key: value for key, value in payload.items() if key in plain}
        secret = {key: value for key, value in payload.items() if key not in plain}
        if not secret:
            return stored
        for field in HASHED & secret.keys():
            stored[field] = self._cipher.hashed(field, secret[field])
        stored[SEALED] = self._cipher.seal(secret, _binding(collection, record_id, payload))
        return stored

    def _shown(self, collection: str, record_id: str, stored: Payload) -> Payload:
        """Return a payload as it was given.

        Raises:
            StoreError: It was changed outside of this package, or is another record's.
        """
        if SEALED not in stored and stored.get("what") in _WITHOUT_WORDS:
            return stored
        rest = {key: value for key, value in stored.items() if key != SEALED}
        try:
            return {**rest, **self._cipher.open(stored.get(SEALED, ""), _binding(collection, record_id, stored))}
        except ValueError as error:
            message = (
                f"the record {record_id} in {collection!r} of {self.place} cannot be decrypted: something else than "
                f"dualmem changed it, or put it there; restore the store from a backup"
            )
            raise StoreError(message) from error

    def _vectors(self, vectors: Mapping[str, Sequence[float] | Sparse]) -> dict[str, Sequence[float] | Sparse]:
        return {
            name: self._cipher.terms(vector) if isinstance(vector, Sparse) else vector
            for name, vector in vectors.items()
        }

    def _filter(self, where: Filter) -> Filter:
        return Filter(self._conditions(where.conditions), self._conditions(where.either))

    def _conditions(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        return tuple(
            replace(
                one,
                any_of=None if one.any_of is None else tuple(self._cipher.hashed(one.field, list(one.any_of))),
                none_of=None if one.none_of is None else tuple(self._cipher.hashed(one.field, list(one.none_of))),
            )
            if one.field in HASHED
            else one
            for one in conditions
        )


def _binding(collection: str, record_id: str, payload: Payload) -> bytes:
    """Return what a ciphertext is bound to, so that records cannot be exchanged; the user may hold any character."""
    return f"{collection}\0{record_id}\0{payload.get('user_id', '')}".encode()
