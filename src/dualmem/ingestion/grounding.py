"""Check what a model extracted against the turns it was shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dualmem.ingestion.suspicion import is_pasted, suspicion_in
from dualmem.ingestion.suspicion import prepare as prepare_suspicion
from dualmem.prompts.extraction import ExtractedMemory
from dualmem.records import Draft, Interval, Source, Turn
from dualmem.retrieval.text import find_quote, similarity, tokens
from dualmem.retrieval.times import Prefer, find, resolve
from dualmem.retrieval.times import prepare as prepare_times

FIRST_PERSON = frozenset({"", "i", "me", "my", "myself", "we", "user", "the user", "speaker", "the speaker"})

UNKNOWN_TURN = "cites a turn that was not shown"
OVERLAP = "comes from turns of an earlier window only"
NO_QUOTE = "its quote is not in its source turns"
UNSUPPORTED = "its words are not in its source turns"
EMPTY = "says nothing"

SAME_CLAIM = 0.8
"""Token overlap from which two statements from the same turns count as one."""

SUPPORT = 0.5
"""Share of a statement's words that its turn must hold, where the model gave no quote."""

_DIRECTION: Final[dict[str, Prefer]] = {"plan": "future", "event": "past"}
"""Which year a date without one is in."""

_WISH = re.compile(
    r"\b(please|always|never|from now on|call me|don't|do not|bitte|immer|nie|ab jetzt|s'il te plaît|toujours|jamais|"
    r"por favor|siempre|nunca)\b|请|总是|いつも|必ず",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[^\W\d_a-z][^\W\d_]+(?:\s+[^\W\d_a-z][^\W\d_]+)*")


def prepare() -> None:
    """Get ready to check many drafts: the first time in a process that takes as long as checking some hundred."""
    prepare_times()
    prepare_suspicion()


def ground(extracted: ExtractedMemory, shown: Sequence[Turn], first_new: int) -> Draft | str:
    """Return the draft, or why it is refused.

    A quote must stand in a cited turn, or, where the model cited the wrong one, in another of the window's own. Where
    no quote was asked for, the statement's own words must.

    Args:
        extracted: What the model wrote; it cites turns by number, from 1.
        shown: The turns it was shown, in order of their numbers.
        first_new: Place in `shown` of the window's first own turn.
    """
    text = " ".join(extracted.text.split())
    if not text:
        return EMPTY
    places = [number - 1 for number in dict.fromkeys(extracted.turns)]
    if not places or any(not 0 <= place < len(shown) for place in places):
        return UNKNOWN_TURN
    if all(place < first_new for place in places):
        return OVERLAP
    cited, own = [shown[place] for place in places], shown[first_new:]
    if extracted.quote.strip():
        found = _quoted_in(extracted.quote, cited) or _quoted_in(extracted.quote, own)
    else:
        found = supported_by(text, cited, own)
    if found is None:
        return NO_QUOTE if extracted.quote.strip() else UNSUPPORTED
    witness, quote = found
    sources = [Source(turn_id=witness.id, quote=quote)]
    if witness in cited:
        sources += [Source(turn_id=turn.id, quote="") for turn in cited if turn.id != witness.id]
    subject = extracted.subject.strip()
    return Draft(
        text=text,
        kind=extracted.kind,
        speaker=witness.speaker,
        role=witness.role,
        subject=witness.speaker if subject.casefold() in FIRST_PERSON else subject,
        attribute=extracted.attribute.strip(),
        entities=_entities(extracted, text),
        topic=extracted.topic.strip() or extracted.attribute.strip(),
        valid=_time(extracted.when, quote, witness, _DIRECTION.get(extracted.kind, "nearest")),
        standing=_is_standing(extracted, quote, witness),
        suspicion=suspicion_in(text, quote, witness),
        agent_id=witness.agent_id,
        sources=tuple(sources),
        position=witness.position,
        said_at=witness.said_at,
    )


def _quoted_in(quote: str, turns: Sequence[Turn]) -> tuple[Turn, str] | None:
    for turn in turns:
        span = find_quote(quote, turn.text)
        if span:
            return turn, span
    return None


def supported_by(text: str, cited: Sequence[Turn], own: Sequence[Turn]) -> tuple[Turn, str] | None:
    """Return the turn that holds most of a statement's words, cited ones first, and its best sentence."""
    words = set(tokens(text))
    if not words:
        return None

    def support(turn: Turn) -> float:
        held = set(tokens(f"{turn.speaker} {turn.text}"))
        return len(words & held) / len(words)

    best = max([*cited, *own], key=support)
    if support(best) < SUPPORT:
        return None
    sentences = [part for part in _SENTENCE.split(best.text) if part and part.strip()]
    return best, max(sentences, key=lambda part: len(words & set(tokens(part)))).strip()


def _is_standing(extracted: ExtractedMemory, quote: str, witness: Turn) -> bool:
    """Whether a memory is a standing instruction: a user's own, not one in a text that they pasted.

    A small model calls every preference one, so it is not asked; there the words of the wish decide.
    """
    if witness.role != "user" or is_pasted(quote, witness.text):
        return False
    return extracted.standing or (
        not extracted.quote.strip() and extracted.kind == "preference" and _WISH.search(quote) is not None
    )


def _time(phrase: str, quote: str, witness: Turn, prefer: Prefer) -> Interval | None:
    """Return when it holds, from words of time that the turn really has.

    A model often leaves "yesterday" in the quote and the field empty, and sometimes fills the field by itself.
    """
    phrase = phrase.strip()
    if phrase and find_quote(phrase, witness.text):
        resolved = resolve(phrase, witness.said_at, prefer=prefer)
        if resolved is not None:
            return resolved
    found = find(quote, witness.said_at, prefer=prefer)
    return found[0].interval if found else None


def _entities(extracted: ExtractedMemory, text: str) -> tuple[str, ...]:
    """Return the entities the model named, else the capitalised names inside the statement."""
    named = [name.strip() for name in extracted.entities if name.strip()]
    return tuple(dict.fromkeys(named or _NAME.findall(text)))


def join_repeats(drafts: Sequence[Draft]) -> tuple[list[Draft], int]:
    """Make one of drafts that say the same from the same turns, with joined provenance.

    Drafts from different turns stay apart, for a merge link (MemoryLACE, stage I, step 1).

    Returns:
        The drafts in time order, and how many were joined into others.
    """
    kept: list[Draft] = []
    for draft in drafts:
        turns = {source.turn_id for source in draft.sources}
        for place, other in enumerate(kept):
            known = {source.turn_id for source in other.sources}
            if turns & known and similarity(draft.text, other.text) >= SAME_CLAIM:
                more = tuple(source for source in draft.sources if source.turn_id not in known)
                kept[place] = other.model_copy(update={"sources": (*other.sources, *more)})
                break
        else:
            kept.append(draft)
    return sorted(kept, key=lambda draft: draft.position), len(drafts) - len(kept)
