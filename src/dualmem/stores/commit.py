"""Everything one batch changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dualmem.records import Memory, Rejection
from dualmem.stores.backend import Point


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything one batch changes, written as a whole."""

    user_id: str
    new: tuple[Memory, ...] = ()
    changed: tuple[Memory, ...] = ()
    read_turn_ids: tuple[str, ...] = ()
    forgotten_ids: tuple[str, ...] = ()
    forgotten_turn_ids: tuple[str, ...] = ()
    unread_turn_ids: tuple[str, ...] = ()
    """Turns that are to be read again."""
    rejections: tuple[Rejection, ...] = ()
    forgotten_rejection_ids: tuple[str, ...] = ()
    outdated: tuple[str, ...] | None = None
    """Ids of the memories that are to go when their turns have been read again; None where that stays as it is."""

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        written = (self.new, self.changed, self.read_turn_ids, self.unread_turn_ids, self.rejections)
        forgotten = (self.forgotten_ids, self.forgotten_turn_ids, self.forgotten_rejection_ids)
        return any((*written, *forgotten, self.outdated is not None))

    def written(self) -> str:
        """Return it as it is kept until it is carried out."""
        return json.dumps(
            {
                "new": [memory.model_dump(mode="json") for memory in self.new],
                "changed": [memory.model_dump(mode="json") for memory in self.changed],
                "read": self.read_turn_ids,
                "forgotten": self.forgotten_ids,
                "forgotten_turns": self.forgotten_turn_ids,
                "unread": self.unread_turn_ids,
                "rejections": [one.model_dump(mode="json") for one in self.rejections],
                "forgotten_rejections": self.forgotten_rejection_ids,
                "outdated": self.outdated,
            }
        )

    @classmethod
    def read(cls, user_id: str, text: str) -> Commit:
        """Return the commit that was kept as `text`."""
        body = json.loads(text)
        return cls(
            user_id,
            tuple(Memory.model_validate(item) for item in body["new"]),
            tuple(Memory.model_validate(item) for item in body["changed"]),
            tuple(body["read"]),
            tuple(body["forgotten"]),
            tuple(body["forgotten_turns"]),
            tuple(body.get("unread", ())),
            tuple(Rejection.model_validate(item) for item in body.get("rejections", ())),
            tuple(body.get("forgotten_rejections", ())),
            None if body.get("outdated") is None else tuple(body["outdated"]),
        )


class Prepared:
    """Points of memories that a commit may write, made while there was time.

    No part of a graph's state, which a checkpointer would write.
    """

    _USERS: Final = 64
    """Users of whom points are held; with more at once, those of the first are made again."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[Memory, Point]]] = {}

    def hold(self, user_id: str, memories: Sequence[Memory], points: Sequence[Point]) -> None:
        """Keep the points of a user's memories, in the same order, in place of what was kept of that user."""
        self._held.pop(user_id, None)
        while len(self._held) >= self._USERS:
            del self._held[next(iter(self._held))]
        self._held[user_id] = {point.id: (memory, point) for memory, point in zip(memories, points, strict=True)}

    def take(self, user_id: str, memories: Sequence[Memory]) -> dict[str, Point]:
        """Return the points of those memories that are what they were, by id; nothing is held of the user after that.

        So a commit that erases leaves no text here, whatever was prepared before it.
        """
        held = self._held.pop(user_id, {})
        return {one.id: held[one.id][1] for one in memories if one.id in held and held[one.id][0] is one}

    def clear(self) -> None:
        """Keep none."""
        self._held.clear()
