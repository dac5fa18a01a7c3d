"""The ledger: facts of all chunks in order of time, duplicates joined, and what can be computed from them.

A model proposes typed records; everything that is arithmetic is done here, exactly, and handed to the answer as
facts. Nothing here calls a model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Final

from dualmem.deliberation.accounts import account_lines
from dualmem.records import Fact, Interval, LedgerRecord
from dualmem.retrieval.text import similarity, tokens
from dualmem.retrieval.times import between, describe

_NEVER = datetime.max.replace(tzinfo=UTC)

SAME_FACT = 0.8
"""Token overlap from which two facts count as one."""

MOST_DATED: Final = 5
"""Dated facts that are compared in pairs; with more, each is compared with the next."""

MOST_LINES: Final = 40
"""Computed statements that go into a prompt."""


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """Return `facts` from earlier to later, each once; a duplicate's turns go to the one that is kept.

    Facts that carry records are one only where they come from the same turns: two lunches at one price are two.
    """
    kept: list[Fact] = []
    for fact in sorted(facts, key=lambda item: -item.score):
        for place, other in enumerate(kept):
            if _same(fact, other):
                turns = tuple(dict.fromkeys((*other.turn_ids, *fact.turn_ids)))
                kept[place] = other.model_copy(update={"turn_ids": turns})
                break
        else:
            kept.append(fact)
    dated = sorted((fact for fact in kept if fact.when is not None), key=lambda fact: fact.when or _NEVER)
    return [*dated, *(fact for fact in kept if fact.when is None)]


def _same(left: Fact, right: Fact) -> bool:
    if left.record is not None or right.record is not None:
        if not set(left.turn_ids) & set(right.turn_ids) or left.record is None or right.record is None:
            return False
        same_item = ("kind", "who", "what", "others", "amount", "unit", "value", "each")
        return all(getattr(left.record, name) == getattr(right.record, name) for name in same_item)
    return similarity(left.text, right.text) >= SAME_FACT


def compute(facts: Sequence[Fact], *, asked_at: datetime | None = None, intervals: bool = False) -> list[str]:
    """Return what follows from `facts` by counting, adding up and comparing dates.

    Args:
        facts: In the order of the ledger.
        asked_at: When it is asked; ages and "how long ago" count to here.
        intervals: Also compare the dates of facts that carry no record.
    """
    recorded = [(fact, fact.record) for fact in facts if fact.record is not None]
    records = [record for _, record in recorded]
    lines = [
        *account_lines(records),
        *_counts(recorded),
        *_opinions(records),
        *_first_mentions(recorded),
        *_ages(recorded, asked_at),
        *conflicts(records),
    ]
    if intervals or recorded:
        lines += _intervals(facts, asked_at)
    return list(dict.fromkeys(lines))[:MOST_LINES]


# Counts


def _key(text: str) -> frozenset[str]:
    return frozenset(tokens(text)) or frozenset({text.casefold().strip()})


def _groups(records: Iterable[tuple[Fact, LedgerRecord]]) -> dict[frozenset[str], list[tuple[Fact, LedgerRecord]]]:
    groups: dict[frozenset[str], list[tuple[Fact, LedgerRecord]]] = defaultdict(list)
    for fact, record in records:
        if record.what.strip():
            groups[_key(record.what)].append((fact, record))
    return groups


def _counts(recorded: Sequence[tuple[Fact, LedgerRecord]]) -> list[str]:
    """Count distinct events: those of one kind with another day, another person or other turns."""
    lines = []
    events = [(fact, record) for fact, record in recorded if record.kind == "event"]
    for group in _groups(events).values():
        distinct: dict[tuple[str, str], tuple[Fact, LedgerRecord]] = {}
        for fact, record in group:
            day = describe(record.when) if record.when is not None else ",".join(fact.turn_ids)
            distinct.setdefault((record.who.casefold(), day), (fact, record))
        days = [describe(record.when) for _, record in distinct.values() if record.when is not None]
        dated = f" ({', '.join(days)})" if days else ""
        lines.append(f"{group[0][1].what}: {len(distinct)} distinct{dated}")
        by_person: dict[str, int] = defaultdict(int)
        for _, record in distinct.values():
            if record.who:
                by_person[record.who] += 1
        if len(by_person) > 1:
            lines.append(f"{group[0][1].what}, by person: {_listed(by_person)}")
    if len(events) > 1 and len(lines) > 1:
        lines.append(f"different kinds of events: {len(_groups(events))}")
    return lines


def _opinions(records: Sequence[LedgerRecord]) -> list[str]:
    """Count sides by what they are about, with the share of each."""
    sides: dict[frozenset[str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    names: dict[frozenset[str], str] = {}
    for record in records:
        if record.kind == "opinion" and record.what and record.value:
            names.setdefault(_key(record.what), record.what)
            sides[_key(record.what)][record.value.casefold()] += 1
    lines = []
    for key, counts in sides.items():
        total = sum(counts.values())
        shares = (f"{count} {side} ({_percent(count, total)})" for side, count in sorted(counts.items()))
        lines.append(f"opinions of {names[key]}: {total}, of these {', '.join(shares)}")
    return lines


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}".removesuffix(".0") + "%"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _first_mentions(recorded: Sequence[tuple[Fact, LedgerRecord]]) -> list[str]:
    """Give the order in which things were first spoken of; payments and amounts have no use for it."""
    things = [pair for pair in recorded if pair[1].kind in {"event", "opinion"}]
    groups = _groups(things)
    if len(groups) < len(("first", "second")):
        return []
    order = sorted(groups.values(), key=lambda group: min(fact.when or _NEVER for fact, _ in group))
    return [f"order of first mention: {', then '.join(group[0][1].what for group in order[:12])}"]


# Time


def _ages(recorded: Sequence[tuple[Fact, LedgerRecord]], asked_at: datetime | None) -> list[str]:
    """Say how old people are, from their birth or from an age that was told on a day."""
    lines = []
    asked = Interval(start=asked_at, end=asked_at, precision="day") if asked_at else None
    for fact, record in recorded:
        if record.kind == "birth" and record.when is not None:
            for what, when in ((f"on {describe(asked)}", asked) if asked else ("", None), *_happenings(recorded)):
                if when is not None and (age := _age(record.when, when)):
                    lines.append(f"age of {record.who} {what}: {age}")
        if record.kind == "age" and record.amount is not None and fact.when is not None and asked is not None:
            told = Interval(start=fact.when, end=fact.when, precision="day")
            passed = between(told, asked)
            if passed is not None and passed.order != "after":
                least = int(record.amount) + passed.years
                later = f"{least} or {least + 1}" if passed.days else str(least)
                lines.append(
                    f"{record.who} was {int(record.amount)} when it was told ({describe(told)}), so {later} years old "
                    f"on {describe(asked)}"
                )
    return lines


def _happenings(recorded: Sequence[tuple[Fact, LedgerRecord]]) -> list[tuple[str, Interval]]:
    return [
        (f"at {record.what} ({describe(record.when)})", record.when)
        for _, record in recorded
        if record.kind == "event" and record.when is not None
    ][:MOST_DATED]


def _age(born: Interval, when: Interval) -> str:
    passed = between(born, when)
    if passed is None or passed.order == "after":
        return ""
    if passed.exact:
        return f"{passed.years} years"
    least, most = passed.least_days // 366, int(passed.most_days / 365.25)
    return f"{least} years" if least == most else f"{least} to {most} years"


def _dated(facts: Sequence[Fact]) -> list[tuple[str, Interval]]:
    dated = []
    for fact in facts:
        when = fact.record.when if fact.record is not None and fact.record.when is not None else fact.valid
        payment = fact.record is not None and fact.record.kind in {"payment", "refund", "transfer", "debt", "amount"}
        if when is not None and when.start is not None and when.end is not None and not payment:
            what = fact.record.what if fact.record is not None and fact.record.what else fact.text.rstrip(".")
            dated.append((what, when))
    return dated


def _intervals(facts: Sequence[Fact], asked_at: datetime | None) -> list[str]:
    """Say how much time lies between dated things, and between them and the question."""
    dated = sorted(_dated(facts), key=lambda item: item[1].start or _NEVER)
    pairs = combinations(dated, 2) if len(dated) <= MOST_DATED else pairwise(dated)
    lines = []
    for (first, start), (second, end) in pairs:
        if (passed := time_between(start, end)) and start != end:
            lines.append(f'from "{first}" ({describe(start)}) to "{second}" ({describe(end)}): {passed}')
    if asked_at is not None:
        asked = Interval(start=asked_at, end=asked_at, precision="day")
        for what, when in dated[:MOST_DATED]:
            passed = time_between(when, asked)
            difference = between(when, asked)
            if passed and difference is not None and difference.order == "before":
                lines.append(f'from "{what}" ({describe(when)}) to the day of the question: {passed}')
    return lines


def time_between(first: Interval, second: Interval) -> str:
    """Return the time between two intervals in every unit it fills, "" where it cannot be told.

    Where one of them is longer than a day, the least and the most are given.
    """
    passed = between(first, second)
    if passed is None:
        return ""
    if not passed.exact:
        return f"{passed.least_days} to {passed.most_days} days"
    units = [(passed.days, "day"), (passed.weeks, "week"), (passed.months, "month"), (passed.years, "year")]
    parts = [f"{count} {unit}{'s' if count != 1 else ''}" for count, unit in units if count or unit == "day"]
    return " = ".join([parts[0], *(f"{part} (whole)" for part in parts[1:])])


# Conflicts


def conflicts(records: Sequence[LedgerRecord]) -> list[str]:
    """Name what was told in two ways: another amount on the same day, or another day of birth."""
    told: dict[tuple[str, frozenset[str], str], dict[str, None]] = defaultdict(dict)
    names: dict[tuple[str, frozenset[str], str], str] = {}
    for record in records:
        if record.when is None:
            continue
        who = record.who.casefold()
        if record.kind == "birth":
            key, name, value = (who, frozenset[str](), ""), f"birth of {record.who}", describe(record.when)
        elif record.kind in {"amount", "age"} and record.amount is not None:
            day = describe(record.when)
            key, value = (who, _key(record.what), day), f"{record.amount:f} {record.unit}".strip()
            name = f"{record.what or record.kind} of {record.who} ({day})"
        else:
            continue
        names.setdefault(key, name)
        told[key].setdefault(value)
    return [f"conflict: {names[key]} was told as {' and as '.join(v)}" for key, v in told.items() if len(v) > 1]
