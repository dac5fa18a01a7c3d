"""Conversations for the command line, in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def chat_file(tmp_path: Path, chat_of: Callable[..., Any]) -> Callable[..., str]:
    """Write a conversation to a file; return its path."""

    def write(*lines: str, name: str = "chat.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(chat_of(*lines), ensure_ascii=False), encoding="utf-8")
        return str(path)

    return write
