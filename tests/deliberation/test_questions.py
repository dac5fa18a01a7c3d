"""What a question needs is told by its words."""

from __future__ import annotations

import pytest

from dualmem.deliberation.questions import needs_everything, needs_intervals, needs_ledger

EVERYTHING = [
    "How many dogs does Ana have?",
    "How often did Ana see Bob?",
    "What is the total of all my trips?",
    "Summarise what I told you about Bob",
    "List the books I read.",
    "Has Ana ever been to Rome?",
    "Did she never call back?",
    "In which order did I visit these cities?",
    "What did I buy first?",
    "When was the last time Ana saw Bob?",
    "What percentage of my comments was positive?",
    "Who owes how much to whom?",
    "Sum up what Bob said.",
    "What is the balance of our account?",
    "How do we settle up?",
    "Rank these cities by how much I liked them.",
    "Wie viele Hunde hat Ana?",
    "Combien de fois est-elle partie ?",
    "¿Cuántos perros tiene Ana?",
    "安娜有多少只狗?",
]
NOT_EVERYTHING = [
    "Where does Ana live?",
    "Where did I go last week?",
    "What is Ana's last name?",
    "What is Bob's first name?",
    "Is Ana all right?",
    "What did she say in order to calm him?",
    "How long did Ana live in Rome?",
    "How many days passed between the move and the party?",
    "How old is Bob?",
    "Wo wohnt Ana?",
    "Where did I leave my keys at all?",
    "Where did Ana settle after the war?",
    "What helps Ana with her work-life balance?",
    "When did Ana and Bob meet each other?",
    "Que doit faire Ana ?",
    "Where did Ana go during the first weekend of August?",
    "When did Paola stay in bed all day?",
]


@pytest.mark.parametrize("question", EVERYTHING)
def test_counts_sums_lists_and_orderings_need_everything(question: str) -> None:
    assert needs_everything(question)


@pytest.mark.parametrize("question", NOT_EVERYTHING)
def test_other_questions_do_not(question: str) -> None:
    assert not needs_everything(question)


@pytest.mark.parametrize(
    ("question", "ledger"),
    [
        ("How many dogs does Ana have?", True),
        ("Who owes how much to whom?", True),
        ("What percentage of my comments was positive?", True),
        ("How old was Bob when he moved?", True),
        ("What is the average price?", True),
        ("Quel âge a Bob ?", True),
        ("Summarise what I told you about Bob", False),
        ("How many weeks passed between the move and the party?", False),
        ("Where does Ana live?", False),
    ],
)
def test_a_ledger_is_for_counting_adding_up_and_ages(question: str, ledger: bool) -> None:
    assert needs_ledger(question) is ledger


@pytest.mark.parametrize(
    ("question", "intervals"),
    [
        ("How long did Ana live in Rome?", True),
        ("How many weeks passed between the move and the party?", True),
        ("How many days before the exam did she fall ill?", True),
        ("Wie lange wohnt Ana schon hier?", True),
        ("她在那里住了多久?", True),
        ("How many days did Ana work in all?", False),
        ("How old is Bob?", False),
        ("When did Ana move?", False),
    ],
)
def test_the_time_between_things_is_told(question: str, intervals: bool) -> None:
    assert needs_intervals(question) is intervals
