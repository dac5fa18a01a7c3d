from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dualmem.errors import InputError
from dualmem.evals.datasets import load_benchmark
from dualmem.evals.datasets.evidence import MALFORMED, NONE_GIVEN, NOWHERE, REPAIRED, dialogue_ids
from dualmem.evals.datasets.longmemeval import read_date
from dualmem.evals.datasets.structmemeval import SETTLEMENT

Writer = Callable[[Path, Any], Path]


def test_locomo_gives_its_questions_with_what_is_wrong_repaired_and_counted(locomo: Path) -> None:
    benchmark = load_benchmark("locomo", locomo)

    assert [(s.id, s.category, s.target, s.evidence) for s in benchmark.samples] == [
        ("conv-1/1", "temporal", "7 May 2023", ("D1:1",)),
        ("conv-1/2", "multi-hop", "1", ("D1:4", "D2:1")),
        ("conv-1/3", "single-hop", "Ida", ()),
        ("conv-1/4", "single-hop", "rye bread", ("D2:2",)),
        ("conv-1/5", "open-domain", "Yes; likely", ()),
    ]
    assert [message.id for message in benchmark.transcripts["conv-1"].messages][-1] == "D2:2"
    assert +benchmark.skipped == {
        "conversation: session without turns": 1,
        "numeric answer read as text": 1,
        REPAIRED: 2,
        MALFORMED: 1,
        NOWHERE: 1,
        NONE_GIVEN: 1,
        "adversarial question": 1,
        "malformed question": 1,
        "observation without a source turn": 1,
    }
    assert [(o.text, o.speaker, o.evidence) for o in benchmark.observations["conv-1"]][1] == (
        "Nora has a sister, Ida.",
        "Nora",
        ("D1:3",),
    )


def test_adversarial_questions_are_asked_on_request_and_want_a_refusal(locomo: Path) -> None:
    benchmark = load_benchmark("locomo", locomo, adversarial=True)

    asked = benchmark.samples[-1]
    assert (asked.category, asked.answerable) == ("adversarial", False)
    assert "Not mentioned" in asked.target
    assert "adversarial question" not in benchmark.skipped


@pytest.mark.parametrize(
    ("value", "ids", "counted"),
    [
        ("D1:2", ("D1:2",), {}),
        ("D1:2; D1:3", ("D1:2", "D1:3"), {REPAIRED: 1}),
        ("D1:2 D1:3", ("D1:2", "D1:3"), {REPAIRED: 1}),
        ("D 1:2", ("D1:2",), {REPAIRED: 1}),
        ("1:3", ("D1:3",), {REPAIRED: 1}),
        ("D:1:3", ("D1:3",), {REPAIRED: 1}),
        ("D1:03.", ("D1:3",), {REPAIRED: 1}),
        ("D", (), {MALFORMED: 1}),
        ("", (), {MALFORMED: 1}),
        ("D8:8", (), {NOWHERE: 1}),
    ],
)
def test_evidence_ids_are_read_as_they_were_meant(value: str, ids: tuple[str, ...], counted: dict[str, int]) -> None:
    skipped: Counter[str] = Counter()

    assert dialogue_ids([value], {"D1:2", "D1:3"}, skipped) == ids
    assert skipped == counted


def test_realtalk_gives_its_questions(tmp_path: Path, write: Writer) -> None:
    said = [
        {"clean_text": "Up?", "speaker": "Nora", "date_time": "29.12.2023, 22:42:04", "dia_id": "D1:1"},
        {"clean_text": "Yes.", "speaker": "Theo", "date_time": "29.12.2023, 22:43:04", "dia_id": "D1:2"},
    ]
    qa = [{"question": "Is Theo up?", "answer": "Yes", "evidence": ["D1:2", "D1:9"], "category": 1}]
    write(tmp_path / "rt" / "chat.json", {"name": {}, "session_1": said, "session_2": [], "qa": qa})
    write(tmp_path / "rt" / "empty.json", {"session_1": [{"clean_text": "", "speaker": "A"}], "qa": qa})
    write(tmp_path / "rt" / "other.json", [1])

    benchmark = load_benchmark("realtalk", tmp_path / "rt")

    assert [(s.conversation, s.category, s.evidence) for s in benchmark.samples] == [("chat", "multi-hop", ("D1:2",))]
    assert benchmark.skipped[NOWHERE] == 1
    assert benchmark.skipped["question about a conversation without turns"] == 1
    assert benchmark.skipped["file in another format"] == 1


def test_beam_gives_rubrics_and_evidence_however_its_ids_are_nested(beam: Path) -> None:
    benchmark = load_benchmark("beam", beam)

    assert [(s.id, s.target, s.evidence, s.rubric, s.answerable) for s in benchmark.samples] == [
        ("chat-3/information_extraction/1", "On March 29.", ("0",), ("states March 29", "is polite"), True),
        ("chat-3/knowledge_update/1", "The same", ("0", "1"), (), True),
        ("chat-3/abstention/1", "No information.", (), ("says so",), False),
    ]
    assert benchmark.transcripts["chat-3"].messages[0].content == "My sprint ends on March 29."
    assert benchmark.skipped["question of an unknown ability"] == 1
    assert benchmark.skipped["question without a rubric"] == 1
    assert benchmark.skipped[NOWHERE] == 1


def test_beam_says_when_a_chat_is_missing(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "b" / "1" / "probing_questions.json", {})

    with pytest.raises(InputError, match=r"no chat\.json beside"):
        load_benchmark("beam", tmp_path / "b")


def test_structmemeval_gives_questions_in_scenarios(structmemeval: Path) -> None:
    benchmark = load_benchmark("structmemeval", structmemeval, task="state_tracking")

    assert [(s.id, s.target) for s in benchmark.samples] == [
        ("state_tracking/transition_1/1", "Tokyo"),
        ("state_tracking/transition_1/2", "Lisbon"),
        ("state_tracking/transition_2/1", "Rome"),
        ("state_tracking/transition_2/2", "Oslo"),
    ]
    assert {s.scenario for s in benchmark.samples} == set(benchmark.transcripts)
    assert benchmark.skipped["file in another format"] == 1


def test_accounting_asks_at_checkpoints_what_holds_there(structmemeval: Path) -> None:
    benchmark = load_benchmark("structmemeval", structmemeval, task="accounting")

    first, second = benchmark.samples
    assert (first.question, first.target) == (SETTLEMENT, "Bo -> Ana : 22")
    assert first.scenario == second.scenario == "accounting/debts/session_01"
    assert [len(benchmark.transcripts[s.conversation].messages) for s in (first, second)] == [10, 12]


def test_longmemeval_gives_each_question_its_own_dated_history(tmp_path: Path, write: Writer) -> None:
    item = {
        "question_id": "q1_abs",
        "question_type": "temporal-reasoning",
        "question": "When did I buy it?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello again."}],
            [{"role": "user", "content": "I bought a kite.", "has_answer": True}, {"role": "assistant", "content": ""}],
        ],
    }
    path = write(tmp_path / "longmemeval.json", [item, {"question_id": "q2"}])

    benchmark = load_benchmark("longmemeval", path)

    (sample,) = benchmark.samples
    assert (sample.target, sample.answerable, sample.evidence) == ("3", False, ("early:2:1",))
    assert sample.asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert [m.content for m in benchmark.transcripts["q1_abs"].messages] == ["I bought a kite.", "Hello again."]
    assert benchmark.transcripts["q1_abs"].messages[0].timestamp == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert benchmark.skipped["malformed question"] == 1


@pytest.mark.parametrize("value", ["2023/13/40 (Sat) 02:21", "someday", None, 7])
def test_a_date_that_is_none_is_none(value: object) -> None:
    assert read_date(value) is None


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [("nothing", None, "no benchmark is named"), ("locomo", "riddles", "has no questions of 'riddles'")],
)
def test_what_does_not_exist_is_said(locomo: Path, name: str, task: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_benchmark(name, locomo, task=task)


def test_a_missing_or_foreign_file_is_said(tmp_path: Path, write: Writer) -> None:
    with pytest.raises(InputError, match="nothing at"):
        load_benchmark("locomo", tmp_path / "none")
    write(tmp_path / "x.json", {"a": 1})
    with pytest.raises(InputError, match="no question of locomo"):
        load_benchmark("locomo", tmp_path / "x.json")
    (tmp_path / "y.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        load_benchmark("locomo", tmp_path / "y.json")
