"""Turn what people have, files and messages in hand, into transcripts."""

from __future__ import annotations

from dualmem.loaders.files import FORMATS, load_file
from dualmem.loaders.langchain import from_messages

__all__ = ["FORMATS", "from_messages", "load_file"]
