"""Divide the raw history into chunks, and put them into waves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dualmem.ingestion.windows import clip, split_turn
from dualmem.records import Turn
from dualmem.retrieval.text import count_tokens
from dualmem.state import Chunk


def cut_chunks(turns: Sequence[Turn], *, most_turns: int, most_tokens: int, overlap: int) -> list[Chunk]:
    """Return chunks of whole conversations (D-Mem, full deliberation, step 1: 60 turns, 4 before).

    Args:
        turns: Conversation by conversation, in order.
        most_turns: Bound on a chunk, in turns.
        most_tokens: Bound on a chunk, in tokens; a longer turn is divided.
        overlap: Turns before a chunk that are its context.
    """
    chunks: list[Chunk] = []
    shown = [turn for turn in turns if turn.state != "skipped"]
    for _, group in groupby(shown, key=lambda turn: turn.conversation_id):
        conversation = list(group)
        places = {turn.id: place for place, turn in enumerate(conversation)}
        for part in _parts(conversation, most_turns, most_tokens):
            start = places[part[0].id]
            earlier = [clip(turn, most_tokens // 16) for turn in conversation[max(0, start - overlap) : start]]
            chunks.append(Chunk(len(chunks), tuple(part), tuple(earlier)))
    return chunks


def _parts(turns: Sequence[Turn], most_turns: int, most_tokens: int) -> Iterator[list[Turn]]:
    part: list[Turn] = []
    used = 0
    for piece in (piece for turn in turns for piece in split_turn(turn, most_tokens)):
        tokens = count_tokens(piece.text)
        if part and (len(part) >= most_turns or used + tokens > most_tokens):
            yield part
            part, used = [], 0
        part.append(piece)
        used += tokens
    if part:
        yield part


NEIGHBOUR = 0.5
"""What a turn beside a turn of evidence counts for its chunk, in shares of that turn."""


def plan_waves(
    chunks: Sequence[Chunk], ranked: Sequence[Turn], evidence: Iterable[str], *, size: int
) -> list[list[Chunk]]:
    """Return the chunks in waves of `size`, those most likely to help first.

    A chunk counts the ranks of its turns in a search for the question, and the turns whose evidence was seen before
    with the turns beside them: what is missing is often next to it.

    Args:
        chunks: All of them.
        ranked: Turns found by a search for the question, best first.
        evidence: Ids of the turns behind the evidence of the fast answer.
        size: Chunks in a wave.
    """
    found: dict[int, float] = {}
    home = _homes(chunks)
    for rank, turn in enumerate(ranked, start=1):
        for number in home.get(turn.id, ()):
            found[number] = found.get(number, 0.0) + 1.0 / (10 + rank)
    near = _nearness(chunks, evidence)
    most = max(near.values(), default=1.0)

    def key(chunk: Chunk) -> tuple[float, int]:
        return -(found.get(chunk.number, 0.0) + 0.1 * near.get(chunk.number, 0.0) / most), chunk.number

    ordered = sorted(chunks, key=key)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _homes(chunks: Sequence[Chunk]) -> dict[str, list[int]]:
    """Return the chunks of each turn; the parts of a long one may be in several."""
    home: dict[str, list[int]] = {}
    for chunk in chunks:
        for turn in chunk.turns:
            home.setdefault(turn.id, []).append(chunk.number)
    return home


def _nearness(chunks: Sequence[Chunk], evidence: Iterable[str]) -> dict[int, float]:
    """Return how many turns of evidence each chunk holds, those just beside its turns at half their weight."""
    places = {(turn.conversation_id, turn.position): chunk.number for chunk in chunks for turn in chunk.turns}
    positions = {turn.id: (turn.conversation_id, turn.position) for chunk in chunks for turn in chunk.turns}
    near: dict[int, float] = {}
    for conversation, position in (positions[turn_id] for turn_id in evidence if turn_id in positions):
        for place, weight in ((position, 1.0), (position - 1, NEIGHBOUR), (position + 1, NEIGHBOUR)):
            number = places.get((conversation, place))
            if number is not None:
                near[number] = near.get(number, 0.0) + weight
    return near


def halves(chunk: Chunk) -> tuple[Chunk, Chunk] | None:
    """Return the two halves of a chunk whose reply was cut off; None when it is a single turn."""
    middle = len(chunk.turns) // 2
    if not middle:
        return None
    context = (*chunk.earlier, *chunk.turns[:middle])[-max(1, len(chunk.earlier)) :]
    return Chunk(chunk.number, chunk.turns[:middle], chunk.earlier), Chunk(chunk.number, chunk.turns[middle:], context)
