"""The chat model over a `LocalServer`: a `ChatOpenAI` that starts its server, and works from any event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import openai
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    from dualmem.local.server import LocalServer

_ANYWHERE = "http://127.0.0.1/v1"
"""Base URL before the server's port is known; `_address` puts in the port."""

_COMPACT = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
"""How LLGuidance is told to leave no choice of white space."""
