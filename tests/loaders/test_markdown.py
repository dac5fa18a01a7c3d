from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dualmem.errors import UnknownFormat
from dualmem.loaders import load_file
from dualmem.records.turn import Transcript

SAMPLES = Path(__file__).parent / "samples"


def read(tmp_path: Path, text: str) -> Transcript:
    path = tmp_path / "talk.md"
    path.write_text(text, "utf-8")
    (transcript,) = load_file(path)
    assert transcript.source == "Markdown or plain text transcript"
    return transcript


def said(transcript: Transcript) -> list[tuple[str, str | None, str]]:
    return [(m.role, m.name, m.content) for m in transcript.messages]


def test_bold_names_under_dates_are_read() -> None:
    (transcript,) = load_file(SAMPLES / "transcript.md")

    first, second = datetime(2024, 3, 15, tzinfo=UTC), datetime(2024, 3, 16, tzinfo=UTC)
    assert [(m.name, m.timestamp, m.session, m.content) for m in transcript.messages] == [
        (
            "Nora",
            first,
            "2024-03-15",
            "Shall we paint the kitchen?\nGreen, I think.\n\n- white would do too",
        ),
        ("Theo", first, "2024-03-15", "Green it is."),
        ("Nora", second, "March 16, 2024", "Bought it:\n\n```\nTheo: 2 litres\n```"),
        ("Theo", second, "March 16, 2024", "Great."),
    ]
    assert transcript.skipped == {"text before the first speaker": 1}


def test_headings_for_roles_are_read() -> None:
    (transcript,) = load_file(SAMPLES / "headings.md")

    assert said(transcript) == [
        ("user", None, "How tall is it?"),
        ("assistant", None, "Note: about 300 m.\n\n### Details\n\nWith the antenna 330 m."),
    ]


def test_plain_names_are_read_and_other_colons_left_in_the_text() -> None:
    (transcript,) = load_file(SAMPLES / "plain.txt")

    assert said(transcript) == [
        ("user", "Nora", "Shall we go?"),
        ("user", "Theo", "Yes: at ten.\nI will take the train.\nBring: nothing."),
        ("user", "Nora", "Fine"),
        ("user", "Theo", "Bye"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User: Hi\nAssistant: Hello", [("user", None, "Hi"), ("assistant", None, "Hello")]),
        ("user: Hi", [("user", None, "Hi")]),
        ("Ana María: hola\nJosé: adiós", [("user", "Ana María", "hola"), ("user", "José", "adiós")]),
        ("小明: 你好\n小红: 再见", [("user", "小明", "你好"), ("user", "小红", "再见")]),
        ("**You:** Hi\n\n**ChatGPT:** Hello", [("user", None, "Hi"), ("assistant", "ChatGPT", "Hello")]),
        ("- **Nora**: Hi\n- **Theo**: Ho", [("user", "Nora", "Hi"), ("user", "Theo", "Ho")]),
        ("Human:\nHi\nthere\n\nAI:\nHello", [("user", None, "Hi\nthere"), ("assistant", None, "Hello")]),
        (
            "User: look\n```\nnever closed\nAI: yes",
            [("user", None, "look\n```\nnever closed"), ("assistant", None, "yes")],
        ),
    ],
)
def test_speakers_are_told(tmp_path: Path, text: str, expected: list[tuple[str, str | None, str]]) -> None:
    assert said(read(tmp_path, text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Once upon a time there was a fox.\nIt said: nothing.",
        "name: dualmem\nversion: 1\nlicense: MIT",
        "Host: a\nAccept: b\nCookie: c\nOrigin: d\nReferer: e",
        "# Guide\n\nRead this first.\n\n**Note:** it is long.\n\n**Warning:** it is dull.",
        "# Changes\n\n## 1.1\n\n### Added\n\n- a\n\n## 1.0\n\n### Added\n\n- b",
        "## System\n\nLinux\n\n## Model\n\nT1",
        "https://example.com\nhttps://example.org",
        "a,b\n1,2",
    ],
)
def test_what_is_no_transcript_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "talk.md"
    path.write_text(text, "utf-8")

    with pytest.raises(UnknownFormat):
        load_file(path)
