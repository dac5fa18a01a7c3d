"""Select the facts that are strictly necessary to answer (D-Mem, full deliberation, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import BaseModel

from dualmem.chat import Prompt
from dualmem.prompting import DATA_RULE, chat, describe_instant, fence, list_of, one_of, schema_of
from dualmem.prompts.evidence import question_part
from dualmem.records import Fact

SYSTEM: Final = f"""You select, from numbered facts, those that are strictly necessary to answer a question.
- keep: their numbers. Of facts that say nearly the same, keep one. Keep every item where the question asks for \
several, and both sides where facts disagree.
{DATA_RULE}"""


class FactFilterReply(BaseModel):
    """The numbers to keep, from 1."""

    keep: list[int]


def render(facts: Sequence[Fact], question: str, *, asked_at: datetime | None = None) -> Prompt[FactFilterReply]:
    """Ask which of `facts` are needed."""
    lines = []
    for number, fact in enumerate(facts, start=1):
        said = f" (said: {describe_instant(fact.when, day_only=True)})" if fact.when else ""
        lines.append(f"[{number}] {fact.text}{said}")
    user = f"{fence('facts', lines)}\n\nSelect, as JSON.\n\n{question_part(question, asked_at)}"
    numbers = list(range(1, len(facts) + 1))
    return Prompt(
        step="deliberate.filter",
        messages=chat(SYSTEM, user),
        output=FactFilterReply,
        schema=schema_of({"keep": list_of(one_of(numbers), len(facts))}),
    )
