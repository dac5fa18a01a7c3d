"""The patterns of time expressions, and which rule reads each.

A blank stands for one to three white-space characters, so that no match can run away; "<...>" for a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dualmem.retrieval.times import rules, vocabulary


def _any(words: Iterable[str]) -> str:
    """Return an alternation, longest first; an apostrophe may be straight or curled."""
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace("'", _QUOTE).replace(r"\ ", " ") for word in longest_first)


_QUOTE, _DASH = r"['\u2019]", r"[-\u2013]"
_AFTER_DAYS = "and or at in for to is was we i he she they it that with but so because when"
"""Words that may follow "the 15th" where it is a day; a noun makes it something else ("the 3rd floor")."""
_LEAST = rf"\d{{1,3}}|{_any(vocabulary.COUNTS)}"
_COUNT = (
    r"\d{1,4}(?:\.5)?|(?:a )?few|several|(?:a )?couple(?: of)?|half an?"
    rf"|(?:{_any([*vocabulary.COUNTS, 'a', 'an'])})(?: and a half)?"
)
TRANSLATIONS = {
    word: english
    for english, *words in vocabulary.lines("""
a ein eine einem einer un une uno una 一
two zwei deux dos 二 两 兩
three drei trois tres 三
four vier quatre cuatro 四
five fünf cinq cinco 五
six sechs seis 六
seven sieben sept siete 七
eight acht huit ocho 八
nine neun neuf nueve 九
ten zehn dix diez 十
few paar einigen einige quelques unos unas pocos pocas algunos algunas 几 幾 数 數
minute minuten minutos 分 分钟 分鐘
hour stunde stunden heure heures hora horas 小时 小時 時間
day tag tage tagen jour jours día días 天 日
week woche wochen semaine semaines semana semanas 周 週 星期 個星期 个星期 週間
weekend wochenende 周末 週末
month monat monate monaten mois mes meses 月 个月 個月 ヶ月 か月 カ月 ヵ月
year jahr jahre jahren an ans année années año años 年
spring frühling frühjahr printemps primavera
summer sommer été verano
autumn herbst automne otoño
winter hiver invierno
""")
    for word in words
}
_PARTS = {
    "<month>": f"(?P<month>{_any(vocabulary.MONTHS)})",
    "<weekday>": f"(?P<weekday>{_any(vocabulary.WEEKDAYS)})",
    "<season>": f"(?P<season>{_any(vocabulary.SEASONS)})",
    "<holiday>": f"(?P<holiday>{_any([*vocabulary.HOLIDAYS, 'easter', 'thanksgiving'])})",
    "<which>": "(?P<which>last|next|this past|this coming|this|past|previous|coming|upcoming)",
    "<unit>": f"(?P<unit>{_any(vocabulary.UNITS)})s?",
    "<n>": rf"(?:(?P<least>{_LEAST}) ?(?:{_DASH}|to|or) ?)?(?P<n>{_COUNT})",
    "<the n>": f"(?:(?P<n>the|{_COUNT}) )?",
    "<half>": "(?P<half> and a half)?",
    "<year>": r"(?P<year>[12]\d{3})",
    "<short year>": rf"(?P<year>[12]\d{{3}}|{_QUOTE}\d\d)",
    "<day>": r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er)?",
    "<to day>": rf"(?: ?(?:{_DASH}|to|until|bis|au|al) ?(?P<to>[0-3]?\d)(?:st|nd|rd|th|\.)?)?",
    "<clock>": (
        r"(?P<hour>\d{1,2})(?=:\d\d| ?[ap]\.?m)(?::(?P<minute>[0-5]\d)(?::[0-5]\d)?)?(?: ?(?P<half>[ap])(?:m|\.m\.))?"
    ),
    "<no noun>": rf"(?! (?!(?:{_any(_AFTER_DAYS.split())})\b)[^\W\d_])",
    "<part>": "(?:early |late )?(?:in the )?(?:morning|afternoon|evening|night)",
    "<about>": "(?:(?:about|almost|around|at least|roughly|nearly|over|more than|some) )?",
    "<count>": rf"(?P<count>\d{{1,4}}|{_any([*TRANSLATIONS, 'ein paar'])})",
    "<period>": f"(?P<word>{_any(TRANSLATIONS)})",
    "<word>": f"(?P<word>{_any([*TRANSLATIONS, *vocabulary.WEEKDAYS, *vocabulary.MONTHS])})",
}


def regex(pattern: str, *, starts: bool = False, ends: bool = False) -> re.Pattern[str]:
    """Compile a pattern; with `starts` or `ends` it holds at that end of the search, else at a word's border."""
    pattern = re.sub(r"(?<!\?P)<[\w ]+>", lambda name: _PARTS[name[0]], pattern).replace(" ", r"(?:\s{1,3})")
    # Not inside a word, nor inside a longer number such as a version, an amount or a decimal.
    before, behind = r"(?<!\w)(?<!\d[.,:/])", r"(?!\w)(?![.,:/]\d)"
    return re.compile(("" if starts else before) + f"(?:{pattern})" + (r"\Z" if ends else behind))


_MONTH_LEAD = (
    r"(?:in|since|until|till|by|before|after|from|during|of|for|between|through|around|starting|beginning|early|mid"
    r"|late|end|ending|im|seit|bis|en|de|depuis|desde|anfang|mitte|ende|début|fin)[\s-](?:the )?"
)
_SEASON_LEAD = r"(?:in|since|until|till|by|before|after|during|over|for|early|mid|late|end of)[\s-](?:the )?"
_YEAR_LEAD = (
    r"(?:in|since|until|till|by|before|after|from|during|between|year|around|circa|early|mid|late"
    r"|(?:end|beginning|start|middle) of|jahr|seit|bis|en|depuis|desde|año|année)[\s-]"
)
_DECADE_LEAD = r"(?:the|early|mid|late)[\s-]"
_WEEKDAY_LEAD = "(?:on|by|until|till|since|before|after|from|am) "
_NOW_LEAD = "(?:until|till|by|from) "
_DAY_LEAD = "(?:on|by|until|till|since|before|after|from) "
_EDGE_LEAD = "(?:beginning|start|middle|end)(?: of)? "
_ALONE = "(?!)"
"""Matches nothing: only a whole phrase is read so."""

ENGLISH: tuple[tuple[str, rules.Rule, str], ...] = (
    # pattern, rule, and what must stand before it inside a longer text
    (
        r"<year>-(?P<month>\d\d)-(?P<day>\d\d)"
        r"(?:(?:t| )(?P<hour>\d\d):(?P<minute>\d\d)(?::\d\d(?:\.\d{1,9})?)?(?P<zone>z|[+-]\d\d:\d\d)?)?",
        rules.iso,
        "",
    ),
    (r"<year>/(?P<month>\d\d?)/(?P<day>\d\d?)", rules.iso, ""),
    (r"(?P<a>\d\d?)(?P<sep>[./-])(?P<b>\d\d?)(?P=sep)(?P<year>[12]\d{3})", rules.numeric, ""),
    (r"(?P<a>\d\d?)(?P<sep>/)(?P<b>\d\d?)/(?P<year>\d\d)", rules.numeric, ""),
    (
        r"(?:the )?<day>\.?<to day>(?: |-)(?:of |de )?<month>(?:\.(?=,? ?\d))?(?:(?:,|-| of| de| del)? ?<short year>)?",
        rules.dated,
        _MONTH_LEAD,
    ),
    (
        r"<month>\.?(?: |-)(?:the )?<day>(?!\d|:\d| ?[ap]m)<to day>(?:(?:,|-| of)? ?<short year>)?",
        rules.dated,
        _MONTH_LEAD,
    ),
    (r"between <month> <day> and (?P<to>[0-3]?\d)(?:st|nd|rd|th)?(?:,? <year>)?", rules.dated, ""),
    (r"<month>\.?,?(?: of| de)? ?<short year>", rules.months_of, ""),
    (r"<which> <month>", rules.months_of, ""),
    (r"<month>", rules.months_of, _MONTH_LEAD),
    (r"<which> <season>", rules.months_of, ""),
    (rf"<season>(?:,| of)? ?<short year>(?: ?(?:{_DASH}|/) ?\d{{2,4}})?", rules.months_of, ""),
    (r"<season>", rules.months_of, _SEASON_LEAD),
    (r"(?P<quarter>[1-4])(?:st|nd|rd|th) quarter(?:(?:,| of)? <year>)?", rules.months_of, ""),
    (r"q(?P<quarter>[1-4])(?:(?:,| of)? ?<year>)?", rules.months_of, ""),
    (r"(?:<which> )?<holiday>(?:(?:,| of)? <year>)?", rules.feast, ""),
    (r"<year>", rules.years, _YEAR_LEAD),
    (rf"<year> ?{_DASH} ?(?P<to>[12]\d{{3}})", rules.years, ""),
    (rf"(?:the )?(?P<decade>1[89]\d0|20\d0){_QUOTE}?s", rules.decade, ""),
    (rf"{_QUOTE}?(?P<decade>[5-9]0){_QUOTE}?s", rules.decade, _DECADE_LEAD),
    (rf"(?P<word>yesterday|today|tomorrow)(?:{_QUOTE}s)?(?: <part>)?", rules.relative_day, ""),
    (r"(?P<word>tonight|right now|currently|at the moment|these days|nowadays)", rules.relative_day, ""),
    (r"(?P<word>now)", rules.relative_day, _NOW_LEAD),
    (r"(?P<word>last|this) (?:morning|afternoon|evening|night)", rules.relative_day, ""),
    (r"the other (?:day|night|evening)", rules.other_day, ""),
    (r"(?:the )?<which> (?P<unit>week|weekend|month|quarter|year|decade)", rules.calendar, ""),
    (r"the (?P<unit>week|weekend|month|quarter|year) (?P<place>before last|after next)", rules.calendar, ""),
    (r"the (?P<unit>week|month|quarter|year|decade)(?! \d)", rules.calendar, _EDGE_LEAD),
    (r"(?:over|on|at|for|during) the weekend", rules.weekend, ""),
    (r"(?:the )?weekend", rules.weekend, _ALONE),
    (r"<which> <weekday>s?", rules.day_name, ""),
    (r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?(?: <part>)?", rules.day_name, ""),
    (r"<weekday>(?: <part>)?", rules.day_name, _WEEKDAY_LEAD),
    (r"the (?P<day>[0-3]?\d)(?:st|nd|rd|th)<no noun>", rules.day_of_month, _DAY_LEAD),
    (r"(?:at )?<clock>", rules.at, _ALONE),
    (r"<about><n> <unit><half> (?:ago|back(?! (?:to|in|and)))", rules.ago, ""),
    (rf"(?P<n>{_LEAST}) <weekday>s ago", rules.weekdays_ago, ""),
    (rf"in <about><n> <unit><half>(?:{_QUOTE}s?)?(?: time)?(?! of)", rules.from_now, ""),
    (r"<n> <unit><half> from (?:now|today)", rules.from_now, ""),
    (r"for (?:the )?<about><n> <unit><half>(?! of)", rules.lasting, ""),
    (r"<n> <unit><half> now", rules.lasting, ""),
    (r"(?:(?:in|over|during|for|within) )?(?:the |these )?<which> <about><n> <unit>", rules.lasting, ""),
    (r"(?:(?:in|over|during|for|within) )?the (?P<which>past) <unit>", rules.lasting, ""),
)
SPACED: tuple[tuple[str, str], ...] = (
    # German
    ("vorgestern", "2 days ago"),
    ("gestern(?: (?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht))?|letzte nacht", "yesterday"),
    ("heute(?: (?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht))?|jetzt|derzeit", "today"),
    (r"(?<!am\s)(?<!guten\s)(?<!jeden\s)morgen(?: (?:früh|vormittag|mittag|nachmittag|abend))?", "tomorrow"),
    ("übermorgen", "in 2 days"),
    ("vor <count> <period>", "{count} {word} ago"),
    ("seit <count> <period>", "for {count} {word}"),
    ("in <count> <period>", "in {count} {word}"),
    ("(?:letzt|vergangen|vorig)e[nrsm]? <word>", "last {word}"),
    ("nächste[nrsm]? <word>", "next {word}"),
    ("diese[nrsm]? <word>", "this {word}"),
    # French
    ("avant-hier", "2 days ago"),
    ("hier (?:soir|matin|après-midi)", "yesterday"),
    (rf"aujourd{_QUOTE}hui|ce (?:soir|matin)|en ce moment", "today"),
    ("(?<!après-)demain(?: (?:soir|matin))?", "tomorrow"),
    ("après-demain", "in 2 days"),
    ("il y a <count> <period>", "{count} {word} ago"),
    ("dans <count> <period>", "in {count} {word}"),
    ("depuis <count> <period>", "for {count} {word}"),
    (rf"(?:l{_QUOTE}|l[ea] )?<word> (?:derni(?:er|ère)|passée?)", "last {word}"),
    (rf"(?:l{_QUOTE}|l[ea] )?<word> prochaine?", "next {word}"),
    ("cet?(?:te)? <word>", "this {word}"),
    # Spanish
    ("anteayer", "2 days ago"),
    ("ayer(?: por la (?:mañana|tarde|noche))?|anoche", "yesterday"),
    ("hoy|esta (?:mañana|tarde|noche)|ahora", "today"),
    (r"(?<!la\s)mañana(?: por la (?:mañana|tarde|noche))?", "tomorrow"),
    ("pasado mañana", "in 2 days"),
    ("hace <count> <period>", "{count} {word} ago"),
    ("dentro de <count> <period>", "in {count} {word}"),
    ("desde hace <count> <period>", "for {count} {word}"),
    ("(?:el |la )?<word> pasad[oa]", "last {word}"),
    ("(?:el |la )?próxim[oa] <word>", "next {word}"),
    ("(?:el |la )?<word> que viene", "next {word}"),
    ("est[ea] <word>", "this {word}"),
)
CJK_WEEKDAYS = {
    sign: name
    for name, signs in vocabulary.lines("""
monday 一月
tuesday 二火
wednesday 三水
thursday 四木
friday 五金
saturday 六土
sunday 日天
""")
    for sign in signs
}
_CJK_UNIT = "(?P<word>周末|週末|周|週|星期|月|年)"
_CJK_DAY = "(?P<weekday>[一二三四五六日天月火水木金土])(?:曜日)?"
_CJK_AMOUNT = (
    r"(?P<count>\d{1,4}|[一二两兩三四五六七八九十几幾数數])\s?"
    "(?P<word>分钟|分鐘|分|小时|小時|時間|天|日|[个個]?星期|週間|周|週|[个個ヶかカヵ]月|年)[以之]?"
)
SCRIPTS: tuple[tuple[str, str], ...] = (
    # Chinese and Japanese, which write no blanks
    (r"(?P<year>[12]\d{3})\s?年\s?(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})\s?[日号號]", "{year}-{m:0>2}-{d:0>2}"),
    (r"(?P<year>[12]\d{3})\s?年\s?(?P<month>\d{1,2})\s?月", "{month} {year}"),
    (r"(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[日号號]", "{day} {month}"),
    (r"(?P<year>[12]\d{3})\s?年", "{year}"),
    (r"(?P<month>\d{1,2})\s?月", "{month}"),
    ("昨[天日晚夜]|きのう", "yesterday"),
    ("今[天日晚夜]|现在|現在|きょう", "today"),
    ("明[天日晚]|あした", "tomorrow"),
    ("前天|一昨日|おととい", "2 days ago"),
    ("[后後]天|明後日|あさって", "in 2 days"),
    ("去年|昨年", "last year"),
    ("[明来來]年", "next year"),
    ("前年|一昨年", "2 years ago"),
    (f"{_CJK_AMOUNT}前", "{count} {word} ago"),
    (f"{_CJK_AMOUNT}[后後]", "in {count} {word}"),
    (f"(?:上[个個]?|先){_CJK_UNIT}", "last {word}"),
    (f"(?:下[个個]?|来|來){_CJK_UNIT}", "next {word}"),
    (f"(?:[这這][个個]?|本|今){_CJK_UNIT}", "this {word}"),
    (f"(?:上[个個]?(?:周|週|星期|礼拜)|先週の?){_CJK_DAY}", "{weekday} of last week"),
    (f"(?:下[个個]?(?:周|週|星期|礼拜)|来週の?){_CJK_DAY}", "{weekday} of next week"),
)
MODIFIERS: tuple[tuple[str, rules.Modifier], ...] = (
    # what stands before a time, and what it makes of it
    ("<weekday>,? (?:(?:of|in|on) )?(?:the )?", rules.on_weekday),
    ("(?:the )?(?:early |late )?(?:morning|afternoon|evening|night) (?:of|on) (?:the )?", rules.same),
    ("(?:at )?<clock>,? (?:on )?(?:the )?", rules.at_hour),
    (
        f"(?:the )?(?P<ordinal>{_any(vocabulary.ORDINALS)}) (?:<weekday>|(?P<unit>day|week|weekend|month|quarter|year))"
        " (?:of|in) (?:the )?",
        rules.ordinal,
    ),
    (
        f"<the n>(?:<weekday>|<unit>)<half> (?P<side>{_any(vocabulary.BACKWARDS)}|after|following) (?:the )?",
        rules.neighbour,
    ),
    ("(?:the )?(?P<unit>week|weekend|month|quarter|year) of (?:the )?", rules.holding),
    (rf"(?:the )?(?P<edge>{_any(vocabulary.EDGES)})(?: of| in| de)?[\s-](?:the )?", rules.part_of),
    ("(?P<side>earlier|later) ", rules.so_far),
    (
        "(?:ever )?since (?:the )?|(?:starting|beginning)(?: from| in| on)? (?:the )?|seit |depuis |desde ",
        rules.since_then,
    ),
    (rf"(?:until|till|by|no later than|bis|jusqu{_QUOTE}à|hasta) (?:the )?", rules.until),
    ("(?:before|prior to|earlier than) (?:the )?", rules.before),
    ("(?:after|later than) (?:the )?", rules.after),
)
HOUR_BEHIND = "(?:,|,? at| um| à)? <clock>"
BETWEEN = "(?:between|from|zwischen|von|entre|de|desde|du) (?:the )?"
JOINT = r" ?(?P<word>and|und|et|y|to|until|till|through|bis|au|a|al|hasta|[-\u2013\u2014~至到]|から) ?(?:the )?"
DASHES, DIGIT = frozenset("-\u2013\u2014"), re.compile(r"\d")
FORWARD = "(?:until|till|by|due|starting|beginning|no later than|bis) (?:the )?"
FILLERS = (
    r"\W*(?:(?:in|on|at|during|over|for|the|of|sometime|around|about|circa|back|as of|year|im|am|en|le|el|au)"
    r"[\s,]{1,3}){0,4}"
)
GERMAN = re.compile(r"\b(?:ich|und|der|die|das|ist|sind|nicht|wir|es|ein|eine|hat|war|mit|auch)\b")
WIDE_DIGITS = {ord("\uff10") + digit: str(digit) for digit in range(10)}
LONGEST_CHAIN = 3
"""Modifiers before one time ("since the week before ...")."""
REACH = 48
"""Characters before a time in which its modifiers are looked for."""
