"""Extract atomic memories with few fields, for small models.

A model of one or two billion parameters spends its attention on each field it must fill. Here it writes only what
code cannot find: the statement, its kind and what it is about. The quote, the words of time in it, the entities and
whether it is a standing wish are found by code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dualmem.chat import Prompt
from dualmem.prompting import DATA_RULE, chat, fence, list_of, one_of, schema_of, text_field, turn_lines
from dualmem.prompts.extraction import KINDS, ExtractionReply
from dualmem.records import Turn
from dualmem.retrieval.text import tokens as words

LEAST_WORDS: Final = 4
"""Words that carry meaning; fewer are a greeting or a comment."""

_SENTENCE = re.compile(r"[^.!?。！？؟\n]+[.!?。！？؟]*")

SYSTEM: Final = f"""You note down lasting facts about people from a conversation.

Go through the turns. Where a speaker tells something about their own life (home, work, family, plans, likes, things \
that happened), write one memory. Skip every turn that only asks, greets, thanks, comments or suggests.
- turns: the number of the turn.
- text: what the turn says, as one statement in the third person with the speaker's name instead of "I". Keep every \
name, number, amount, place and reason. Keep the language.
- kind: fact, preference, plan, correction, decision, event or state (state: home, job and the like, true until it \
changes).
- subject: whom it is about. attribute: what about them, one or two words (home, job, pet).
{DATA_RULE}"""

EXAMPLE: Final = (
    """<conversation>
-- 3 March 2024, 10:15 --
[1] Priya: Morning! I left the bank last week, I'm a pastry cook at Lune now, near the harbour.
[2] Tom: Congratulations! You should visit the night market. How is your family?
[3] Priya: Good, thanks for asking.
[4] Priya: My brother Dev comes to stay for nine days in May. And please always call me Pri.
[5] Tom: Nice! Does he still play chess?
</conversation>

Write the memories of this conversation as JSON.""",
    '{"memories": [{"turns": [1], "text": "Priya left the bank and is a pastry cook at Lune, near the harbour, now.", '
    '"kind": "state", "subject": "Priya", "attribute": "job"}, '
    '{"turns": [4], "text": "Priya\'s brother Dev comes to stay for nine days.", "kind": "plan", "subject": "Dev", '
    '"attribute": "visit"}, '
    '{"turns": [4], "text": "Priya wants to be called Pri.", "kind": "preference", "subject": "Priya", '
    '"attribute": "nickname"}]}',
)


def render(earlier: Sequence[Turn], turns: Sequence[Turn], *, most: int) -> Prompt[ExtractionReply]:
    """Ask for the memories of `turns`.

    Args:
        earlier: The turns just before, shown for what "it" and "there" mean; they cannot be cited.
        turns: The window's own turns, in order.
        most: Most memories to return.
    """
    first = len(earlier) + 1
    telling = [first + offset for offset, turn in enumerate(turns) if tells_something(turn)]
    parts = []
    if earlier:
        parts.append(fence("earlier", turn_lines(earlier, first=1)))
    parts.append(fence("conversation", turn_lines(turns, first=first)))
    parts.append("Write the memories of this conversation as JSON.")
    item = schema_of(
        {
            "turns": list_of(one_of(telling or [first]), 1, least=1),
            "text": text_field(200),
            "kind": one_of(KINDS),
            "subject": text_field(40),
            "attribute": text_field(30),
        }
    )
    return Prompt(
        step="extract",
        messages=chat(SYSTEM, "\n\n".join(parts), example=EXAMPLE),
        output=ExtractionReply,
        schema=schema_of({"memories": list_of(item, min(most, len(telling) + 1) if telling else 0)}),
    )


def tells_something(turn: Turn) -> bool:
    """Whether a turn can be cited: a person's, with some words left when its questions are taken out.

    A small model makes a memory of every turn that it may cite, of questions ("Ben asks about ...") and of what an
    assistant suggested.
    """
    told = [part for part in _SENTENCE.findall(turn.text) if not part.rstrip().endswith(("?", "？", "؟"))]
    return turn.role == "user" and len(words(" ".join(told))) >= LEAST_WORDS
