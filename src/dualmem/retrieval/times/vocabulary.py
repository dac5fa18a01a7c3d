"""The words of time expressions, in lower case.

German, French and Spanish names of months and weekdays stand beside the English ones.
"""

from __future__ import annotations

from dualmem.records.memory import Precision


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


MONTH_LINES = lines("""
january jan januar jänner janvier enero
february feb februar février febrero
march mar märz mars marzo
april apr avril abril
may mai mayo
june jun juni juin junio
july jul juli juillet julio
august aug août agosto
september sept sep septembre septiembre
october oct oktober octobre octubre
november nov novembre noviembre
december dec dezember décembre diciembre
""")
MONTHS = {name: number for number, line in enumerate(MONTH_LINES, 1) for name in line}
VERBS = frozenset({"may", "march", "mar"})
"""Months that are also other words, unless they are capitalised."""
_WEEKDAY_LINES = lines("""
monday mon montag lundi lunes
tuesday tues tue dienstag mardi martes
wednesday weds wed mittwoch mercredi miércoles
thursday thurs thur thu donnerstag jeudi jueves
friday fri freitag vendredi viernes
saturday sat samstag sonnabend samedi sábado
sunday sun sonntag dimanche domingo
""")
WEEKDAYS = {name: number for number, line in enumerate(_WEEKDAY_LINES) for name in line}
SATURDAY, SUNDAY = 5, 6
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
UNITS = {
    name: (unit, int(count))
    for unit, count, *names in lines("""
minute 1 minute min
hour 1 hour hr
day 1 day night morning afternoon evening
week 1 week
week 2 fortnight
weekend 1 weekend
month 1 month
quarter 1 quarter
year 1 year yr
year 10 decade
year 100 century centurie
""")
    for name in names
}
MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
DAYS_IN = {"day": 1, "week": 7, "weekend": 7}
MINUTES_IN = {"minute": 1, "hour": 60}
PRECISION: dict[str, Precision] = {"year": "year", "quarter": "month", "month": "month"}
"""Of a count of these units; of others it is the day."""
HALF = {"year": ("month", 6), "month": ("week", 2), "week": ("day", 3), "day": ("hour", 12), "hour": ("minute", 30)}
"""What a half of a unit is counted in, and how many of those it is."""
ARTICLES = frozenset({"a", "an", "the"})
(COUNTS,) = lines(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBERS = {word: number for number, word in enumerate(COUNTS)} | dict.fromkeys(ARTICLES, 1)
VAGUE = {"few": (2, 5), "several": (3, 7)}
ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": -1}
EDGES = {
    name: edge
    for edge, *names in lines("""
early early beginning start anfang début principios
mid mid middle mitte mediados
late late end ende fin finales
""")
    for name in names
}
BACKWARDS = frozenset({"before", "prior to", "preceding", "leading up to"})
HOLIDAYS = {
    " ".join(name): (int(month), int(day))
    for month, day, *name in lines("""
1 1 new year's
1 1 new year's day
2 14 valentine's day
2 14 valentines day
10 31 halloween
12 24 christmas eve
12 25 christmas
12 25 christmas day
12 25 xmas
12 26 boxing day
12 31 new year's eve
12 31 new years eve
""")
}
FIRST_YEAR, LAST_YEAR = 1800, 2199
"""Bare numbers outside are not read as years."""
PIVOT, TWO_DIGITS = 70, 99
"""Two-digit years from the first on are of the 20th century."""
TWELVE = 12
"""Months of a year, and hours of a clock's face."""
MOST_PIECES = 400
"""Days of the longest interval that is cut into days, and some."""
