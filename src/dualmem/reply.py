"""Read a model's reply as the record that was asked for, however it was dressed up.

Models wrap JSON in prose, code fences and thinking tags, put raw control characters into strings, or send
the schema back instead of an instance of it. All of that is met here, and nowhere else.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dualmem.errors import UnreadableReply

T = TypeVar("T", bound=BaseModel)

LONGEST_REPLY = 1_000_000
"""Characters; a longer reply is a fault of the model and is not parsed."""

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_MOST_STARTS = 200


def read_reply(text: str, output: type[T]) -> T:
    """Return the first JSON object in `text` that is a valid `output`.

    Raises:
        UnreadableReply: There is none. The message says what was wrong with the best attempt, in words that
            can be sent back to the model.
    """
    if len(text) > LONGEST_REPLY:
        message = f"the reply has {len(text)} characters; {LONGEST_REPLY} is the most that is read"
        raise UnreadableReply(message)
    complaint = "the reply contains no JSON object"
    for value in _objects(_after_thinking(text)):
        if _echoes_schema(value, output):
            complaint = "the reply is the schema itself, not an instance of it"
            continue
        try:
            return output.model_validate(_without_nulls(value))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the object"
            complaint = f"{where}: {first['msg']}"
    raise UnreadableReply(complaint)


def _without_nulls(value: Any) -> Any:
    """Take null characters out of a reply: nobody sees them, and Postgres takes none in a graph's state."""
    # A stack of its own: a reply may be nested deeper than calls can be.
    holders = [value]
    while holders:
        holder = holders.pop()
        for key, part in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(part, str):
                holder[key] = part.replace("\0", "")
            elif isinstance(part, dict | list):
                holders.append(part)
    return value


def partial_text(text: str, field: str) -> str:
    """Return what is there already of a string field in a reply that is still being written, "" before it begins."""
    found = re.search(rf'"{field}"\s*:\s*"((?:[^"\\]|\\.)*)', _after_thinking(text), re.DOTALL)
    if found is None:
        return ""
    written = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", found[1])
    # Half of a sign that JSON writes in two parts is none yet.
    written = re.sub(r"\\u[dD][89abAB][0-9a-fA-F]{2}$", "", written)
    try:
        value = json.loads(f'"{written}"', strict=False)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _after_thinking(text: str) -> str:
    """Return `text` without the thoughts that stand before its first object; inside a string a tag is text."""
    while (thought := _THINKING.match(text.lstrip())) is not None:
        text = text.lstrip()[thought.end() :]
    return text


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects in `text`, outermost first, in order."""
    decoder = json.JSONDecoder(strict=False)
    found: list[dict[str, Any]] = []
    start = text.find("{")
    for _ in range(_MOST_STARTS):
        if start < 0:
            break
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # no JSON, a number without end, or nested too deep
            end = start + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        start = text.find("{", end)
    return found


def _echoes_schema(value: dict[str, Any], output: type[BaseModel]) -> bool:
    return "properties" in value and "type" in value and "properties" not in output.model_fields
