"""Whatever is given (a file, a time, a model's reply, an argument, a line of an export): a result or an error of ours.

`TRUST_EXAMPLES` sets how many examples each test tries, 60 by default; the long form is 2000.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualmem import DualMem
from dualmem.errors import DualmemError, InputError, UnreadableReply
from dualmem.inputs import scope_of, time_of, transcript_of
from dualmem.loaders import from_messages, load_file
from dualmem.loaders.files import FORMATS
from dualmem.prompts.answer import AnswerReply
from dualmem.prompts.chunk_extraction import ChunkReply
from dualmem.prompts.consolidation import ConsolidationReply
from dualmem.prompts.extraction import ExtractionReply
from dualmem.prompts.gate import GateReply
from dualmem.reply import LONGEST_REPLY, partial_text, read_reply
from dualmem.retrieval.times import find, resolve

EXAMPLES = int(os.environ.get("TRUST_EXAMPLES", "60"))
fuzzed = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from('{}[]":,\\u0123456789aeltrufns \n<>/')
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
REPLIES = (AnswerReply, ChunkReply, ConsolidationReply, ExtractionReply, GateReply)
FIELDS = sorted(
    {name for reply in REPLIES for name in reply.model_fields} | {"turns", "quote", "text", "new", "target"}
)


def shaped() -> st.SearchStrategy[Any]:
    """Objects with the fields that are asked for, and anything in them."""
    leaf = JSON | st.sampled_from([True, False, 1, "1", "", "A", [], {}])
    item = st.dictionaries(st.sampled_from(FIELDS), leaf, max_size=6)
    return st.dictionaries(st.sampled_from(FIELDS), leaf | item | st.lists(item, max_size=3), max_size=6)


@fuzzed
@given(value=shaped() | JSON, cut=st.floats(0, 1), before=ANY_TEXT)
def test_any_reply(value: Any, cut: float, before: str) -> None:
    text = before + json.dumps(value, ensure_ascii=False)
    for shown in (text, text[: int(len(text) * cut)]):
        for output in REPLIES:
            with contextlib.suppress(UnreadableReply):
                assert isinstance(read_reply(shown, output), output)
        assert isinstance(partial_text(shown, "answer"), str)


@pytest.mark.parametrize("text", ["{" * 500_000, '{"a":' * 100_000, "[" * 500_000, "<think>" * 100_000, "9" * 900_000,
                                  "x" * (LONGEST_REPLY + 1), '{"answer": "' + "\\" * 400_000])  # fmt: skip
def test_replies_made_to_take_long_are_refused(text: str) -> None:
    with pytest.raises(UnreadableReply):
        read_reply(text, AnswerReply)
    partial_text(text, "answer")


WORDS = ("last", "next", "two", "weeks", "ago", "Monday", "2024", "99999999999", "years", "in", "May", "the", "end", "of",
         "since", "31/02/2023", "0", "-1", "century", "and", "a half", "8 am", "昨天", "vor drei Tagen", "ayer", "٣")  # fmt: skip
PHRASES = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=9).map(" ".join)


@fuzzed
@given(
    phrase=PHRASES | ANY_TEXT,
    said=st.none() | st.datetimes(timezones=st.just(UTC)) | st.just(datetime.min.replace(tzinfo=UTC)),
    prefer=st.sampled_from(["past", "future", "nearest"]),
)
def test_any_words_of_time(phrase: str, said: datetime | None, prefer: Any) -> None:
    for interval in (
        resolve(phrase, said, prefer=prefer),
        *(one.interval for one in find(phrase, said, prefer=prefer)),
    ):
        if interval is not None and interval.start is not None and interval.end is not None:
            assert interval.start <= interval.end


@fuzzed
@given(value=JSON)
def test_anything_as_scope_time_or_transcript(value: Any) -> None:
    for read in (scope_of, time_of, transcript_of):
        with contextlib.suppress(InputError):
            read(value)


MESSAGE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("role", "content", "name", "timestamp", "id", "tool_calls", "type"), JSON)
)


@fuzzed
@given(messages=st.lists(MESSAGE | JSON | st.tuples(JSON, JSON), max_size=5))
def test_any_messages(messages: list[Any]) -> None:
    before = repr(messages)
    with contextlib.suppress(InputError):
        from_messages(messages, conversation_id="chat")
    assert repr(messages) == before, "what is the caller's stays as it is"


@fuzzed
@given(
    raw=st.binary(max_size=200) | ANY_TEXT.map(lambda text: text.encode("utf-16", "surrogatepass")), zone=st.booleans()
)
def test_any_file(tmp_path: Path, raw: bytes, zone: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    with contextlib.suppress(DualmemError):
        assert load_file(path, conversation_id="chat" if zone else None)


# Archives, nesting, paths


def bomb() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../conversations.json", "[" + " " * 20_000_000 + "]")
    return raw.getvalue()


@pytest.mark.parametrize("raw", [bomb(), gzip.compress(b"[" + b" " * 20_000_000)], ids=["zip", "gzip"])
def test_archives_are_not_unpacked(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(raw)
    with pytest.raises(InputError, match="archive"):
        load_file(path)


@pytest.mark.parametrize("raw", ["[" * 100_000, "[" * 5_000 + "]" * 5_000, '{"mapping":' * 5_000 + "1" + "}" * 5_000])
def test_deep_nesting_is_refused(tmp_path: Path, raw: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(raw)
    with pytest.raises(InputError):
        load_file(path)


def test_a_name_in_a_file_is_no_path(tmp_path: Path) -> None:
    """Fields of an export that look like paths are texts; nothing beside the file is opened."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "export.json"
    message = {"role": "user", "content": "see", "name": "../secret.txt", "id": "../../secret.txt",
               "attachments": [{"file": "../secret.txt", "url": secret.as_uri(), "name": str(secret)}]}  # fmt: skip
    path.write_text(json.dumps([message]))
    shown = "".join(transcript.model_dump_json() for transcript in load_file(path))
    assert "hunter2" not in shown
    assert sorted(each.name for each in folder.iterdir()) == ["export.json"]


def test_a_link_out_of_a_folder_of_days_is_not_followed_to_devices(tmp_path: Path) -> None:
    """A day of a Slack export that is no regular file is an error or is left out; it is never waited for."""
    folder = tmp_path / "general"
    folder.mkdir()
    os.mkfifo(folder / "2024-03-01.json")
    (folder / "2024-03-02.json").symlink_to("/dev/zero")
    with contextlib.suppress(InputError):
        load_file(folder)


# An export of ours


@fuzzed
@given(data=st.data())
async def test_any_line_of_an_export(open_memory: Callable[..., DualMem], data: st.DataObject) -> None:
    memory = open_memory(strategy="verbatim")
    if not await memory.memories(user_id="ana", states=()):
        await memory.remember([("user", "I have a boat."), ("user", "I have a house.")], user_id="ana")
    lines = [line async for line in memory.export(user_id="ana")]
    place = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[place])
    if data.draw(st.booleans()):
        record[data.draw(st.sampled_from(sorted(record)))] = data.draw(JSON)
        changed = json.dumps(record)
    else:
        changed = data.draw(JSON.map(json.dumps) | ANY_TEXT)
    with contextlib.suppress(DualmemError):
        await memory.load([*lines[:place], changed, *lines[place + 1 :]], user_id="bea")
    assert {one.text for one in await memory.memories(user_id="ana", states=())} == {
        "I have a boat.",
        "I have a house.",
    }
    assert all(one.user_id == "bea" for one in await memory.memories(user_id="bea", states=()))
    await memory.forget(user_id="bea", everything=True)


# The command line

COMMANDS = (
    "ask",
    "search",
    "ingest",
    "memories",
    "list",
    "show",
    "history",
    "forget",
    "export",
    "import",
    "doctor",
    "undo",
)
OPTIONS = (
    "--user",
    "--json",
    "--as-of",
    "--state",
    "--since",
    "--conversation",
    "--limit",
    "--preset",
    "--set",
    "-x",
    "--",
)
ARGUMENTS = st.lists(
    st.sampled_from((*COMMANDS, *OPTIONS, "ana", "2024-99-99", "-1", "/", "file")) | st.text(max_size=6), max_size=6
)


@settings(fuzzed, max_examples=max(30, EXAMPLES // 4))
@given(first=st.sampled_from(COMMANDS), rest=ARGUMENTS)
def test_any_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, rest: list[str]) -> None:
    from dualmem.cli import main

    monkeypatch.setenv("DUALMEM_STORE", str(tmp_path / "none"))
    monkeypatch.setattr("sys.argv", ["dualmem", first, *(part for part in rest if "\x00" not in part)])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
    assert status in (0, 1, 2)
    assert "Traceback" not in out.getvalue() + err.getvalue()


def test_every_known_format_is_met_by_the_fuzzing_of_samples() -> None:
    assert len(FORMATS) == len(set(FORMATS)) >= 10
