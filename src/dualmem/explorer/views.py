"""What a person wants to see of a user's memories: filters, two clocks and a page, as they stand in an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import urlencode

from dualmem.clocks import PASSING
from dualmem.errors import InputError
from dualmem.ingestion.suspicion_rules import REASONS
from dualmem.records import Kind
from dualmem.stores.backend import Condition, Filter
from dualmem.stores.payload import entity_key, is_any, of_user

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

KINDS: Final[tuple[str, ...]] = get_args(Kind)

LASTING: Final = tuple(kind for kind in KINDS if kind not in PASSING)
"""Kinds whose date is when they began."""

STATUSES: Final[Mapping[str, tuple[str, Condition]]] = {
    "active": ("in force", is_any("state", "active")),
    "superseded": ("replaced by a later state", is_any("state", "superseded")),
    "contradicts": ("contradicted", is_any("relations", "contradicts")),
    "merged_with": ("said more than once", is_any("relations", "merged_with")),
    "merged": ("joined into another", is_any("state", "merged")),
    "standing": ("standing instruction", is_any("standing_key", "yes")),
    "suspicious": ("reads like an instruction to a model", is_any("suspicion", *REASONS)),
    "quarantined": ("quarantined", is_any("state", "quarantined")),
}
"""What a memory can be filtered by of its life, with the words for it."""

PAGE: Final = 50
"""Memories on a page."""

_LAST_PAGE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class View:
    """A user's memories through filters, at a page of the list."""

    user_id: str
    kinds: tuple[str, ...] = ()
    status: str = ""
    entity: str = ""
    topic: str = ""
    conversation_id: str = ""
    known: datetime | None = None
    """On the clock of what was told: only what was known at this time."""
    held: datetime | None = None
    """On the clock of the world: only what held at this time."""
    oldest_first: bool = False
    page: int = 1

    @classmethod
    def of(cls, user_id: str, query: QueryParams) -> View:
        """Return the view that an address names.

        Raises:
            InputError: It has a value that does not exist.
        """
        kinds = tuple(dict.fromkeys(filter(None, query.getlist("kind"))))
        for kind in kinds:
            _check("kind", kind, KINDS)
        status = query.get("status", "")
        _check("status", status, ("", *STATUSES))
        page = query.get("page", "1")
        if not (page.isdecimal() and 1 <= int(page) <= _LAST_PAGE):
            message = f"there is no page {page!r}"
            raise InputError(message)
        return cls(
            user_id=user_id,
            kinds=kinds,
            status=status,
            entity=query.get("entity", "").strip(),
            topic=query.get("topic", "").strip(),
            conversation_id=query.get("conversation", ""),
            known=moment(query.get("known", "")),
            held=moment(query.get("held", "")),
            oldest_first=query.get("order") == "oldest",
            page=int(page),
        )

    @property
    def narrowed(self) -> bool:
        """Whether anything is filtered."""
        return replace(self, page=1, oldest_first=False) != View(self.user_id)

    def where(self) -> Filter:
        """Return the filter of the store for all of it but what held at a time, which follows from whole chains."""
        conditions: list[Condition] = []
        if self.kinds:
            conditions.append(is_any("kind", *self.kinds))
        if self.status:
            conditions.append(STATUSES[self.status][1])
        if self.entity:
            conditions.append(is_any("entity_keys", entity_key(self.entity)))
        if self.topic:
            conditions.append(is_any("topic", self.topic))
        if self.conversation_id:
            conditions.append(is_any("conversation_id", self.conversation_id))
        if self.known is not None and self.held is None:
            instant = self.known.timestamp()
            # A closed range; what was replaced at this very instant is not known any more.
            conditions += [
                Condition("known_at", high=instant),
                Condition("retired_at", low=instant + 1e-6, or_missing=True),
            ]
        return of_user(self.user_id, *conditions)

    def link(self, path: str = "/memories", **changes: Any) -> str:
        """Return the address of this view with something changed; it begins at its first page."""
        view = replace(self, **{"page": 1, **changes})
        pairs = [
            ("user", view.user_id),
            *(("kind", kind) for kind in view.kinds),
            ("status", view.status),
            ("entity", view.entity),
            ("topic", view.topic),
            ("conversation", view.conversation_id),
            ("known", as_input(view.known)),
            ("held", as_input(view.held)),
            ("order", "oldest" if view.oldest_first else ""),
            ("page", str(view.page) if view.page > 1 else ""),
        ]
        return f"{path}?{urlencode([pair for pair in pairs if pair[1]])}"


def dated_in(low: float, high: float) -> tuple[list[Condition], tuple[Condition, ...]]:
    """Return the conditions of memories whose dates are at some time between two; all, and one of the rest.

    What lasts (a home, a taste) counts from its date until it is replaced; anything else as long as its date goes. What
    has no date is on no place. This is for a drawing of many times at once: what held at one time, `clocks` says.
    """
    conditions = [Condition("valid_start", high=high), Condition("retired_at", low=low, or_missing=True)]
    return conditions, (is_any("kind", *LASTING), Condition("valid_end", low=low, or_missing=True))


def moment(text: str) -> datetime | None:
    """Read a time as a form or a person writes it; without a zone it is UTC, "" is None.

    Raises:
        InputError: It is no time.
    """
    if not text.strip():
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        message = f"{text!r} is no time; write it like 2024-05-08T13:30"
        raise InputError(message) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def as_input(instant: datetime | None) -> str:
    """Write a time as the value of a form's field, in UTC and to the minute; None is ""."""
    return "" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _check(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        message = f"there is no {what} {value!r}; there are {', '.join(filter(None, known))}"
        raise InputError(message)
