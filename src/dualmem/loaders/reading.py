"""From a path to text or a JSON value, within bounds, and without guessing at encodings."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dualmem.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Largest file that is read, in bytes."""

MAX_NESTING = 100
"""Most levels of lists and objects within each other in a JSON file; no format that is known comes near."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ARCHIVES = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"BZh",
    b"\xfd7zXZ\x00",
)
_PROBED_BYTES = 4096


@dataclass(frozen=True)
class Document:
    """A file's content: its text, and the JSON value if it is one."""

    text: str
    undecodable: int = 0
    """Bytes that were not of the text's encoding, and are U+FFFD now."""
    value: object = None
    is_json: bool = False
    malformed_lines: int = 0
    """Lines of JSON Lines that are not JSON."""
    flaw: str | None = None
    """Why it is not JSON though it begins like it, with the place."""


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes.

    Raises:
        InputError: There is no such file, it is no regular one, cannot be read, is too large, or an archive.
    """
    shown = repr(str(path))
    try:
        if not path.exists():
            message = f"there is no file {shown}; check the path"
            raise InputError(message)
        if not path.is_file():
            message = f"{shown} is not a file; give one file of a conversation"
            raise InputError(message)
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        message = f"{shown} cannot be read ({error.strerror}); check the path and its permissions"
        raise InputError(message) from error
    except ValueError as error:  # NUL or lone surrogates in the path
        message = f"{shown} cannot be the path of a file ({error}); check the path"
        raise InputError(message) from error
    if len(raw) > MAX_FILE_BYTES:
        message = f"{shown} is larger than {MAX_FILE_BYTES // 1024**2} MB; split it into smaller files"
        raise InputError(message)
    if raw.startswith(_ARCHIVES):
        message = f"{shown} is a zip file or another archive; unpack it and give the conversation's file in it"
        raise InputError(message)
    return raw


def decode(raw: bytes) -> tuple[str, int] | None:
    """Return the text of bytes in UTF-8, UTF-16 or UTF-32 and how many could not be decoded, or None.

    A few wrong bytes in UTF-8 are replaced. Where they are more than the right ones it is another encoding,
    and which one cannot be known: names and words must not be stored garbled.
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return _replace(raw[len(mark) :], encoding)
    unmarked = _unmarked_utf16(raw)
    if unmarked:
        return _replace(raw, unmarked)
    try:
        return raw.decode("utf-8"), 0
    except UnicodeDecodeError:
        text, wrong = _replace(raw, "utf-8")
        right = len(text) - len(text.encode("ascii", "ignore")) - wrong
        return (text, wrong) if right >= wrong else None


def parse(text: str, undecodable: int = 0) -> Document:
    """Return the JSON value of `text` if it is JSON or JSON Lines, else the text alone."""
    start = text.lstrip()[:1]
    flaw: str | None
    try:
        value = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        flaw = f"{what[:1].lower()}{what[1:]} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        flaw = f"lists and objects more than {MAX_NESTING} deep"
    except ValueError:  # a number of more digits than Python reads (sys.set_int_max_str_digits)
        flaw = "a number of too many digits"
    else:
        if not _is_deeper(value, MAX_NESTING):
            return Document(text, undecodable, value, is_json=True)
        flaw = f"lists and objects more than {MAX_NESTING} deep"
    if start == "{":
        values, malformed = _parse_lines(text.split("\n"))
        if values:
            return Document(text, undecodable, values, is_json=True, malformed_lines=malformed)
    return Document(text, undecodable, flaw=flaw if start in ("{", "[") else None)


def read_json(path: Path) -> object:
    """Return the JSON value of a file beside the one asked for, or None if it holds none.

    Raises:
        InputError: It cannot be read.
    """
    decoded = decode(read_bytes(path))
    return parse(decoded[0]).value if decoded else None


def _replace(raw: bytes, encoding: str) -> tuple[str, int]:
    text = raw.decode(encoding, "replace")
    return text, text.count("\ufffd") - raw.count("\ufffd".encode(encoding))


def _unmarked_utf16(raw: bytes) -> str | None:
    """Return the UTF-16 that bytes without a mark are in, told by the zeros in every other place."""
    probe = raw[:_PROBED_BYTES]
    half = len(probe) // 2
    even, odd = probe[0::2].count(0), probe[1::2].count(0)
    if half > 1 and odd > half * 0.4 and even < half * 0.05:
        return "utf-16-le"
    if half > 1 and even > half * 0.4 and odd < half * 0.05:
        return "utf-16-be"
    return None


def _parse_lines(lines: Iterable[str]) -> tuple[list[object], int]:
    """Return the values of JSON Lines and how many lines are none; no values if the first line is none."""
    values: list[object] = []
    malformed = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line, strict=False)
        except (ValueError, RecursionError):
            malformed += 1
        else:
            if _is_deeper(value, MAX_NESTING):
                malformed += 1
            else:
                values.append(value)
        if not values and malformed:
            return [], malformed
    return values, malformed


def _is_deeper(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
