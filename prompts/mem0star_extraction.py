"""Extract salient memories from one round, with what is known already (D-Mem, System 1, extraction)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dualmem.chat import Prompt
from dualmem.prompting import chat, fence, memory_line, turn_lines
from dualmem.prompts.extraction import EXAMPLE, SYSTEM, ExtractionReply, reply_schema
from dualmem.records import Memory, Turn

_KNOWN: Final = "What is known already stands first; write only what is new or different."


def render(
    known: Sequence[Memory], earlier: Sequence[Turn], turns: Sequence[Turn], *, most: int
) -> Prompt[ExtractionReply]:
    """Ask for the memories of one round.

    Args:
        known: Existing memories most similar to the round (D-Mem: 10).
        earlier: The messages before it (D-Mem: 8); they can be cited.
        turns: The round, a pair of messages as a rule.
        most: Most memories to return.
    """
    first = len(earlier) + 1
    parts = []
    if known:
        parts.append(fence("known", [memory_line(memory, "-") for memory in known]))
    if earlier:
        parts.append(fence("earlier", turn_lines(earlier, first=1)))
    parts.append(fence("conversation", turn_lines(turns, first=first)))
    parts.append("Write the memories of this conversation as JSON.")
    return Prompt(
        step="extract",
        messages=chat(f"{SYSTEM}\n{_KNOWN}", "\n\n".join(parts), example=EXAMPLE),
        output=ExtractionReply,
        schema=reply_schema(shown=len(earlier) + len(turns), most=min(most, 2 * len(turns))),
    )
