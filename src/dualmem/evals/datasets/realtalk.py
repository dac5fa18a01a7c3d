"""REALTALK (arXiv 2502.13270): one chat a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dualmem.errors import EmptyConversation
from dualmem.evals.datasets.locomo import questions
from dualmem.evals.datasets.reading import as_list, json_files, read_json, read_transcripts
from dualmem.evals.samples import Benchmark, Sample
from dualmem.records import Transcript

CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain"}


def load(path: Path) -> Benchmark:
    """Read REALTALK. A turn whose photo was joined to the turn before it leaves evidence ids that point nowhere."""
    skipped: Counter[str] = Counter()
    samples: list[Sample] = []
    transcripts: dict[str, Transcript] = {}
    for file in json_files(path):
        item = read_json(file)
        if not isinstance(item, Mapping) or "qa" not in item:
            skipped["file in another format"] += 1
            continue
        try:
            ((key, transcript),) = read_transcripts(file).items()
        except EmptyConversation:
            skipped["question about a conversation without turns"] += len(as_list(item.get("qa")))
            continue
        transcripts[key] = transcript
        skipped.update({f"conversation: {reason}": count for reason, count in transcript.skipped.items()})
        known = {message.id for message in transcript.messages if message.id}
        samples += questions(key, item, known, CATEGORIES, skipped)
    return Benchmark("realtalk", tuple(samples), transcripts, skipped)
