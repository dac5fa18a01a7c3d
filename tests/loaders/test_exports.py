from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dualmem.errors import InputError
from dualmem.loaders import load_file

SAMPLES = Path(__file__).parent / "samples"


def test_chatgpt_follows_the_path_that_was_kept() -> None:
    bread, loop = load_file(SAMPLES / "chatgpt.json")

    assert (bread.source, bread.conversation_id) == ("ChatGPT export", "c-1")
    assert [(m.id, m.role, m.content) for m in bread.messages] == [
        ("m3", "user", "Why is my bread flat?"),
        ("m4", "assistant", "[calls python: print(1)]"),
        ("m5", "assistant", "The yeast was old."),
    ]
    assert bread.messages[0].timestamp == datetime(2024, 3, 9, 16, 0, 20, 250_000, tzinfo=UTC)
    assert bread.skipped == {
        "hidden message": 1,
        "image without a caption": 1,
        "conversation without messages": 1,
    }
    assert loop.conversation_id == "c-2"
    assert [m.content for m in loop.messages] == ["A loop."]
    assert loop.skipped == {"reasoning block": 1}


def test_chatgpt_without_a_current_node_ends_at_the_latest_leaf(tmp_path: Path) -> None:
    conversations = json.loads((SAMPLES / "chatgpt.json").read_text("utf-8"))
    del conversations[0]["current_node"]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(conversations[0]), "utf-8")

    assert [m.id for m in load_file(path)[0].messages] == ["m3", "m4", "m5"]


def test_claude_is_read_from_blocks_or_text() -> None:
    (transcript,) = load_file(SAMPLES / "claude.json")

    assert (transcript.source, transcript.conversation_id) == ("Claude export", "claude-1")
    assert [(m.id, m.role, m.content) for m in transcript.messages] == [
        ("u1", "user", "Plan a trip to Bergen."),
        ("u2", "assistant", "Take the train."),
        ("u3", "user", "Only text here."),
    ]
    assert transcript.messages[0].timestamp == datetime(2024, 5, 1, 8, 0, 1, 123_456, tzinfo=UTC)
    assert transcript.skipped == {
        "attachment": 1,
        "reasoning block": 1,
        "tool call beside text": 1,
        "malformed message": 1,
    }


GENERAL = [
    ("Nora", "2024-03-15", "Hi @Theo C., see the plan (https://example.com/a) in #general & @here"),
    ("Ida", "2024-03-15", "Ask @Ida"),
    ("Theo C.", "2024-03-16", "Done."),
    ("deploys", "2024-03-16", "Version 3 is out"),
]


@pytest.mark.parametrize("folder", ["slack", "slack/general"])
def test_slack_is_read_from_a_folder(folder: str) -> None:
    (transcript,) = load_file(SAMPLES / folder)

    assert (transcript.source, transcript.conversation_id) == ("Slack export", "general")
    assert [(m.name, m.session, m.content) for m in transcript.messages] == GENERAL
    assert {m.role for m in transcript.messages} == {"user"}
    assert transcript.messages[0].id == "1710489660.000200"
    assert transcript.messages[0].timestamp == datetime(2024, 3, 15, 8, 1, 0, 200, tzinfo=UTC)
    assert transcript.skipped == {"system line": 1, "attachment": 1, "empty message": 1}


def test_slack_is_read_from_one_day() -> None:
    (transcript,) = load_file(SAMPLES / "slack/general/2024-03-15.json")

    assert transcript.conversation_id == "2024-03-15"
    assert [(m.name, m.session, m.content) for m in transcript.messages] == GENERAL[:2]


def test_slack_without_members_shows_their_ids_and_counts_bad_days(tmp_path: Path) -> None:
    channel = tmp_path / "export" / "general"
    shutil.copytree(SAMPLES / "slack" / "general", channel)
    (channel / "2024-03-17.json").write_text("[{", "utf-8")
    (channel.parent / "users.json").write_text("{", "utf-8")

    (transcript,) = load_file(channel)

    assert [m.name for m in transcript.messages] == ["U1", "Ida", "U2", "deploys"]
    assert transcript.skipped["unreadable day file"] == 1


@pytest.mark.parametrize("name", ["note.txt", "2024-03-15.json"])
def test_a_folder_without_slack_days_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('[{"role": "user", "content": "Hi"}]', "utf-8")

    with pytest.raises(InputError, match="is a folder and holds no day of a Slack export"):
        load_file(tmp_path)
