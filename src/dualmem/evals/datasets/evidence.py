"""Read evidence ids, with the defects that LoCoMo's and REALTALK's are known for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

_DIALOGUE_ID = re.compile(r"(?<!\d)(?:D\s*:?\s*)?(\d{1,4})\s*:\s*(\d{1,5})(?!\d)", re.IGNORECASE)

REPAIRED = "evidence id repaired"
MALFORMED = "malformed evidence id"
NOWHERE = "evidence id points nowhere"
NONE_GIVEN = "question without evidence"


def dialogue_ids(values: Collection[object], known: Collection[str], skipped: Counter[str]) -> tuple[str, ...]:
    """Return the ids of the turns that `values` name, each once and in their order.

    Several ids in one string ("D8:6; D9:17"), blanks ("D 2:18"), a point after them, a lost letter ("23:29"), a
    colon too many ("D:11:26") and leading zeros ("D30:05") are repaired. What names no turn at all ("D", ""), and
    ids of turns that are not there, are left out. All of it is counted in `skipped`.

    Args:
        values: The entries of a question's `evidence`.
        known: The ids of the conversation's turns.
        skipped: Counts by reason, added to.
    """
    if not values:
        skipped[NONE_GIVEN] += 1
    found: dict[str, None] = {}
    for value in values:
        text = str(value)
        ids = [f"D{int(session)}:{int(turn)}" for session, turn in _DIALOGUE_ID.findall(text)]
        if not ids:
            skipped[MALFORMED] += 1
        elif ids != [text]:
            skipped[REPAIRED] += 1
        for each in ids:
            if each in known:
                found[each] = None
            else:
                skipped[NOWHERE] += 1
    return tuple(found)
