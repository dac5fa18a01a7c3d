"""Divide the raw history into chunks, and put them into waves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dualmem.ingestion.windows import clip, split_turn
from dualmem.records import Turn
from dualmem.retrieval.text import count_tokens
from dualmem.state import Chunk

_ALL_OF_IT = re.compile(
    r"\b(how (many|much|often)|number of|count|total|sum|in all|altogether|list|all|every|each|ever|never|always|"
    r"summar\w*|overview|order|sequence|timeline|first|last|most|least|balance|owe[sd]?|"
    r"wie (viele?|oft)|insgesamt|alle|jemals|nie|zusammenfass\w*|combien|tous|toutes|jamais|résum\w*|"
    r"cu[aá]nt[oa]s?|todos|todas|nunca|resum\w*)\b|多少|几|所有|全部|从来|总",
    re.IGNORECASE,
)


def needs_everything(question: str) -> bool:
    """Whether a question can only be answered when the whole history was read: counts, sums, lists, orderings."""
    return _ALL_OF_IT.search(question) is not None


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


def plan_waves(
    chunks: Sequence[Chunk], ranked: Sequence[Turn], evidence: Iterable[str], *, size: int
) -> list[list[Chunk]]:
    """Return the chunks in waves of `size`, those most likely to help first.

    A chunk counts the ranks of its turns in a search for the question, and the turns whose evidence was seen
    before: what is missing is often next to it.

    Args:
        chunks: All of them.
        ranked: Turns found by a search for the question, best first.
        evidence: Ids of the turns behind the evidence of the fast answer.
        size: Chunks in a wave.
    """
    home = {turn.id: chunk.number for chunk in chunks for turn in chunk.turns}
    scores: Counter[int] = Counter()
    weights: dict[int, float] = {}
    for rank, turn in enumerate(ranked, start=1):
        if turn.id in home:
            weights[home[turn.id]] = weights.get(home[turn.id], 0.0) + 1.0 / (10 + rank)
    for turn_id in evidence:
        if turn_id in home:
            scores[home[turn_id]] += 1
    most = max(scores.values(), default=1)

    def key(chunk: Chunk) -> tuple[float, int]:
        return -(weights.get(chunk.number, 0.0) + 0.1 * scores[chunk.number] / most), chunk.number

    ordered = sorted(chunks, key=key)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def halves(chunk: Chunk) -> tuple[Chunk, Chunk] | None:
    """Return the two halves of a chunk whose reply was cut off; None when it is a single turn."""
    middle = len(chunk.turns) // 2
    if not middle:
        return None
    context = (*chunk.earlier, *chunk.turns[:middle])[-max(1, len(chunk.earlier)) :]
    return Chunk(chunk.number, chunk.turns[:middle], chunk.earlier), Chunk(chunk.number, chunk.turns[middle:], context)
