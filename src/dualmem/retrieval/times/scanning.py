"""Scan a text for time expressions; other languages are read as the English phrase that says the same."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import zip_longest

from dualmem.records.memory import Interval
from dualmem.retrieval.pattern_index import PatternIndex
from dualmem.retrieval.times import patterns, periods, rules, vocabulary


@dataclass(frozen=True, slots=True)
class Found:
    """A time expression inside a text."""

    phrase: str
    start_index: int
    end_index: int
    interval: Interval


# Other languages: each pattern says the same as an English phrase.


def _said(template: str) -> rules.Rule:
    """Return a rule that reads a phrase as its English translation."""

    def rule(match: re.Match[str], clock: periods.Clock) -> Interval:
        words = {name: _english(name, word) for name, word in match.groupdict().items() if word}
        interval = read_whole(template.format_map(words), clock, translated=True)
        if interval is None:
            raise ValueError("the translation says no time")
        return interval

    return rule


def _english(name: str, word: str) -> str:
    if name == "weekday" and word in patterns.CJK_WEEKDAYS:
        return patterns.CJK_WEEKDAYS[word]
    if name == "month" and word.isdecimal() and 1 <= int(word) <= vocabulary.TWELVE:
        return vocabulary.MONTH_LINES[int(word) - 1][0]
    return patterns.TRANSLATIONS.get(word.rpartition(" ")[2], word)


def _hier(match: re.Match[str], clock: periods.Clock) -> Interval:
    """Read French "hier"; in German it means "here"."""
    if patterns.GERMAN.search(match.string):
        raise ValueError("the text is German")
    return periods.period("day", clock.today - timedelta(days=1))


@dataclass(frozen=True, slots=True)
class _Candidate:
    match: re.Match[str]
    rule: rules.Rule
    loose: bool
    """Needs company to be a time: "2023" and "May" are more often something else."""

    @property
    def start(self) -> int:
        return self.match.start()

    @property
    def end(self) -> int:
        return self.match.end()

    def read(self, clock: periods.Clock) -> Interval | None:
        """Return what it means, None for a time that does not exist or that needs an anchor."""
        try:
            return self.rule(self.match, clock)
        except (ValueError, OverflowError):
            return None


_Expression = tuple[re.Pattern[str], rules.Rule, re.Pattern[str] | None]
"""A pattern, how it is read, and what must stand before it."""


@dataclass(frozen=True, slots=True)
class _Grammar:
    english: tuple[_Expression, ...]
    spaced: PatternIndex[_Expression]
    """Those of English, and those of other languages that write blanks."""
    unspaced: tuple[_Expression, ...]
    """Each needs a letter that is not in ASCII."""
    modifiers: tuple[tuple[re.Pattern[str], rules.Modifier], ...]
    part_behind: re.Pattern[str]
    hour_behind: re.Pattern[str]
    between: re.Pattern[str]
    joint: re.Pattern[str]
    forward: re.Pattern[str]
    fillers: re.Pattern[str]


@cache
def _grammar() -> _Grammar:
    """Compile the patterns, on first use."""
    spaced = [(patterns.regex(pattern), _said(template), None) for pattern, template in patterns.SPACED]
    english = tuple(
        (patterns.regex(one), rule, patterns.regex(lead, ends=True) if lead else None)
        for one, rule, lead in patterns.ENGLISH
    )
    others = (*spaced, (patterns.regex("hier"), _hier, None))
    return _Grammar(
        english=english,
        spaced=PatternIndex((expression[0], expression) for expression in (*english, *others)),
        unspaced=tuple(
            (re.compile(rf"(?<!\d){pattern}"), _said(template), None) for pattern, template in patterns.SCRIPTS
        ),
        modifiers=tuple((patterns.regex(pattern, ends=True), modifier) for pattern, modifier in patterns.MODIFIERS),
        part_behind=patterns.regex(" <part>", starts=True),
        hour_behind=patterns.regex(patterns.HOUR_BEHIND, starts=True),
        between=patterns.regex(patterns.BETWEEN, ends=True),
        joint=patterns.regex(patterns.JOINT, starts=True, ends=True),
        forward=patterns.regex(patterns.FORWARD, ends=True),
        fillers=patterns.regex(patterns.FILLERS, starts=True, ends=True),
    )


def prepare() -> None:
    """Get ready for many texts."""
    _grammar().spaced.prepare()


def _lower(text: str) -> str:
    """Return the text in lower case with every character in its place."""
    lowered = text.lower().translate(patterns.WIDE_DIGITS)
    if len(lowered) == len(text):
        return lowered
    return "".join(one.lower() if len(one.lower()) == 1 else one for one in text).translate(patterns.WIDE_DIGITS)


def _candidates(text: str, lowered: str, *, whole: bool, translated: bool) -> list[_Candidate]:
    """Return the matches of all rules, first and longest first; a translation is not translated again."""
    found: list[_Candidate] = []
    grammar = _grammar()
    known = list(grammar.english if translated else grammar.spaced.fitting(lowered))
    if not (translated or lowered.isascii()):
        known += grammar.unspaced
    for pattern, rule, lead in known:
        for match in pattern.finditer(lowered):
            loose = not (
                whole or lead is None or lead.search(lowered, max(0, match.start() - patterns.REACH), match.start())
            )
            if loose and rule is rules.dated:  # "march 15" may be a walk, "March 15" is a day
                loose = match["month"] in vocabulary.VERBS and text[match.start("month")].islower()
            found.append(_Candidate(match, rule, loose))
    return sorted(found, key=lambda one: (one.start, -one.end))


def _joined(lowered: str, first: _Candidate, second: _Candidate) -> bool:
    """Tell whether two times are the ends of one range; "and" needs "between" before it."""
    joint = _grammar().joint.match(lowered, first.end, second.start)
    if joint is None:
        return False
    if (
        joint["word"] in patterns.DASHES and joint[0] != joint["word"]
    ):  # "last week - yesterday I" is no range, "May 3 - June 5" is
        return bool(patterns.DIGIT.search(first.match[0]) and patterns.DIGIT.search(second.match[0]))
    opened = _grammar().between.search(lowered, max(0, first.start - patterns.REACH), first.start)
    return bool(opened) or joint["word"] not in {"and", "und", "et", "y", "a"}


def _chosen(text: str, lowered: str, *, whole: bool, translated: bool) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    for candidate in _candidates(text, lowered, whole=whole, translated=translated):
        if chosen and candidate.start < chosen[-1].end:
            continue
        if candidate.loose and not (chosen and _joined(lowered, chosen[-1], candidate)):
            continue
        chosen.append(candidate)
    return chosen


def _range(first: _Candidate, second: _Candidate, clock: periods.Clock) -> Interval | None:
    """Read both ends; one without a year takes it from the other."""
    last = second.read(periods.Clock(None, day_first=clock.day_first))
    begin = first.read(clock.on(last.start.date()) if last and last.start else clock)
    if begin is None or begin.start is None:
        return None
    last = last or second.read(clock)
    if last is None or last.end is None or last.end < begin.start:
        last = second.read(clock.on(begin.start.date(), "future"))
    try:
        return periods.join(begin, last) if last else None
    except ValueError:
        return None


def scan(text: str, clock: periods.Clock, *, whole: bool = False, translated: bool = False) -> list[Found]:
    lowered, grammar = _lower(text), _grammar()
    chosen = _chosen(text, lowered, whole=whole, translated=translated)
    found: list[Found] = []
    taken = 0
    for here, following in zip_longest(chosen, chosen[1:]):
        if here.start < taken:
            continue
        floor = max(0, here.start - patterns.REACH)
        interval, start, end = None, here.start, here.end
        if following and _joined(lowered, here, following):
            interval = _range(here, following, clock)
            if interval:
                end = following.end
                opened = grammar.between.search(lowered, floor, start)
                start = opened.start() if opened else start
        if interval is None:
            forward = grammar.forward.search(lowered, floor, start)
            interval = here.read(clock.leaning("future") if forward else clock)
        if interval is None:
            continue
        interval, start, end = _modified(lowered, start, end, interval, clock)
        while found and found[-1].end_index > start:  # a modifier took it in: "the Sunday before 25 May"
            found.pop()
        found.append(Found(text[start:end], start, end, interval))
        taken = end
    return found


def _modified(
    lowered: str, start: int, end: int, interval: Interval, clock: periods.Clock
) -> tuple[Interval, int, int]:
    """Apply what stands behind a time and before it."""
    grammar = _grammar()
    part = grammar.part_behind.match(lowered, end)
    end = part.end() if part else end
    hour = grammar.hour_behind.match(lowered, end)
    if hour:
        with suppress(ValueError, OverflowError):
            interval, end = rules.at_hour(hour, interval, clock), hour.end()
    for _ in range(patterns.LONGEST_CHAIN):
        for pattern, modifier in grammar.modifiers:
            match = pattern.search(lowered, max(0, start - patterns.REACH), start)
            if match is None:
                continue
            try:
                interval, start = modifier(match, interval, clock), match.start()
            except (ValueError, OverflowError):
                continue
            break
        else:
            break
    return interval, start, end


def read_whole(phrase: str, clock: periods.Clock, *, translated: bool = False) -> Interval | None:
    found = scan(phrase, clock, whole=True, translated=translated)
    if len(found) != 1 or any(character.isalnum() for character in phrase[found[0].end_index :]):
        return None
    return found[0].interval if _grammar().fillers.match(_lower(phrase), 0, found[0].start_index) else None
