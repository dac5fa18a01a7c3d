"""Whether what was really said carries a fact or an answer: a check by words, which no model makes.

Scores of relevance and grades are a model's opinion, and a small model's are noise. Words can be looked up. They prove
nothing by themselves, since a turn may say it in other words; so a lack of them is a reason to look again, not a
verdict.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from dualmem.records import Answer, Fact, PackedContext, Turn
from dualmem.retrieval.text import tokens
from dualmem.retrieval.times import find
from dualmem.state import Chunk

_FRAME_WORDS = (
    "name names time times date day days week month year years age hour moment kind type sort thing things way "
    "number amount person people someone somebody anyone place exactly exact currently now recently usually "
    "many much long often old last first ever never all every each list total say said tell told mention mentioned "
    "talk talked know known think thought call called go goes going went gone get got make made take took taken "
    "come came happen happened give gave given use used find found please answer question remember",
    "der Name von ist heißt Zeit Datum Tag Woche Monat Jahr Art Sache Person Ort genau viel viele lange oft alt "
    "gesagt sagte erzählt erwähnt machen gemacht gehen ging",
    "le nom de est quel heure date jour semaine mois année genre chose personne endroit combien souvent dit faire "
    "fait aller",
    "el nombre de es cuál hora fecha día semana mes año tipo cosa persona lugar cuántos dijo hacer hecho ir",
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SPACED = re.compile(r"^[A-Za-z\u00c0-\u024f\u0370-\u052f\u1e00-\u1fff]+$")
_SAME_LANGUAGE = 0.5
"""Share of a question's words, function words too, that a history must hold to be in its language."""
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)
"""Dates are left out, not counted from; "last Friday" is one from any day."""
_OTHER_WORDS = 0.5
"""Share of an answer's own words that must stand in its source turns."""


@cache
def _frame() -> frozenset[str]:
    """Return the tokens that say which form an answer has ("the name of", "how many days"), or next to nothing.

    On first use: cutting a text into tokens the first time takes longer than importing most of the package.
    """
    return frozenset(token for words in _FRAME_WORDS for token in tokens(words))


@dataclass(frozen=True)
class History:
    """The turns that were there to be read, each with the one before it."""

    turns: Mapping[str, Turn]
    before: Mapping[str, Turn]

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> History:
        """Return the turns of `chunks`; the parts of a long turn are put together."""
        turns: dict[str, Turn] = {}
        before: dict[str, Turn] = {}
        for chunk in sorted(chunks, key=lambda one: one.number):
            previous = chunk.earlier[-1] if chunk.earlier else None
            for turn in chunk.turns:
                known = turns.get(turn.id)
                if known is not None:
                    turns[turn.id] = known.model_copy(update={"text": f"{known.text} {turn.text}"})
                    continue
                turns[turn.id] = turn
                if previous is not None and previous.conversation_id == turn.conversation_id:
                    before[turn.id] = previous
                previous = turn
        return cls(turns, before)

    def sources(self, turn_ids: Iterable[str]) -> list[Turn]:
        """Return the turns of `turn_ids`, each after the one before it: an answer is often only "yes"."""
        found: dict[str, Turn] = {}
        for turn_id in turn_ids:
            turn = self.turns.get(turn_id)
            if turn is None:
                continue
            earlier = self.before.get(turn_id)
            if earlier is not None:
                found.setdefault(earlier.id, self.turns.get(earlier.id, earlier))
            found.setdefault(turn_id, turn)
        return sorted(found.values(), key=lambda turn: (turn.conversation_id, turn.position))

    @property
    def speakers(self) -> frozenset[str]:
        """Everyone who speaks."""
        return frozenset(turn.speaker for turn in self.turns.values())


def telling_words(question: str, speakers: Collection[str]) -> frozenset[str]:
    """Return the words (as stems) that say what a question is about.

    Not among them: who speaks in every turn, dates, and words that only say which form the answer has.
    """
    return _own_words(question, speakers) - _frame()


def _own_words(text: str, speakers: Collection[str]) -> frozenset[str]:
    for found in reversed(find(text, _ANY_DAY)):
        text = f"{text[: found.start_index]} {text[found.end_index :]}"
    names = {token for name in speakers for token in tokens(name)}
    return frozenset(token for token in tokens(text) if not token[0].isdecimal()) - names


def carries(turns: Sequence[Turn], words: Collection[str]) -> bool:
    """Whether any of `turns` holds one of `words`; true where there are none to look for."""
    return not words or any(not set(words).isdisjoint(tokens(turn.text)) for turn in turns)


def is_supported(fact: Fact, question: str, history: History) -> bool:
    """Whether a fact's source turns, or those just before, hold a word that the question is about."""
    return carries(history.sources(fact.turn_ids), telling_words(question, history.speakers))


def doubt(
    answer: Answer,
    facts: Sequence[Fact],
    question: str,
    history: History,
    *,
    threshold: float,
    computed: Sequence[str] = (),
) -> str:
    """Return why a deliberated answer should be graded once more against what was said, "" where nothing is odd.

    Args:
        answer: The answer, with the turns of the facts it cites.
        facts: The facts it cites.
        question: As asked.
        history: What was there to be read.
        threshold: The score that a fact must be above to count by itself.
        computed: What code computed from the facts; an answer may say that, too.
    """
    if not facts:
        return "it cites nothing that was read"
    if all(fact.score <= threshold for fact in facts):
        return "it rests on weak facts alone"
    turns = history.sources(turn_id for fact in facts for turn_id in fact.turn_ids)
    if not carries(turns, telling_words(question, history.speakers)):
        return "its source turns hold no word that the question is about"
    if not _says([*(turn.text for turn in turns), *computed], answer.text, question, history.speakers):
        return "its words are not those of its source turns"
    return ""


def _says(texts: Iterable[str], answer: str, question: str, speakers: Collection[str]) -> bool:
    """Whether `texts` hold most of the words that an answer adds to its question; true where it adds none."""
    own = _own_words(answer, speakers) - _own_words(question, speakers) - _frame()
    said = {token for text in texts for token in tokens(text)}
    return len(own & said) >= _OTHER_WORDS * len(own)


def is_carried(answer: Answer, packed: PackedContext, question: str) -> bool:
    """Whether the memories and turns that a fast answer cites hold a word of its question, and most of its own."""
    cited = {*answer.memory_ids, *answer.turn_ids}
    texts: list[str] = []
    speakers: set[str] = set()
    for unit in packed.units:
        memories = [member.memory for member in unit.members]
        speakers.update(memory.speaker for memory in memories)
        speakers.update(turn.speaker for turn in unit.turns)
        if cited & {*(memory.id for memory in memories), *(turn.id for turn in unit.turns)}:
            texts += [*(memory.text for memory in memories), *(turn.text for turn in unit.turns)]
    words = telling_words(question, speakers)
    held = {token for text in texts for token in tokens(text)}
    return bool(texts) and (not words or bool(words & held)) and _says(texts, answer.text, question, speakers)


def absent_words(question: str, history: History) -> list[str]:
    """Return the words a question is about that stand nowhere in the history, as they are written in it.

    A model sees only what is there; that something is not there can only be counted. Nothing is returned where the
    history is in another language than the question, nor for scripts without blanks.
    """
    spaced = [word for word in _WORD.findall(question) if _SPACED.match(word)]
    if not spaced or not history.turns:
        return []
    held: set[str] = set()
    forms: set[str] = set()
    for turn in history.turns.values():
        held.update(tokens(f"{turn.speaker}: {turn.text}"))
        forms.update(word.casefold() for word in _WORD.findall(turn.text))
    telling = telling_words(question, history.speakers)
    absent = [word for word in dict.fromkeys(spaced) if (found := set(tokens(word)) & telling) and not found & held]
    rest = {word.casefold() for word in spaced} - {word.casefold() for word in absent}
    if len(rest & forms) < _SAME_LANGUAGE * len(rest) or not rest:
        return []
    return absent
