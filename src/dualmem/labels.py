"""Short labels for records in prompts: a model copies `B` or `M3` reliably, and a UUID not."""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_uppercase


def letters(ids: Iterable[str]) -> dict[str, str]:
    """Label distinct ids A, B, ... Z, AA, AB, ... in order."""
    return {identifier: _letters(number) for number, identifier in enumerate(dict.fromkeys(ids))}


def numbered(ids: Iterable[str], prefix: str) -> dict[str, str]:
    """Label distinct ids `prefix` 1, 2, ... in order."""
    return {identifier: f"{prefix}{number}" for number, identifier in enumerate(dict.fromkeys(ids), start=1)}


def _letters(number: int) -> str:
    label = ""
    while True:
        number, digit = divmod(number, len(ascii_uppercase))
        label = ascii_uppercase[digit] + label
        if number == 0:
            return label
        number -= 1
