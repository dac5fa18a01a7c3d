from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dualmem.loaders import load_file
from dualmem.records.turn import Transcript

SAMPLES = Path(__file__).parent / "samples"


def read(tmp_path: Path, value: object) -> list[Transcript]:
    path = tmp_path / "chat"
    path.write_text(json.dumps(value), "utf-8")
    return load_file(path)


def test_an_object_of_messages_is_read() -> None:
    (transcript,) = load_file(SAMPLES / "messages.json")

    assert transcript.source == "messages as JSON or JSON Lines"
    assert transcript.conversation_id == "thread-9"
    assert [(m.role, m.name, m.content) for m in transcript.messages] == [
        ("system", None, "Be brief."),
        ("user", "Nora", "Book a table."),
        ("assistant", None, '[calls book: {"for": 2}]'),
        ("tool", "book", "booked for eight"),
        ("assistant", None, "Done, \nat eight."),
    ]
    nine = datetime(2024, 3, 15, 9, tzinfo=UTC)
    assert [m.timestamp for m in transcript.messages] == [
        nine,
        nine,
        datetime(2024, 3, 15, 9, 0, 1, 500_000, tzinfo=UTC),
        None,
        None,
    ]
    assert transcript.skipped == {"unreadable timestamp": 1, "malformed message": 2}


def test_json_lines_are_read_and_a_line_cut_off_is_counted() -> None:
    (transcript,) = load_file(SAMPLES / "messages.jsonl")

    assert [m.content for m in transcript.messages] == ["One line each.", "As you like."]
    assert transcript.skipped == {"malformed line": 1}


def test_a_list_and_a_single_message_are_read(tmp_path: Path) -> None:
    message = {"role": "user", "content": "Hi"}

    assert [m.content for m in read(tmp_path, [message, message])[0].messages] == ["Hi", "Hi"]
    assert [m.content for m in read(tmp_path, message)[0].messages] == ["Hi"]


def test_sessions_give_their_id_and_their_time(tmp_path: Path) -> None:
    said = {"role": "user", "content": "Hi"}
    (transcript,) = read(
        tmp_path,
        {
            "id": 5,
            "sessions": [
                {"id": "a", "date": "2024-03-15", "messages": [said, {**said, "timestamp": "2024-03-16"}]},
                {"messages": [said]},
                {"messages": "none"},
            ],
        },
    )

    assert transcript.conversation_id == "5"
    assert [(m.session, m.timestamp) for m in transcript.messages] == [
        ("a", datetime(2024, 3, 15, tzinfo=UTC)),
        ("a", datetime(2024, 3, 16, tzinfo=UTC)),
        ("session_2", None),
    ]
    assert transcript.skipped == {"malformed session": 1}


def test_several_conversations_are_kept_apart(tmp_path: Path) -> None:
    said = {"messages": [{"role": "user", "content": "Hi"}]}
    values = [{"id": "a", **said}, said, {"id": "a", **said}, {"messages": []}, 3]

    transcripts = read(tmp_path, values)

    assert [transcript.conversation_id for transcript in transcripts] == ["a", "chat-2", "a-3"]
    assert transcripts[0].skipped == {"malformed message": 1, "conversation without messages": 1}


@pytest.mark.parametrize(("count", "names"), [(1, ["mine"]), (2, ["mine-1", "mine-2"])])
def test_a_chosen_id_goes_before_the_files(tmp_path: Path, count: int, names: list[str]) -> None:
    path = tmp_path / "chat.jsonl"
    line = json.dumps({"id": "a", "messages": [{"role": "user", "content": "Hi"}]})
    path.write_text("\n".join([line] * count), "utf-8")

    assert [each.conversation_id for each in load_file(path, conversation_id=" mine ")] == names
