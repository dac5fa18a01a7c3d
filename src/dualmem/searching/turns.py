"""Rank raw turns by a question, alone and as what memories come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dualmem.context import Context
from dualmem.records import Scope, Turn
from dualmem.records.turn import Role
from dualmem.retrieval.fusion import Ranked, fuse
from dualmem.retrieval.text import sparse_query, tokens
from dualmem.stores.backend import Payload, Ranking, Sparse
from dualmem.stores.payload import turn_from, turns_in

RANKED: Final = 100
"""Turns taken from each ranking; only ids and scores are read."""

NAMED: Final = 2.0
"""How much more a turn counts that the one person said whom the question names."""

_WORD: Final = re.compile(r"\w+")

_FIRST_PERSON: Final = frozenset({"i", "my", "me", "mine"})


@dataclass(frozen=True)
class ScoredTurns:
    """The turns that rankings found."""

    ids: tuple[str, ...]
    """The best ones, best first."""
    scores: Mapping[str, float]
    """By id; those of turns beyond the best too."""
    payloads: Mapping[str, Payload]
    """What was read of them, by id."""

    def turn(self, turn_id: str) -> Turn:
        """Return one of `payloads` as a record; most of them are shown by their memories, and need none."""
        return turn_from(turn_id, self.payloads[turn_id])


async def score_turns(
    context: Context,
    user_id: str,
    question: str,
    vector: Sequence[float] | None,
    *,
    most: int,
    scope: Scope | None = None,
) -> ScoredTurns:
    """Rank the turns of a user by meaning and by words, and read the best `most`.

    Both see a turn in its place: its vector holds the end of the turn before, its words those around it. What the
    one person says whom the question names, or the user where it speaks of "my", counts more: a question about
    somebody is answered by their own words as a rule.

    Raises:
        StoreError: The store cannot be read.
    """
    where = turns_in(user_id, scope)
    words = sparse_query(tokens(question))
    asked: list[tuple[str, Sequence[float] | Sparse]] = [("semantic", vector)] if vector is not None else []
    if words.indices:
        asked.append(("lexical", words))
    rankings = [Ranking(f"turns.{name}", RANKED, where, name, sought) for name, sought in asked]
    rows = await context.store.score_turns(rankings)
    shares = fuse(
        [
            Ranked(ranking.name, row, dense=ranking.using == "semantic")
            for ranking, row in zip(rankings, rows, strict=True)
        ],
        fusion=context.settings.fusion,
        k=context.settings.rrf_k,
        weights=context.settings.weights,
    )
    scores = {key: sum(share.values()) for key, share in shares.items()}
    # Some more than are wanted: who said it may lift one.
    first = sorted(scores, key=lambda key: (-scores[key], key))[: 2 * most]
    payloads = await context.store.turn_payloads(user_id, first)
    favoured = _favoured(question, {row["speaker"]: row["role"] for row in payloads.values()})
    if favoured:
        for turn_id, row in payloads.items():
            if row["speaker"] in favoured:
                scores[turn_id] *= NAMED
    ordered = sorted(payloads, key=lambda turn_id: (-scores[turn_id], turn_id))
    return ScoredTurns(tuple(ordered[:most]), scores, payloads)


async def rank_turns(context: Context, user_id: str, question: str, *, scope: Scope | None = None) -> list[Turn]:
    """Return the raw turns that help most with a question, best first.

    Raises:
        ModelUnavailable: The embedding model failed.
        StoreError: The store cannot be read.
    """
    vector = await context.embedder.query(question)
    found = await score_turns(context, user_id, question, vector, most=RANKED, scope=scope)
    return [found.turn(turn_id) for turn_id in found.ids]


def _favoured(question: str, roles: Mapping[str, Role]) -> set[str]:
    """Return the speaker whom the question names, or the user's own names where it speaks in the first person."""
    words = set(_WORD.findall(question.casefold()))
    named = {name for name in roles if words & set(_WORD.findall(name.casefold()))}
    if len(named) == 1:
        return named
    if not named and words & _FIRST_PERSON:
        return {name for name, role in roles.items() if role == "user"}
    return set()
