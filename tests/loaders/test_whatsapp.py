from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dualmem.loaders import load_file
from dualmem.records.turn import Transcript

SAMPLES = Path(__file__).parent / "samples"


def read(tmp_path: Path, text: str) -> Transcript:
    path = tmp_path / "chat.txt"
    path.write_text(text, "utf-8")
    (transcript,) = load_file(path)
    assert transcript.source == "WhatsApp export"
    return transcript


def test_androids_export_is_read() -> None:
    (transcript,) = load_file(SAMPLES / "whatsapp_android.txt")

    assert (transcript.source, transcript.conversation_id) == ("WhatsApp export", "whatsapp_android")
    assert [(m.name, m.timestamp, m.content) for m in transcript.messages] == [
        ("Nora", datetime(2023, 12, 31, 22, 15, tzinfo=UTC), "Almost midnight\nare you coming?"),
        ("Theo", datetime(2023, 12, 31, 22, 17, tzinfo=UTC), "on my way"),
        ("Ida", datetime(2024, 1, 1, 0, 5, tzinfo=UTC), "Happy new year: all of you"),
    ]
    assert {m.role for m in transcript.messages} == {"user"}
    assert transcript.skipped == {
        "system line": 2,
        "media without a caption": 1,
        "media with a caption": 1,
        "deleted message": 1,
    }


def test_the_export_of_ios_is_read() -> None:
    zone = ZoneInfo("Europe/Berlin")
    (transcript,) = load_file(SAMPLES / "whatsapp_ios.txt", timezone=zone)

    assert [(m.name, m.timestamp, m.content) for m in transcript.messages] == [
        ("Nora", datetime(2023, 12, 31, 22, 15, 3, tzinfo=zone), "Fast Mitternacht\nkommst du?"),
        ("Theo", datetime(2024, 1, 1, 0, 5, tzinfo=zone), "Prosit 🎉"),
    ]
    assert transcript.skipped == {"system line": 1, "media without a caption": 1}


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("31.12.23 um 22:15 - Nora: Hi", datetime(2023, 12, 31, 22, 15, tzinfo=UTC)),
        ("[31.12.2023 klo 22.15.03] Nora: Hi", datetime(2023, 12, 31, 22, 15, 3, tzinfo=UTC)),
        ("31/12/2023, 10:15 p. m. - Nora: Hi", datetime(2023, 12, 31, 22, 15, tzinfo=UTC)),
        ("12/31/23, 12:15\u202fAM - Nora: Hi", datetime(2023, 12, 31, 0, 15, tzinfo=UTC)),
        ("2023-12-31 22:15 - Nora: Hi", datetime(2023, 12, 31, 22, 15, tzinfo=UTC)),
        ("2023/12/31 下午10:15 - Nora: Hi", datetime(2023, 12, 31, 22, 15, tzinfo=UTC)),
        ("2023/12/31 上午10:15 - Nora: Hi", datetime(2023, 12, 31, 10, 15, tzinfo=UTC)),
        ("[2023-12-31 22:15:03] Nora: Hi", datetime(2023, 12, 31, 22, 15, 3, tzinfo=UTC)),
    ],
)
def test_other_languages_headers_are_read(tmp_path: Path, line: str, moment: datetime) -> None:
    (message,) = read(tmp_path, line).messages

    assert (message.name, message.content, message.timestamp) == ("Nora", "Hi", moment)


@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (["1/2/24, 10:00", "13/2/24, 10:00"], datetime(2024, 2, 1, 10, tzinfo=UTC)),
        (["1/2/24, 10:00", "1/13/24, 10:00"], datetime(2024, 1, 2, 10, tzinfo=UTC)),
        # No number above twelve: the order that runs forwards.
        (["1/2/24, 10:00", "1/3/24, 10:00", "2/1/24, 10:00"], datetime(2024, 1, 2, 10, tzinfo=UTC)),
        (["2/1/24, 10:00 AM", "3/1/24, 10:00 AM", "1/2/24, 10:00 AM"], datetime(2024, 1, 2, 10, tzinfo=UTC)),
        # Nothing to tell by.
        (["1/2/24, 10:00"], datetime(2024, 2, 1, 10, tzinfo=UTC)),
        (["1/2/24, 10:00 AM"], datetime(2024, 1, 2, 10, tzinfo=UTC)),
        (["1.2.24, 10:00 AM"], datetime(2024, 2, 1, 10, tzinfo=UTC)),
    ],
)
def test_day_and_month_are_told_from_the_whole_file(tmp_path: Path, dates: list[str], first: datetime) -> None:
    transcript = read(tmp_path, "\n".join(f"{date} - Nora: Hi" for date in dates))

    assert transcript.messages[0].timestamp == first


def test_a_day_that_does_not_exist_is_no_date(tmp_path: Path) -> None:
    transcript = read(tmp_path, "31/01/24, 10:00 - Nora: Hi\n31/02/24, 10:00 - Nora: Ho")

    assert [m.timestamp is None for m in transcript.messages] == [False, True]
    assert transcript.skipped == {"unreadable timestamp": 1}


def test_what_only_looks_like_media_is_kept(tmp_path: Path) -> None:
    said = ["<html>", "see notes.txt (page three)", "nothing was omitted", "I <3 you"]
    transcript = read(tmp_path, "\n".join(f"31/01/24, 10:00 - Nora: {text}" for text in said))

    assert [m.content for m in transcript.messages] == said


def test_lines_before_the_first_message_are_counted(tmp_path: Path) -> None:
    transcript = read(tmp_path, "Chat of the family\n\n31/01/24, 10:00 - Nora: Hi")

    assert transcript.skipped == {"line before the first message": 1}
