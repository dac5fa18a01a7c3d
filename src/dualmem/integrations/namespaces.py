"""Namespaces of a LangGraph store that name a user at one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dualmem.errors import ConfigurationError, InputError

USER: Final = "{user_id}"

_WRITTEN: Final = (("%", "%25"), (".", "%2E"))
"""How a user id is written as a part: LangGraph allows no dot in one."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """A form of namespaces, such as `("{user_id}", "memories")`.

    Raises:
        ConfigurationError: `{user_id}` is not exactly one of its parts.
    """

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.parts.count(USER) != 1:
            message = f"a namespace must have {USER!r} at one place, and {self.parts!r} has not"
            raise ConfigurationError(message)

    def of(self, user_id: str) -> tuple[str, ...]:
        """Return a user's namespace."""
        return tuple(_part(user_id) if part == USER else part for part in self.parts)

    def user(self, namespace: Sequence[str], *, prefix: bool = False) -> str:
        """Return the user that a namespace names.

        Args:
            namespace: The namespace.
            prefix: Whether it may leave out parts behind the user.

        Raises:
            InputError: It is not of this form; a scope is never wider than one user.
        """
        place = self.parts.index(USER)
        short = prefix and place < len(namespace) <= len(self.parts)
        if short or len(namespace) == len(self.parts):
            user_id = _user(namespace[place])
            if self.of(user_id)[: len(namespace)] == tuple(namespace):
                return user_id
        message = f"the namespace {tuple(namespace)!r} is not of the form {self.parts!r}"
        raise InputError(message)

    def split(self, namespace: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
        """Return the user and what stands behind a namespace of this form, or None if it is of another."""
        if len(namespace) < len(self.parts):
            return None
        head, rest = tuple(namespace[: len(self.parts)]), tuple(namespace[len(self.parts) :])
        place = self.parts.index(USER)
        if any(held != part for held, part in zip(head, self.parts, strict=True) if part != USER):
            return None
        return _user(head[place]), rest


def _part(user_id: str) -> str:
    for plain, written in _WRITTEN:
        user_id = user_id.replace(plain, written)
    return user_id


def _user(part: str) -> str:
    for plain, written in reversed(_WRITTEN):
        part = part.replace(written, plain)
    return part
