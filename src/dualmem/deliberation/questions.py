"""What a question needs, told by its words: all of the history, a ledger, or the time between two things."""

from __future__ import annotations

import re

_COUNTED = (
    r"how (?:many|much|often)|number of|count(?:ed|s)?|in total|total|sums? of|in all(?! honesty)|altogether|combined|"
    r"average|mean (?:of|price|cost)|percent(?:age)?|proportion|ratio|rank(?:ed|ing|s)?|balances|"
    r"(?:account|current|final|open|whose|what|the) balance|owe[sd]?|settle (?:up|all|the|our|their|debts)|settlement|"
    r"wie (?:viele?|oft)|insgesamt|durchschnitt|prozent|schuldet|schulden|"
    r"combien|au total|moyenne|pourcentage|"
    r"cu[aá]nt[oa]s?|en total|promedio|porcentaje"
)
_COUNTED_CJK = "多少|几[个次人年天]|幾[個次人年天]|总共|總共|一共|合計|何[回人個冊]|いくつ|いくら|몇"
_AGES = (
    r"how old|what age|age of|(?:his|her|their|my|your|'s) age|aged|wie alt|quel âge|cu[aá]ntos años|qué edad"
    r"|what year was \w+ born"
)
_AGES_CJK = "多大|几岁|幾歲|何歳|몇 살"
_ALL_OF_IT = (
    r"(?<!at )(?<!after )all(?! right| day| night)|every(?:thing|one|body)?|each(?! other)|sum up|"
    r"(?:have|has|had|did|do|does|was|were|is|are)\b[^?.!]*\bever|never|always|"
    r"lists?|summar\w+|overview|recap|timeline|chronolog\w+|in (?:which|what) order|order of|in order(?! to)|"
    r"sequence|compare[ds]?|"
    r"(?<!my )(?<!his )(?<!her )(?<!'s )(?<!your )first(?! name| aid| class| place| prize| week| weekend| half)|"
    r"(?:the|'s|my|his|her|their|your) last(?! name| week| month| year| night| summer| winter| spring| autumn)|"
    r"latest|earliest|most(?! likely| of the time)|least(?<!at least)|"
    r"alle[nrs]?|jemals|niemals|nie|immer|zusammenfass\w*|liste|reihenfolge|"
    r"tou(?:te?s?)|jamais|toujours|résum\w*|liste[rz]?|"
    r"tod[oa]s?|nunca|siempre|resum\w*|lista"
)
_ALL_OF_IT_CJK = "所有|全部|从来|從來|每[个個次]|总结|總結|すべて|全て|모든|모두"
_DURATION = (
    r"how (?:long|soon|far apart)|(?:days|weeks|months|years)\b[^?]*\b(?:between|pass(?:ed)?|apart|before|after|since|"
    r"ago|until|till|from|t[ao]ke|took)\b|(?:time|gap|interval) between|"
    r"wie (?:lange|viele? (?:tage|wochen|monate|jahre) (?:lagen|liegen|vergingen|nach|vor|seit))|combien de temps|"
    r"cu[aá]nto tiempo"
)
_DURATION_CJK = "多久|多长时间|多長時間|相隔|どのくらい|얼마나"


def _pattern(words: str, unspaced: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b|{unspaced}", re.IGNORECASE)


_COUNTS = _pattern(_COUNTED, _COUNTED_CJK)
_AGE = _pattern(_AGES, _AGES_CJK)
_EVERYTHING = _pattern(_ALL_OF_IT, _ALL_OF_IT_CJK)
_LONG = re.compile(rf"\b(?:{_DURATION})|{_DURATION_CJK}", re.IGNORECASE)


def needs_everything(question: str) -> bool:
    """Whether a question can only be answered when the whole history was read: counts, sums, lists, orderings.

    The time between two things is none of them, although it begins with "how many days".
    """
    if _EVERYTHING.search(question):
        return True
    return _COUNTS.search(question) is not None and not needs_intervals(question)


def needs_ledger(question: str) -> bool:
    """Whether something must be counted, added up or told an age, for which typed records are read."""
    return _AGE.search(question) is not None or (_COUNTS.search(question) is not None and not needs_intervals(question))


def needs_intervals(question: str) -> bool:
    """Whether the time between things is asked for."""
    return _LONG.search(question) is not None and _AGE.search(question) is None
