"""Check what a model extracted against the turns it was shown."""

from __future__ import annotations

from collections.abc import Sequence

from dualmem.prompts.extraction import ExtractedMemory
from dualmem.records import Draft, Source, Turn
from dualmem.retrieval.text import find_quote, similarity
from dualmem.retrieval.times import find, resolve

FIRST_PERSON = frozenset({"", "i", "me", "my", "myself", "we", "user", "the user", "speaker", "the speaker"})

UNKNOWN_TURN = "cites a turn that was not shown"
OVERLAP = "comes from turns of an earlier window only"
NO_QUOTE = "its quote is not in its source turns"
EMPTY = "says nothing"

SAME_CLAIM = 0.6
"""Token overlap from which two statements from the same turns count as one."""


def ground(extracted: ExtractedMemory, shown: Sequence[Turn], first_new: int) -> Draft | str:
    """Return the draft, or why it is refused.

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
    quoted = _quoted_in(extracted.quote, [shown[place] for place in places])
    if quoted is None:
        # The right words, the wrong number: take the turn that has them.
        quoted = _quoted_in(extracted.quote, shown[first_new:])
        if quoted is None:
            return NO_QUOTE
        places = [shown.index(quoted[0])]
    witness, quote = quoted
    sources = tuple(Source(turn_id=shown[place].id, quote=quote if shown[place] is witness else "") for place in places)
    subject = extracted.subject.strip()
    if subject.casefold() in FIRST_PERSON:
        subject = witness.speaker
    phrase = extracted.when.strip()
    valid = resolve(phrase, witness.said_at) if phrase else None
    if valid is None:
        # A model often leaves "yesterday" in the quote and `when` empty.
        found = find(quote, witness.said_at)
        valid = found[0].interval if found else None
    return Draft(
        text=text,
        kind=extracted.kind,
        speaker=witness.speaker,
        subject=subject,
        attribute=extracted.attribute.strip(),
        entities=tuple(dict.fromkeys(name.strip() for name in extracted.entities if name.strip())),
        topic=extracted.topic.strip(),
        valid=valid,
        # Only a user's own wish binds later answers.
        standing=extracted.standing and witness.role == "user",
        sources=sources,
        position=min(shown[place].position for place in places),
        said_at=witness.said_at,
    )


def _quoted_in(quote: str, turns: Sequence[Turn]) -> tuple[Turn, str] | None:
    if not quote.strip():
        return None
    for turn in turns:
        span = find_quote(quote, turn.text)
        if span:
            return turn, span
    return None


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
            shared = turns & {source.turn_id for source in other.sources}
            if shared and similarity(draft.text, other.text) >= SAME_CLAIM:
                more = tuple(source for source in draft.sources if source not in other.sources)
                known = {source.turn_id for source in other.sources}
                joined = (*other.sources, *(source for source in more if source.turn_id not in known))
                kept[place] = other.model_copy(update={"sources": joined})
                break
        else:
            kept.append(draft)
    return sorted(kept, key=lambda draft: draft.position), len(drafts) - len(kept)
