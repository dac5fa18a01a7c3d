"""Find and read a benchmark's files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dualmem.cleaning import clean_label
from dualmem.errors import InputError
from dualmem.loaders import load_file
from dualmem.records import Transcript

_DIGITS = re.compile(r"(\d+)")


def json_files(path: Path, name: str = "*.json") -> list[Path]:
    """Return the file `path`, or the files called `name` anywhere below the folder, numbers in their order."""
    if path.is_file():
        return [path]
    found = (each for each in path.rglob(name) if each.is_file())
    return sorted(found, key=lambda each: _natural(each.relative_to(path).as_posix()))


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(text)]


def read_json(path: Path) -> Any:
    """Return the JSON value in a file.

    Raises:
        InputError: It cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        message = f"{str(path)!r} cannot be read as JSON: {error}"
        raise InputError(message) from error


def read_transcripts(path: Path) -> dict[str, Transcript]:
    """Return the conversations in a file, by their ids."""
    return {transcript.conversation_id: transcript for transcript in load_file(path)}


def as_list(value: object) -> list[Any]:
    """Return a list as it is, nothing for None, and anything else as the only item."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list of them."""
    return [item for item in as_list(value) if isinstance(item, Mapping)]


def as_text(value: object) -> str:
    """Return an answer as text: numbers as they are written, lists joined by commas."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list | tuple):
        return ", ".join(as_text(item) for item in value)
    return clean_label(value) or ""


def texts(values: Iterable[object]) -> tuple[str, ...]:
    """Return the texts that are not empty."""
    return tuple(text for value in values if (text := as_text(value)))
