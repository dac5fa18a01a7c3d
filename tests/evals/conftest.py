"""Small benchmarks in the official formats, made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Writer = Callable[[Path, Any], Path]


def _write(path: Path, value: Any) -> Path:
    """Write a JSON file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    return path


@pytest.fixture(name="write")
def write_fixture() -> Writer:
    return _write


def turn(number: int, speaker: str, text: str, session: int = 1) -> dict[str, str]:
    return {"speaker": speaker, "dia_id": f"D{session}:{number}", "text": text}


def locomo_object() -> dict[str, Any]:
    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Nora",
            "speaker_b": "Theo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                turn(1, "Nora", "I went to the pottery class yesterday."),
                turn(2, "Theo", "How was the clay?"),
                turn(3, "Nora", "Cold. My sister Ida drove me there."),
                turn(4, "Theo", "I bought a red bicycle for the summer."),
            ],
            "session_2_date_time": "2:10 pm on 9 June, 2023",
            "session_2": [
                turn(1, "Theo", "The bicycle was stolen at the station.", 2),
                turn(2, "Nora", "Oh no. I baked rye bread for you.", 2),
            ],
            "session_3_date_time": "2:10 pm on 10 June, 2023",
        },
        "qa": [
            {"question": "When did Nora go to pottery?", "answer": "7 May 2023", "evidence": ["D1:1"], "category": 2},
            {"question": "How many bicycles had Theo?", "answer": 1, "evidence": ["D1:4; D2:1"], "category": 1},
            {"question": "Who drove Nora?", "answer": "Ida", "evidence": ["D", "D9:9"], "category": 4},
            {"question": "What did Nora bake?", "answer": "rye bread", "evidence": ["D2:02"], "category": 4},
            {"question": "Might Theo cycle again?", "answer": "Yes; likely", "evidence": [], "category": 3},
            {"question": "Which car was stolen?", "adversarial_answer": "a van", "evidence": ["D2:1"], "category": 5},
            {"question": "", "answer": "x", "evidence": [], "category": 4},
        ],
        "observation": {
            "session_1_observation": {
                "Nora": [["Nora attended a pottery class.", "D1:1"], ["Nora has a sister, Ida.", ["D1:3"]]],
                "Theo": [["Theo bought a red bicycle.", "D1:4"], ["Theo says nothing.", "D7:7"]],
            },
            "session_2_observation": {"Nora": [["Nora baked rye bread.", "D2:2"]]},
        },
    }


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    return _write(tmp_path / "locomo" / "locomo.json", [locomo_object()])


@pytest.fixture
def structmemeval(tmp_path: Path) -> Path:
    home = tmp_path / "structmemeval"
    for number, cities in enumerate((("Lisbon", "Tokyo"), ("Oslo", "Rome")), start=1):
        case = {
            "case_id": f"transition_{number}",
            "sessions": [
                {"session_id": f"session_{place}", "messages": [{"role": "user", "content": f"I live in {city} now."}]}
                for place, city in enumerate(cities, start=1)
            ],
            "queries": [
                {"question": "Where do I live now?", "reference_answer": {"text": cities[1]}},
                {"question": "Where did I live before?", "reference_answer": {"text": cities[0]}},
            ],
        }
        _write(home / "state_tracking" / f"transition_{number}.json", case)
    paid = [{"role": "user", "content": f"Ana: Paid {number} for tea - split with Bo"} for number in range(12)]
    accounting = {
        "case_id": "10%",
        "sessions": [{"session_id": "session_01", "messages": paid, "answers": ["Bo -> Ana : 22", "Bo -> Ana : 33"]}],
    }
    _write(home / "accounting" / "debts.json", accounting)
    _write(home / "notes.json", {"what": "else"})
    return home


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    home = tmp_path / "beam"
    said = [
        {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "My sprint ends on March 29. ->-> 1,1"},
        {"role": "assistant", "id": 1, "content": "Good luck with the sprint."},
    ]
    _write(home / "3" / "chat.json", [{"batch_number": 1, "turns": [said]}])
    questions = {
        "information_extraction": [
            {
                "question": "When does my sprint end?",
                "answer": "On March 29.",
                "source_chat_ids": [0, 77],
                "rubric": ["states March 29", "is polite"],
            }
        ],
        "knowledge_update": [
            {
                "question": "And now?",
                "answer": "The same",
                "source_chat_ids": {"original_info": [0], "updated_info": [[1]]},
                "rubric": [],
            }
        ],
        "abstention": [{"question": "Who won?", "ideal_response": "No information.", "rubric": ["says so"]}],
        "riddles": [{"question": "Why?"}],
    }
    _write(home / "3" / "probing_questions.json", questions)
    return home
