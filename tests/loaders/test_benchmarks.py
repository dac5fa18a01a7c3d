from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from dualmem.loaders import load_file

SAMPLES = Path(__file__).parent / "samples"


def test_locomo_is_read_with_its_sessions_images_and_dates() -> None:
    transcript, undated = load_file(SAMPLES / "locomo.json")

    assert transcript.source == "LoCoMo"
    assert transcript.conversation_id == "conv-7"
    assert [(m.id, m.session, m.name, m.content) for m in transcript.messages] == [
        ("D2:1", "session_2", "Theo", "The kiln is finally hot."),
        ("D2:2", "session_2", "Nora", "Look at this one! [shares an image: a photo of a blue bowl]"),
        ("D2:3", "session_2", "Theo", "And mine."),
        ("D2:4", "session_2", "Nora", "42"),
        ("D10:1", "session_10", "Nora", "Back from the lake."),
    ]
    assert {m.role for m in transcript.messages} == {"user"}
    assert transcript.messages[0].timestamp == datetime(2022, 6, 1, 0, 30, tzinfo=UTC)
    assert transcript.messages[4].timestamp == datetime(2023, 3, 2, 9, 5, tzinfo=UTC)
    assert transcript.skipped == {
        "image without a caption": 1,
        "malformed message": 2,
        "session without turns": 1,
        "malformed conversation": 1,
    }
    assert undated.conversation_id == "locomo-2"
    assert undated.messages[0].timestamp is None
    assert undated.skipped == {"unreadable timestamp": 1}


def test_one_locomo_object_is_read_as_the_list_is(tmp_path: Path) -> None:
    listed = json.loads((SAMPLES / "locomo.json").read_text("utf-8"))
    path = tmp_path / "anything.bin"
    path.write_text(json.dumps(listed[0]), "utf-8")

    (transcript,) = load_file(path)

    assert transcript.messages == load_file(SAMPLES / "locomo.json")[0].messages


def test_realtalk_is_read_with_a_time_for_each_message() -> None:
    zone = timezone(timedelta(hours=-5))
    (transcript,) = load_file(SAMPLES / "realtalk.json", timezone=zone)

    assert (transcript.source, transcript.conversation_id) == ("REALTALK", "realtalk")
    assert [(m.id, m.session, m.name, m.content) for m in transcript.messages] == [
        ("D1:1", "session_1", "Nora", "Are you up?"),
        ("D1:2", "session_1", "Theo", "[shares an image: a cat on a sofa]"),
    ]
    assert transcript.messages[0].timestamp == datetime(2023, 12, 29, 22, 42, 4, tzinfo=zone)
    assert transcript.skipped == {"session without turns": 1}


def test_beam_is_read_without_its_markers_and_dated_by_batch() -> None:
    (transcript,) = load_file(SAMPLES / "beam.json")

    march, april = datetime(2024, 3, 15, tzinfo=UTC), datetime(2024, 4, 5, tzinfo=UTC)
    assert transcript.source == "BEAM"
    assert [(m.id, m.role, m.session, m.timestamp, m.content) for m in transcript.messages] == [
        ("0", "user", "batch_1", march, "I plan a garden, can you help?"),
        ("1", "assistant", "batch_1", march, "Of course -> start with the soil."),
        ("2", "user", "batch_1", march, "It is clay"),
        ("3", "assistant", "batch_1", march, "Then add sand"),
        ("4", "user", "batch_2", april, "The beans are up."),
    ]
    assert transcript.skipped == {"malformed message": 1}


def test_beam_chats_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for number in ("3", "4"):
        folder = tmp_path / number
        folder.mkdir()
        (folder / "chat.json").write_bytes((SAMPLES / "beam.json").read_bytes())

    names = [load_file(tmp_path / number / "chat.json")[0].conversation_id for number in ("3", "4")]

    assert names == ["chat-3", "chat-4"]


def test_structmemeval_is_read_without_dates() -> None:
    (transcript,) = load_file(SAMPLES / "structmemeval.json")

    assert (transcript.source, transcript.conversation_id) == ("StructMemEval", "static_042")
    assert [(m.role, m.session, m.content) for m in transcript.messages] == [
        ("user", "session_01", "I live in Porto."),
        ("assistant", "session_01", "A fine city."),
        ("user", "session_02", "I moved to Braga."),
    ]
    assert all(m.timestamp is None for m in transcript.messages)
    assert transcript.skipped == {"malformed message": 1, "session without turns": 1}


@pytest.mark.parametrize(
    ("name", "sessions"),
    [
        ("locomo.json", {"session_2"}),
        ("realtalk.json", {"session_1"}),
        ("beam.json", {"batch_1"}),
        ("structmemeval.json", {"session_01"}),
        ("slack", {"2024-03-15"}),
        ("transcript.md", {"2024-03-15"}),
    ],
)
def test_the_first_sessions_can_be_kept(name: str, sessions: set[str]) -> None:
    everything = load_file(SAMPLES / name)[0]
    transcript = load_file(SAMPLES / name, limit_sessions=1)[0]

    assert {m.session for m in transcript.messages} == sessions
    beyond = len(everything.messages) - len(transcript.messages)
    assert transcript.skipped.get("message beyond the session limit", 0) == beyond
    assert load_file(SAMPLES / name, limit_sessions=99)[0] == everything
