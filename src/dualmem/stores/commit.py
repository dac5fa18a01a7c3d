"""Everything one batch changes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dualmem.records import Memory


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

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        parts = (self.new, self.changed, self.read_turn_ids, self.unread_turn_ids)
        return any(parts) or bool(self.forgotten_ids or self.forgotten_turn_ids)

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
        )
