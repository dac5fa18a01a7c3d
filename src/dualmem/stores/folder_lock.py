"""One process at a time has the folder of an embedded store."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from dualmem.errors import StoreLocked

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = ".lock"


class FolderLock:
    """The lock of a folder; it ends with its process, however that ends.

    Qdrant Edge has a lock of its own, but takes it after it opened the segments, and opening them changes files that
    the first process is writing: its next flush fails, and every one after it. So nobody may open them before this
    lock is held.

    Raises:
        StoreLocked: Another process has the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreLocked(
                f"the store at {folder} is open in another process: close that one first, or keep the store on a "
                f"Qdrant server, which many processes share, by giving its URL as the store"
            ) from error

    def release(self) -> None:
        """Let others have the folder, also where a forked child still holds the file."""
        _unlock(self._descriptor)
        os.close(self._descriptor)


if sys.platform == "win32":  # pragma: no cover - not run here
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        # Not `lockf`: that lock ends as soon as anything in this process, a copy of the folder, closes the file.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
