"""Turn the content of a message, whatever its shape, into plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from dualmem.cleaning import clean_label

if TYPE_CHECKING:
    from dualmem.records.turn import Role

ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""Words for a role, in lower case, as the chat protocols write them."""

TOOL_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use", "server_tool_call"})
TOOL_RESULT_BLOCKS = frozenset({"tool_result", "server_tool_result", "function_call_output"})

_REASONING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning", "thoughts"})
_IMAGE = re.compile(r"image|photo|picture", re.IGNORECASE)
_CAPTION_KEYS = ("caption", "blip_caption", "alt", "alt_text", "description")
_BLOCK_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,39}")

_LONGEST_CALL = 300
"""Characters of a tool call's arguments that are kept."""
_DEEPEST = 8

Skip = Callable[[str], None]
"""Counts something left out, by its reason."""


def render_content(content: object, skip: Skip, *, depth: int = 0) -> str:
    """Return the text of a message's content: a string, a block, or a list of both.

    Text is kept as it is, an image as its caption or alternative text, a tool call as `render_tool_call`
    writes it, a tool result as its text. Everything else is handed to `skip` by its reason.
    """
    if content is None or isinstance(content, str | int | float):
        return content if isinstance(content, str) else clean_label(content) or ""
    if depth >= _DEEPEST:
        skip("block nested too deep")
        return ""
    if isinstance(content, Mapping):
        return _render_block(content, skip, depth)
    if isinstance(content, list | tuple):
        texts = (render_content(item, skip, depth=depth + 1) for item in content)
        return "\n".join(text for text in texts if text)
    skip("content of an unknown kind")
    return ""


def render_message(content: object, calls: Iterable[object], skip: Skip) -> str:
    """Return the text of a message's content or, if there is none, its tool calls.

    Without `calls`, those among the content's blocks count; with them the blocks only repeat them.
    """
    calls = list(calls)
    if isinstance(content, list | tuple):
        blocks = [block for block in content if block_type(block) in TOOL_CALL_BLOCKS]
        content = [block for block in content if block_type(block) not in TOOL_CALL_BLOCKS]
        calls = calls or blocks
    text = render_content(content, skip)
    if calls and not text.strip():
        return render_tool_calls(calls)
    for _ in calls:
        skip("tool call beside text")
    return text


def block_type(block: object) -> str | None:
    """Return a block's `type` if it is a block and has one."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else None


def render_image(caption: str) -> str:
    """Return the line that stands for an image in a conversation."""
    return f"[shares an image: {caption}]"


def render_tool_call(name: object, arguments: object) -> str:
    """Return one short line for a tool call: its name, and its arguments as JSON, cut at 300 characters."""
    called = name if isinstance(name, str) and name.strip() else "a tool"
    if isinstance(arguments, str):
        text = arguments
    else:
        try:
            text = json.dumps(arguments, ensure_ascii=False, default=str) if arguments else ""
        except (TypeError, ValueError, RecursionError):  # keys that JSON has not, a value that holds itself
            text = "..."
    text = " ".join(text.split())
    if len(text) > _LONGEST_CALL:
        text = text[:_LONGEST_CALL] + "..."
    return f"[calls {called}: {text}]" if text and text != "{}" else f"[calls {called}]"


def render_tool_calls(calls: Iterable[object]) -> str:
    """Return a line for each tool call, in LangChain's form (`name`, `args`) or OpenAI's (`function`)."""
    lines: list[str] = []
    for call in calls:
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        fields = function if isinstance(function, Mapping) else call
        arguments = next((fields[key] for key in ("args", "arguments", "input") if key in fields), None)
        lines.append(render_tool_call(fields.get("name"), arguments))
    return "\n".join(lines)


def _render_block(block: Mapping[object, object], skip: Skip, depth: int) -> str:
    kind = block.get("type")
    kind = kind if isinstance(kind, str) and _BLOCK_TYPE.fullmatch(kind) else "unknown"
    if kind in TOOL_CALL_BLOCKS:
        return render_tool_calls([block])
    if kind in TOOL_RESULT_BLOCKS:
        return render_content(block.get("content", block.get("output")), skip, depth=depth + 1)
    if _IMAGE.search(kind):
        caption = _caption(block)
        text, reason = caption and render_image(caption), "image without a caption"
    elif kind in _REASONING_BLOCKS:
        text, reason = None, "reasoning block"
    else:
        text, reason = _block_text(block), f"{kind} block"
    if text is None:
        skip(reason)
    return text or ""


def _block_text(block: Mapping[object, object]) -> str | None:
    text = block.get("text", block.get("refusal"))
    if isinstance(text, Mapping):  # OpenAI's Assistants: {"type": "text", "text": {"value": ...}}
        text = text.get("value")
    return text if isinstance(text, str) else None


def _caption(block: Mapping[object, object]) -> str | None:
    """Return what an image block says the image shows: on itself, or one level down."""
    inner = [value for value in block.values() if isinstance(value, Mapping)]
    for fields in (block, *inner):
        for key in _CAPTION_KEYS:
            caption = fields.get(key)
            if isinstance(caption, str) and caption.strip():
                return caption.strip()
    return None
