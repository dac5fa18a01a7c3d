from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmem.records.memory import Interval
from dualmem.retrieval.times import (
    LONGEST_PHRASE,
    Prefer,
    between,
    describe,
    distance_days,
    find,
    overlap,
    prepare,
    resolve,
)

prepare()  # what follows must be found where few patterns are searched for, too

MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
FRIDAY = datetime(2023, 6, 9, 19, 55, tzinfo=UTC)
SATURDAY = datetime(2023, 7, 15, 13, 51, tzinfo=UTC)
SUNDAY = datetime(2023, 4, 16, 16, 19, tzinfo=UTC)


def read(phrase: str, anchor: datetime | None = MONDAY, prefer: Prefer = "past", *, day_first: bool = False) -> str:
    interval = resolve(phrase, anchor, prefer=prefer, day_first=day_first)
    return "none" if interval is None else describe(interval)


def days(first: date, last: date) -> Interval:
    return Interval(
        start=datetime.combine(first, datetime.min.time(), UTC),
        end=datetime.combine(last, datetime.max.time(), UTC),
        precision="day",
    )


RELATIVE = [
    ("today", "8 May 2023"),
    ("yesterday", "7 May 2023"),
    ("Yesterday", "7 May 2023"),
    ("yesterday's", "7 May 2023"),
    ("tomorrow morning", "9 May 2023"),
    ("this morning", "8 May 2023"),
    ("tonight", "8 May 2023"),
    ("last night", "7 May 2023"),
    ("now", "8 May 2023"),
    ("currently", "8 May 2023"),
    ("these days", "8 May 2023"),
    ("the day before yesterday", "6 May 2023"),
    ("the day after tomorrow", "10 May 2023"),
    ("the other day", "1 May 2023 to 7 May 2023"),
    ("last week", "1 May 2023 to 7 May 2023"),
    ("this week", "8 May 2023 to 14 May 2023"),
    ("the week before last", "24 April 2023 to 30 April 2023"),
    ("the week after next", "22 May 2023 to 28 May 2023"),
    ("this weekend", "13 May 2023 to 14 May 2023"),
    ("last weekend", "6 May 2023 to 7 May 2023"),
    ("this past weekend", "6 May 2023 to 7 May 2023"),
    ("two weekends ago", "29 April 2023 to 30 April 2023"),
    ("next month", "June 2023"),
    ("this month", "May 2023"),
    ("this quarter", "April 2023 to June 2023"),
    ("last year", "2022"),
    ("the year before last", "2021"),
    ("last decade", "2010 to 2019"),
    ("last Friday", "5 May 2023"),
    ("last Fri", "5 May 2023"),
    ("last Tues", "2 May 2023"),
    ("last Monday", "1 May 2023"),
    ("next Friday", "12 May 2023"),
    ("next Monday", "15 May 2023"),
    ("this Friday", "12 May 2023"),
    ("this past Friday", "5 May 2023"),
    ("two Fridays ago", "28 April 2023"),
    ("Tuesday of last week", "2 May 2023"),
    ("a couple of days ago", "6 May 2023"),
    ("a few days ago", "3 May 2023 to 6 May 2023"),
    ("several days ago", "1 May 2023 to 5 May 2023"),
    ("two weeks ago", "24 April 2023 to 30 April 2023"),
    ("two or three days ago", "5 May 2023 to 6 May 2023"),
    ("4-5 months ago", "December 2022 to January 2023"),
    ("a few months back", "December 2022 to March 2023"),
    ("about six months ago", "November 2022"),
    ("half a year ago", "November 2022"),
    ("a year and a half ago", "November 2021"),
    ("1.5 years ago", "November 2021"),
    ("10 years ago", "2013"),
    ("a decade ago", "2013"),
    ("two hours ago", "8 May 2023, 11:56"),
    ("in half an hour", "8 May 2023, 14:26"),
    ("in three days", "11 May 2023"),
    ("in two weeks' time", "22 May 2023 to 28 May 2023"),
    ("three days from now", "11 May 2023"),
    ("for three years", "2020 to 2023"),
    ("Seven years now", "2016 to 2023"),
    ("over the last two weeks", "24 April 2023 to 8 May 2023"),
    ("in the past month", "April 2023 to May 2023"),
    ("in the next few months", "May 2023 to October 2023"),
    ("earlier this year", "1 January 2023 to 8 May 2023"),
    ("later this week", "8 May 2023 to 14 May 2023"),
    ("the end of the month", "22 May 2023 to 31 May 2023"),
    ("end of last week", "6 May 2023 to 7 May 2023"),
    ("last summer", "June 2022 to August 2022"),
    ("this summer", "June 2023 to August 2023"),
    ("last winter", "December 2022 to February 2023"),
    ("last May", "May 2022"),
    ("next May", "May 2024"),
    ("last Christmas", "25 December 2022"),
    ("yesterday at 3pm", "7 May 2023, 15:00"),
    ("yesterday at 15:30", "7 May 2023, 15:30"),
    ("at 9 am", "8 May 2023, 09:00"),
]


@pytest.mark.parametrize(("phrase", "expected"), RELATIVE)
def test_relative_phrases_count_from_the_anchor(phrase: str, expected: str) -> None:
    assert read(phrase) == expected


@pytest.mark.parametrize(("phrase", "expected"), RELATIVE)
def test_relative_phrases_are_open_without_an_anchor(phrase: str, expected: str) -> None:
    assert expected
    assert resolve(phrase, None) is None


ABSOLUTE = [
    ("2023", "2023"),
    ("in 2019", "2019"),
    ("in the year 2019", "2019"),
    ("2019-2021", "2019 to 2021"),
    ("May 2023", "May 2023"),
    ("February, 2023", "February 2023"),
    ("May '23", "May 2023"),
    ("8 May, 2023", "8 May 2023"),
    ("8th of May 2023", "8 May 2023"),
    ("May 8, 2023", "8 May 2023"),
    ("March-15-2024", "15 March 2024"),
    ("Friday, 14 July 2023", "14 July 2023"),
    ("2023-05-08", "8 May 2023"),
    ("2023/5/8", "8 May 2023"),
    ("5/8/2023", "8 May 2023"),
    ("5/8/23", "8 May 2023"),
    ("13/5/2023", "13 May 2023"),
    ("29.12.2023", "29 December 2023"),
    ("10.01.2024", "10 January 2024"),
    ("29.12.2023, 22:42:04", "29 December 2023, 22:42"),
    ("2023-05-08T10:00", "8 May 2023, 10:00"),
    ("2023-05-08T10:00:30.5Z", "8 May 2023, 10:00"),
    ("2023-05-08T10:00+02:00", "8 May 2023, 08:00"),
    ("1:56 pm on 8 May, 2023", "8 May 2023, 13:56"),
    ("12:09 am on 13 September, 2023", "13 September 2023, 00:09"),
    ("the night of 10.01.2024", "10 January 2024"),
    ("early May 2023", "1 May 2023 to 10 May 2023"),
    ("mid-June 2023", "11 June 2023 to 20 June 2023"),
    ("late February 2023", "20 February 2023 to 28 February 2023"),
    ("end of 2022", "September 2022 to December 2022"),
    ("early 1990s", "1990 to 1992"),
    ("the 90s", "1990 to 1999"),
    ("summer of 2022", "June 2022 to August 2022"),
    ("winter 2021 - 2022", "December 2021 to February 2022"),
    ("Q1 2023", "January 2023 to March 2023"),
    ("the second quarter of 2023", "April 2023 to June 2023"),
    ("Thanksgiving 2022", "24 November 2022"),
    ("Easter 2023", "9 April 2023"),
    ("New Year’s Eve 2023", "31 December 2023"),
    ("the week before 9 June 2023", "2 June 2023 to 8 June 2023"),
    ("weekend before August 24, 2023", "19 August 2023 to 20 August 2023"),
    ("two weekends before 17 July 2023", "8 July 2023 to 9 July 2023"),
    ("the weekend after 17 July 2023", "22 July 2023 to 23 July 2023"),
    ("the Sunday before 25 May 2023", "21 May 2023"),
    ("the Friday after 14 July 2023", "21 July 2023"),
    ("few days before November 22, 2023", "17 November 2023 to 20 November 2023"),
    ("three days after 8 May 2023", "11 May 2023"),
    ("two weeks before 9 June 2023", "22 May 2023 to 28 May 2023"),
    ("the month before June 2023", "May 2023"),
    ("the year after 2019", "2020"),
    ("The week of 23 August 2023", "21 August 2023 to 27 August 2023"),
    ("first week of May 2023", "1 May 2023 to 7 May 2023"),
    ("last week of May 2023", "25 May 2023 to 31 May 2023"),
    ("the first weekend of August 2023", "5 August 2023 to 6 August 2023"),
    ("the last Friday of May 2023", "26 May 2023"),
    ("the second Sunday in May 2023", "14 May 2023"),
    ("3 to 9 April 2023", "3 April 2023 to 9 April 2023"),
    ("April 3rd to 9th, 2023", "3 April 2023 to 9 April 2023"),
    ("between October 19 and 24, 2023", "19 October 2023 to 24 October 2023"),
    ("Nov 16 - Dec 15, 2023", "16 November 2023 to 15 December 2023"),
    ("from March to May 2023", "March 2023 to May 2023"),
    ("between 2019 and 2021", "2019 to 2021"),
    ("since 2016", "since 2016"),
    ("since the Sunday before 25 May 2023", "since 21 May 2023"),
    ("until May 2023", "until May 2023"),
    ("by 28 March 2024", "until 28 March 2024"),
    ("before June 2023", "until May 2023"),
    ("after 8 May 2023", "since 9 May 2023"),
]


@pytest.mark.parametrize(("phrase", "expected"), ABSOLUTE)
@pytest.mark.parametrize("anchor", [None, MONDAY, datetime(1999, 12, 31, tzinfo=UTC)])
def test_absolute_phrases_need_no_anchor(phrase: str, expected: str, anchor: datetime | None) -> None:
    assert read(phrase, anchor) == expected


OPEN = [
    # phrase, in the past, in the future, nearest
    ("on Monday", "1 May 2023", "15 May 2023", "1 May 2023"),
    ("Wednesday", "3 May 2023", "10 May 2023", "10 May 2023"),
    ("March 15th", "15 March 2023", "15 March 2024", "15 March 2023"),
    ("13 August", "13 August 2022", "13 August 2023", "13 August 2023"),
    ("8 May", "8 May 2023", "8 May 2023", "8 May 2023"),
    ("29 February", "29 February 2020", "29 February 2024", "29 February 2024"),
    ("the 15th", "15 April 2023", "15 May 2023", "15 May 2023"),
    ("the 31st", "31 March 2023", "31 May 2023", "31 May 2023"),
    ("in June", "June 2022", "June 2023", "June 2023"),
    ("early May", "1 May 2023 to 10 May 2023", "1 May 2023 to 10 May 2023", "1 May 2023 to 10 May 2023"),
    ("mid-June", "11 June 2022 to 20 June 2022", "11 June 2023 to 20 June 2023", "11 June 2023 to 20 June 2023"),
    ("Christmas", "25 December 2022", "25 December 2023", "25 December 2022"),
    ("during the summer", "June 2022 to August 2022", "June 2023 to August 2023", "June 2023 to August 2023"),
    ("over the weekend", "6 May 2023 to 7 May 2023", "13 May 2023 to 14 May 2023", "6 May 2023 to 7 May 2023"),
    ("for two weeks", "24 April 2023 to 8 May 2023", "8 May 2023 to 22 May 2023", "24 April 2023 to 8 May 2023"),
]


@pytest.mark.parametrize(("phrase", "past", "future", "nearest"), OPEN)
def test_what_recurs_is_read_in_the_preferred_direction(phrase: str, past: str, future: str, nearest: str) -> None:
    assert read(phrase, prefer="past") == past
    assert read(phrase, prefer="future") == future
    assert read(phrase, prefer="nearest") == nearest
    assert resolve(phrase, None) is None


def test_a_deadline_looks_ahead_and_a_beginning_looks_back() -> None:
    assert read("by Friday") == "until 12 May 2023"
    assert read("until June") == "until June 2023"
    assert read("since Friday") == "since 5 May 2023"


@pytest.mark.parametrize(
    ("anchor", "phrase", "expected"),
    [
        (FRIDAY, "last week", "29 May 2023 to 4 June 2023"),
        (FRIDAY, "for 4 years", "2019 to 2023"),
        (FRIDAY, "three years ago", "2020"),
        (SATURDAY, "Last Friday", "14 July 2023"),
        (SATURDAY, "last weekend", "8 July 2023 to 9 July 2023"),
        (SATURDAY, "this weekend", "15 July 2023 to 16 July 2023"),
        (SATURDAY, "over the weekend", "15 July 2023 to 16 July 2023"),
        (SUNDAY, "last week", "3 April 2023 to 9 April 2023"),
        (SUNDAY, "this week", "10 April 2023 to 16 April 2023"),
        (SUNDAY, "last Sunday", "9 April 2023"),
        (datetime(2024, 2, 29, 12, tzinfo=UTC), "last year", "2023"),
        (datetime(2024, 3, 31, 12, tzinfo=UTC), "last month", "February 2024"),
        (datetime(2024, 1, 1, 0, 5, tzinfo=UTC), "last night", "31 December 2023"),
        (datetime(2024, 1, 10, tzinfo=UTC), "this winter", "December 2023 to February 2024"),
    ],
)
def test_weeks_months_and_seasons_follow_the_calendar_of_the_anchor(
    anchor: datetime, phrase: str, expected: str
) -> None:
    assert read(phrase, anchor) == expected


@pytest.mark.parametrize("anchor", [MONDAY + timedelta(days=offset) for offset in range(14)])
def test_the_week_before_a_day_meets_the_last_week_said_on_that_day(anchor: datetime) -> None:
    said, asked = resolve("last week", anchor), resolve(f"the week before {anchor:%d %B %Y}", None)
    assert said is not None
    assert asked is not None
    assert overlap(said, asked)


@pytest.mark.parametrize(
    "phrase",
    [
        "",
        "  ",
        "a",
        "the",
        "last",
        "ago",
        "in",
        "sun and fun",
        "port 9077",
        "9077",
        "room 2023",
        "version 2.5",
        "version 10.4.2023.1",
        "1,200 people",
        "100,000 years ago",
        "9999 centuries ago",
        "5000 years ago",
        "in 9999 years",
        "30 February 2023",
        "29 February 2023",
        "31.4.2023",
        "13/13/2023",
        "2023-13-01",
        "2023-05-08T25:00",
        "2023-05-08T10:00+99:99",
        "25:00",
        "13 pm",
        "the hour before 8 May 2023",
        "a fifth Monday of February",
        "yesterday and a long story after it",
        "18th birthday",
        "since before May 2023",
        "in 3 weekends of",
        "127.0.0.1",
        "\ud800",
        "\x00",
        "٣",
        "²",
    ],
)
def test_what_is_no_time_is_no_constraint(phrase: str) -> None:  # PITFALLS 21
    assert resolve(phrase, MONDAY) is None
    assert resolve(phrase, None) is None


def test_a_modal_verb_is_no_month_inside_a_text_and_a_walk_is_no_date() -> None:
    assert find("I may go, and they march 15 miles.", MONDAY) == []
    assert [found.phrase for found in find("In May they left; March 15 was cold.", MONDAY)] == ["May", "March 15"]


def test_a_long_phrase_is_none() -> None:
    assert resolve("yesterday" + " " * LONGEST_PHRASE, MONDAY) is None


def test_ambiguous_numbers_follow_day_first() -> None:
    assert read("5/8/2023", day_first=True) == "5 August 2023"
    assert read("13/5/2023", day_first=True) == "13 May 2023"
    assert read("5/13/2023", day_first=True) == "13 May 2023"
    assert read("5.8.2023") == "5 August 2023"


def test_a_naive_anchor_is_utc_and_never_raises() -> None:
    naive = MONDAY.replace(tzinfo=None)
    assert resolve("yesterday", naive) == resolve("yesterday", MONDAY)
    assert resolve("two hours ago", naive) == resolve("two hours ago", MONDAY)


def test_days_are_those_where_it_was_said_and_clock_times_are_utc() -> None:
    berlin = datetime(2023, 5, 8, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert read("yesterday", berlin) == "7 May 2023"
    assert read("today at 9:00", berlin) == "8 May 2023, 07:00"


@pytest.mark.parametrize(
    ("phrase", "precision", "start", "end"),
    [
        ("yesterday", "day", "2023-05-07T00:00:00+00:00", "2023-05-07T23:59:59.999999+00:00"),
        ("last week", "day", "2023-05-01T00:00:00+00:00", "2023-05-07T23:59:59.999999+00:00"),
        ("this month", "month", "2023-05-01T00:00:00+00:00", "2023-05-31T23:59:59.999999+00:00"),
        ("2024", "year", "2024-01-01T00:00:00+00:00", "2024-12-31T23:59:59.999999+00:00"),
        ("an hour ago", "minute", "2023-05-08T12:56:00+00:00", "2023-05-08T12:56:59.999999+00:00"),
    ],
)
def test_the_end_is_the_last_instant_that_counts(phrase: str, precision: str, start: str, end: str) -> None:
    interval = resolve(phrase, MONDAY)
    assert interval is not None
    assert interval.start is not None
    assert interval.end is not None
    assert (interval.precision, interval.start.isoformat(), interval.end.isoformat()) == (precision, start, end)


LANGUAGES = [
    ("gestern", "7 May 2023"),
    ("gestern Abend", "7 May 2023"),
    ("vorgestern", "6 May 2023"),
    ("morgen", "9 May 2023"),
    ("vor zwei Wochen", "24 April 2023 to 30 April 2023"),
    ("vor ein paar Tagen", "3 May 2023 to 6 May 2023"),
    ("in 3 Tagen", "11 May 2023"),
    ("seit drei Jahren", "2020 to 2023"),
    ("letzten Freitag", "5 May 2023"),
    ("letzte Woche", "1 May 2023 to 7 May 2023"),
    ("nächstes Jahr", "2024"),
    ("im Mai 2023", "May 2023"),
    ("8. Mai 2023", "8 May 2023"),
    ("Anfang Mai 2023", "1 May 2023 to 10 May 2023"),
    ("letzten Sommer", "June 2022 to August 2022"),
    ("hier", "7 May 2023"),
    ("avant-hier", "6 May 2023"),
    ("demain matin", "9 May 2023"),
    ("la semaine dernière", "1 May 2023 to 7 May 2023"),
    ("le mois prochain", "June 2023"),
    ("il y a deux ans", "2021"),
    ("vendredi dernier", "5 May 2023"),
    ("le 8 mai 2023", "8 May 2023"),
    ("ayer", "7 May 2023"),
    ("hace dos semanas", "24 April 2023 to 30 April 2023"),
    ("la semana pasada", "1 May 2023 to 7 May 2023"),
    ("el año que viene", "2024"),
    ("el viernes pasado", "5 May 2023"),
    ("8 de mayo de 2023", "8 May 2023"),
    ("昨天", "7 May 2023"),
    ("上周", "1 May 2023 to 7 May 2023"),
    ("上周五", "5 May 2023"),
    ("上个月", "April 2023"),
    ("去年", "2022"),
    ("3天前", "5 May 2023"),
    ("三年前", "2020"),
    ("2023年5月8日", "8 May 2023"),
    ("2023年5月", "May 2023"),
    ("２０２３年", "2023"),
    ("昨日", "7 May 2023"),
    ("先週", "1 May 2023 to 7 May 2023"),
    ("先週の金曜日", "5 May 2023"),
    ("来月", "June 2023"),
    ("2週間前", "24 April 2023 to 30 April 2023"),
]


@pytest.mark.parametrize(("phrase", "expected"), LANGUAGES)
def test_other_languages(phrase: str, expected: str) -> None:
    assert read(phrase) == expected


def test_a_phrase_that_is_its_own_translation_ends() -> None:
    assert read("in 3 April") == "3 April 2023"
    assert find("in 3 april, in 3 may", MONDAY)[0].phrase == "3 april"


def test_german_hier_is_a_place_and_french_hier_a_day() -> None:
    assert find("Ich bin hier und warte.", MONDAY) == []
    assert [found.phrase for found in find("Je suis allé au musée hier.", MONDAY)] == ["hier"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "What did Caroline do in the week before 9 June 2023?",
            [("the week before 9 June 2023", "2 June 2023 to 8 June 2023")],
        ),
        ("When did I move last summer?", [("last summer", "June 2022 to August 2022")]),
        ("I went to a LGBTQ support group yesterday and it was so powerful.", [("yesterday", "7 May 2023")]),
        (
            "Last Fri I took my kids; next month we go camping.",
            [("Last Fri", "5 May 2023"), ("next month", "June 2023")],
        ),
        ("A hand-painted bowl for my 18th birthday ten years ago.", [("ten years ago", "2013")]),
        ("I listen on port 9077 in room 2023 with version 2.5 for 1,200 people.", []),
        ("That was 100,000 years ago, every now and then.", []),
        (
            "I was ill last week - yesterday I left.",
            [("last week", "1 May 2023 to 7 May 2023"), ("yesterday", "7 May 2023")],
        ),
        ("I met her in 2019.", [("2019", "2019")]),
        ("From March to May 2023 I was away.", [("From March to May 2023", "March 2023 to May 2023")]),
        ("I start again on the 19th of February.", [("the 19th of February", "19 February 2023")]),
        ("See you on the 3rd floor, fall in line and spring up.", []),
        ("I call on Sunday at 6 PM.", [("Sunday at 6 PM", "7 May 2023, 18:00")]),
        ("我去年搬到了北京。", [("去年", "2022")]),
        ("", []),
    ],
)
def test_find_in_a_text(text: str, expected: list[tuple[str, str]]) -> None:
    found = find(text, MONDAY)
    assert [(one.phrase, describe(one.interval)) for one in found] == expected
    assert all(text[one.start_index : one.end_index] == one.phrase for one in found)


def test_find_keeps_places_where_lower_case_is_longer() -> None:
    text = "İİİ yesterday"
    assert [text[one.start_index : one.end_index] for one in find(text, MONDAY)] == ["yesterday"]


def test_find_reads_a_long_text_of_near_misses() -> None:
    text = "in the early last half a couple of 2023-" * 500
    assert all(one.interval.start is not None or one.interval.end is not None for one in find(text, MONDAY))
    assert find(text + " yesterday", MONDAY)[-1].phrase == "yesterday"


MAY, JUNE = days(date(2023, 5, 1), date(2023, 5, 31)), days(date(2023, 6, 1), date(2023, 6, 30))
SINCE_2016, UNTIL_2015 = resolve("since 2016", None), resolve("until 2015", None)


def test_overlap_and_distance() -> None:
    day = days(date(2023, 5, 31), date(2023, 5, 31))
    late = days(date(2023, 6, 11), date(2023, 6, 12))
    assert overlap(MAY, day)
    assert not overlap(MAY, JUNE)
    assert distance_days(MAY, JUNE) == pytest.approx(0, abs=1e-6)
    assert distance_days(day, late) == distance_days(late, day) == pytest.approx(10, abs=1e-6)
    assert distance_days(day, day) == 0
    assert SINCE_2016 is not None
    assert UNTIL_2015 is not None
    assert overlap(SINCE_2016, MAY)
    assert not overlap(SINCE_2016, UNTIL_2015)
    assert overlap(Interval(), MAY)


def test_naive_and_aware_intervals_compare() -> None:  # PITFALLS 21
    naive = Interval(start=datetime(2023, 5, 7), end=datetime(2023, 5, 9))
    assert overlap(naive, MAY)
    assert describe(naive) == "7 May 2023 to 9 May 2023"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (date(2024, 1, 15), date(2024, 3, 15), ("before", 60, 8, 2, 0)),
        (date(2024, 3, 29), date(2024, 4, 19), ("before", 21, 3, 0, 0)),
        (date(2024, 3, 30), date(2024, 3, 12), ("after", 18, 2, 0, 0)),
        (date(2020, 2, 29), date(2023, 2, 28), ("before", 1095, 156, 35, 2)),
        (date(2013, 5, 8), date(2023, 5, 8), ("before", 3652, 521, 120, 10)),
        (date(2023, 5, 8), date(2023, 5, 8), ("same", 0, 0, 0, 0)),
    ],
)
def test_between_counts_whole_calendar_units(first: date, last: date, expected: tuple[str, int, int, int, int]) -> None:
    difference = between(days(first, first), days(last, last))
    assert difference is not None
    assert expected == (
        difference.order,
        difference.days,
        difference.weeks,
        difference.months,
        difference.years,
    )
    assert difference.exact


def test_between_tells_how_sure_it_is() -> None:
    difference = between(MAY, JUNE)
    assert difference is not None
    assert (difference.days, difference.least_days, difference.most_days) == (31, 1, 60)
    assert not difference.exact
    assert between(Interval(start=MAY.start), JUNE) is None


def test_describe() -> None:
    assert describe(Interval()) == "unknown"
    assert describe(Interval(start=MONDAY, end=MONDAY, precision="minute")) == "8 May 2023, 13:56"
    assert describe(Interval(start=MONDAY, end=MONDAY, precision="month")) == "May 2023"
    assert describe(Interval(start=MONDAY, precision="year")) == "since 2023"
    assert describe(Interval(end=MONDAY, precision="day")) == "until 8 May 2023"
    assert describe(Interval(start=MONDAY, end=MONDAY, precision="unknown")) == "8 May 2023"


VOCABULARY = """
last next this the a an in on at for since until before after between and to of from early mid late
end week weeks weekend month year years day days hour hours decade century ago back now two few
couple half 0 1 3 15 31 99 9999 2023 1800 2199 2023-05-08 5/8/2023 May February Monday Friday sun
summer winter Christmas Easter Thanksgiving yesterday tomorrow morning night 3pm 10:00 first second
15th 90s q4 letzte vor seit jours dernier hace 天 前 年 月 april in mai 上周五 ' - , . İ
"""
WORDS = st.sampled_from(VOCABULARY.split())
PHRASES = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=60)
ANCHORS = (
    st.none()
    | st.datetimes()
    | st.datetimes(timezones=st.timezones())
    | st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
)


def check(interval: Interval) -> None:
    assert describe(interval)
    if interval.start is not None:
        assert interval.start.utcoffset() == timedelta(0)
    if interval.end is not None:
        assert interval.end.utcoffset() == timedelta(0)
    if interval.start is not None and interval.end is not None:
        assert interval.start <= interval.end
    assert interval.start is not None or interval.end is not None


@settings(deadline=None)
@given(phrase=PHRASES, anchor=ANCHORS, prefer=st.sampled_from(["past", "future", "nearest"]), day_first=st.booleans())
def test_any_phrase_gives_an_interval_in_order_or_nothing(
    phrase: str, anchor: datetime | None, prefer: Prefer, *, day_first: bool
) -> None:
    interval = resolve(phrase, anchor, prefer=prefer, day_first=day_first)
    if interval is not None:
        check(interval)


@settings(deadline=None)
@given(text=PHRASES, anchor=ANCHORS, prefer=st.sampled_from(["past", "future", "nearest"]))
def test_any_text_gives_times_in_order_without_overlap(text: str, anchor: datetime | None, prefer: Prefer) -> None:
    place = 0
    for one in find(text, anchor, prefer=prefer):
        assert place <= one.start_index < one.end_index
        assert text[one.start_index : one.end_index] == one.phrase
        place = one.end_index
        check(one.interval)


MOMENTS = st.none() | st.datetimes() | st.datetimes(timezones=st.timezones())
INTERVALS = st.builds(
    Interval, start=MOMENTS, end=MOMENTS, precision=st.sampled_from(["minute", "day", "month", "year", "unknown"])
)


@settings(deadline=None)
@given(first=INTERVALS, second=INTERVALS)
def test_any_intervals_compare(first: Interval, second: Interval) -> None:
    assert describe(first)
    assert distance_days(first, second) == distance_days(second, first) >= 0
    assert overlap(first, second) == (distance_days(first, second) == 0)
    difference = between(first, second)
    assert difference is None or difference.days >= 0
