from __future__ import annotations

import codecs
import io
import os
import zipfile
from pathlib import Path

import pytest

from dualmem.errors import DualmemError, EmptyConversation, InputError, UnknownFormat
from dualmem.loaders import FORMATS, load_file, reading
from dualmem.loaders.files import FORMATS as REGISTERED

SAMPLES = Path(__file__).parent / "samples"
CHAT = '[{"role": "user", "content": "Grüße aus Köln 👋"}]'


def write(tmp_path: Path, raw: bytes) -> Path:
    path = tmp_path / "chat"
    path.write_bytes(raw)
    return path


def test_every_format_has_a_sample_that_reads_as_it() -> None:
    samples = [path for path in sorted(SAMPLES.iterdir()) if path.is_file()] + [SAMPLES / "slack"]
    sources = {transcript.source for path in samples for transcript in load_file(path)}

    assert sources == set(FORMATS) == set(REGISTERED)


@pytest.mark.parametrize(
    "raw",
    [
        CHAT.encode(),
        codecs.BOM_UTF8 + CHAT.encode(),
        CHAT.encode("utf-16"),
        codecs.BOM_UTF16_BE + CHAT.encode("utf-16-be"),
        CHAT.encode("utf-16-le"),
        CHAT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + CHAT.encode("utf-32-le"),
        b"\n\n " + CHAT.encode() + b"\r\n",
    ],
)
def test_unicode_in_any_encoding_is_read(tmp_path: Path, raw: bytes) -> None:
    (transcript,) = load_file(write(tmp_path, raw))

    assert transcript.messages[0].content == "Grüße aus Köln 👋"
    assert transcript.skipped == {}


def test_single_wrong_bytes_are_replaced_and_counted(tmp_path: Path) -> None:
    (transcript,) = load_file(write(tmp_path, CHAT.encode().replace(b" aus", b" \xffaus")))

    assert transcript.messages[0].content == "Grüße \ufffdaus Köln 👋"
    assert transcript.skipped == {"undecodable byte": 1}


@pytest.mark.parametrize(
    "raw", [CHAT.replace("👋", "").encode("latin-1"), bytes(range(128, 256)), b"\x89PNG\r\n\x1a\n\xff\xfe"]
)
def test_other_encodings_are_not_guessed_at(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(UnknownFormat, match=r"no text in UTF-8 or UTF-16.*save it as UTF-8"):
        load_file(write(tmp_path, raw))


@pytest.mark.parametrize(
    "raw", [b'"Hi"', b"17", b"null", b'{"a": 1}', b"[1, 2]", b"Lorem ipsum dolor.", b"\x00\x01\x02"]
)
def test_an_unknown_format_names_all_that_are_known(tmp_path: Path, raw: bytes) -> None:
    path = write(tmp_path, raw)

    with pytest.raises(UnknownFormat) as caught:
        load_file(path)

    message = str(caught.value)
    assert repr(str(path)) in message
    assert all(name in message for name in FORMATS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CHAT[:-3], "unterminated string starting at line 1, column 30"),
        ('{\n "messages": [\n', "line 3, column 1"),
        ("[" * 100_000, "more than 100 deep"),
        ("[" * 150 + "]" * 150, "more than 100 deep"),
        ("[" + "1" * 5000 + "]", "too many digits"),
    ],
)
def test_broken_json_says_where(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UnknownFormat, match=f"begins like JSON but is not.*{reason}"):
        load_file(write(tmp_path, text.encode()))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" \r\n\t",
        codecs.BOM_UTF8,
        b"[]",
        b"{}",
        b'""',
        b'{"messages": []}',
        b'[{"role": "user", "content": " "}]',
        b'{"conversation": {"session_1": []}}',
        b"31/12/23, 10:15 - Nora: <Media omitted>",
    ],
)
def test_a_file_without_messages_is_an_error(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(EmptyConversation, match="there is no message in"):
        load_file(write(tmp_path, raw))


def test_an_empty_conversation_says_what_was_left_out(tmp_path: Path) -> None:
    with pytest.raises(EmptyConversation, match="left out: 2 empty message"):
        load_file(write(tmp_path, b'[{"role": "user", "content": ""}, {"role": "ai", "content": ""}]'))


def test_a_zip_file_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("chat.json", CHAT)

    with pytest.raises(InputError, match=r"zip file.*unpack it"):
        load_file(write(tmp_path, buffer.getvalue()))


def test_a_file_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 1024**2)

    with pytest.raises(InputError, match="larger than 1 MB"):
        load_file(write(tmp_path, b" " * (1024**2 + 1)))


@pytest.mark.parametrize("name", ["missing.json", "a\x00b", "\ud800", "x" * 5000])
def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="check the path"):
        load_file(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="is not a file"):
        load_file(tmp_path / "pipe")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"[]")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)

    with pytest.raises(InputError, match=r"cannot be read .Permission denied.*permissions"):
        load_file(path)


@pytest.mark.parametrize("options", [{"limit_sessions": 0}, {"limit_sessions": -3}, {"conversation_id": " "}])
def test_arguments_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="leave it out"):
        load_file(SAMPLES / "plain.txt", **options)  # type: ignore[arg-type] # options of many types


def test_every_error_is_one_sentence(tmp_path: Path) -> None:
    for raw in (b"", b"{", b"\xff\xff\xfd", b"PK\x03\x04", b"17"):
        with pytest.raises(DualmemError) as caught:
            load_file(write(tmp_path, raw))
        assert "\n" not in str(caught.value)
        assert ". " not in str(caught.value)
