"""Patterns that are only searched for where a text can have them: nothing may be lost by it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.ingestion.suspicion import folded
from dualmem.ingestion.suspicion_languages import LANGUAGE_RULES
from dualmem.ingestion.suspicion_rules import RULES
from dualmem.retrieval.pattern_index import PatternIndex
from dualmem.retrieval.times import patterns

RULE_PATTERNS = [rule.pattern for rule in (*RULES, *LANGUAGE_RULES)]
TIME_FORMS = [form for form, *_ in patterns.ENGLISH] + [form for form, _ in patterns.SPACED]
TIME_PATTERNS = [patterns.regex(form) for form in TIME_FORMS]
FORMS = [
    r"\bforget(?:ting)?\b",
    r"(?<!\w)(?:the )?(?:week|month)s? ago",
    r"\b(?:a|an|the)\W+(?:b|c)",
    r"(?<!\w)q[1-4](?!\w)",
    r"(?<!\w)[12]\d{3}(?!\w)",
    r"(?<!\w)['\u2019]?(?:90)['\u2019]?s",
    r"\b(?:про)?забуд\w*",
    r"(?:忽略|无视)[^\n]{0,8}指令",
    r"(?:^|\n)\s{0,3}system:",
    r"<\s?/?system>",
    r"\bx{2,3}y",
    r"\bno?\b",
    r"\w+ly",
    r"(?i:\babc)",
    r"(?:foo)?\bbar",
    r".a",
]


def prepared(found: list[re.Pattern[str]]) -> PatternIndex[re.Pattern[str]]:
    index = PatternIndex((pattern, pattern) for pattern in found)
    index.prepare()
    return index


EVERY = prepared([*TIME_PATTERNS, *RULE_PATTERNS])
WORDS = sorted({word for pattern in (*TIME_PATTERNS, *RULE_PATTERNS) for word in re.findall(r"\w+", pattern.pattern)})


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_what_a_pattern_matches_is_searched_for_it(form: str, data: st.DataObject) -> None:
    pattern = re.compile(form)
    index = prepared([pattern])
    text = data.draw(st.from_regex(pattern))
    if pattern.search(text):
        assert index.fitting(text) == [pattern]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=30), st.sampled_from([" ", "'", ": ", "-", ""]))
def test_no_match_of_any_pattern_is_lost(words: list[str], between: str) -> None:
    text = folded(between.join(words))
    fitting = EVERY.fitting(text)
    assert [one for one in TIME_PATTERNS + RULE_PATTERNS if one.search(text)] == [
        one for one in fitting if one.search(text)
    ]


def test_most_patterns_are_not_searched_for_in_an_ordinary_text() -> None:
    text = "caroline painted her lake house with two friends from school."
    assert len(EVERY.fitting(text)) < len(TIME_PATTERNS + RULE_PATTERNS) / 3


def test_all_patterns_fit_until_they_are_read() -> None:
    one, other = re.compile(r"\bone"), re.compile(r"\bother")
    index = PatternIndex([(one, 1), (other, 2)])
    assert list(index.fitting("nothing")) == [1, 2]
    index.prepare()
    assert list(index.fitting("the other one")) == [1, 2]
    assert list(index.fitting("the other")) == [2]
    assert list(index.fitting("nothing")) == []
