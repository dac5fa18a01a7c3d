"""The graphs as the tests' server serves them: real store, scripted model, embeddings made from words.

The server loads this file by its path. Everything else about the graphs is as the package builds them.
"""

from __future__ import annotations

import re
import time
from typing import Any

from dualmem.config import load_settings
from dualmem.context import Resources
from dualmem.graphs.deliberation import build_deliberation_graph
from dualmem.graphs.ingestion import build_ingestion_graph
from dualmem.graphs.recall import build_recall_graph
from dualmem.testing import ScriptedChatModel, WordEmbeddings

_TURN = re.compile(r"^\[(\d+)\] ([^:\n]+): (.*\.)$", re.MULTILINE)


def extract(prompt: str) -> dict[str, Any]:
    """Make a memory of each turn that ends in a full stop."""
    shown = prompt.partition("<conversation>")[2]
    return {
        "memories": [
            {"turns": [int(number)], "quote": text, "text": text, "subject": speaker}
            for number, speaker, text in _TURN.findall(shown)
        ]
    }


def read(prompt: str) -> dict[str, Any]:
    """Take each turn of a chunk that ends in a full stop for a fact."""
    return {"facts": [{"fact": text, "score": 9, "turns": [int(number)]} for number, _, text in _TURN.findall(prompt)]}


def answer(prompt: str) -> dict[str, Any]:
    """Say the first line of the evidence; take long over a question that asks for it."""
    if "slowly" in prompt:
        time.sleep(15)
    return {"answer": "as it says", "found": True, "cites": ["M1"] if "[M1]" in prompt else ["F1"]}


def grade(prompt: str) -> dict[str, Any]:
    """Find the answer incomplete where the question asks for all of it."""
    complete = "everything" not in prompt
    return {"relevant": True, "faithful": True, "complete": complete, "reason": "by the question", "missing": ""}


resources = Resources(
    load_settings(),
    chat_model=ScriptedChatModel(
        script={
            "extract": extract,
            "consolidate": {"decisions": []},
            "evolve": {"relations": []},
            "answer": answer,
            "gate": grade,
            "deliberate.extract": read,
        }
    ),
    embeddings=WordEmbeddings(),
)
recall = build_recall_graph(resources)
ingestion = build_ingestion_graph(resources)
deliberation = build_deliberation_graph(resources)
