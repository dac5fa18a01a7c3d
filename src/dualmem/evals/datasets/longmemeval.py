"""LongMemEval (arXiv 2410.10813): one file, in which every question has a history of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dualmem.cleaning import clean_label
from dualmem.evals.datasets.evidence import NONE_GIVEN
from dualmem.evals.datasets.reading import as_list, as_text, json_files, mappings, read_json
from dualmem.evals.samples import Benchmark, Sample
from dualmem.loaders.chat import ChatReader
from dualmem.loaders.conversation import Conversation
from dualmem.records import Transcript

_DATE: Final = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?:\s*\([^)]*\))?(?:\s+(\d{1,2}):(\d{2}))?")
"""As in "2023/05/20 (Sat) 02:21"."""


def load(path: Path) -> Benchmark:
    """Read LongMemEval. The turns marked `has_answer` are a question's evidence."""
    skipped: Counter[str] = Counter()
    samples: list[Sample] = []
    transcripts: dict[str, Transcript] = {}
    for file in json_files(path):
        for item in mappings(read_json(file)):
            key = clean_label(item.get("question_id"))
            question, target = as_text(item.get("question")), as_text(item.get("answer"))
            if key is None or key in transcripts or not question or not target:
                skipped["malformed question"] += 1
                continue
            conversation, evidence = _history(item, skipped)
            if not conversation.messages:
                skipped["question about a conversation without turns"] += 1
                continue
            if not evidence:
                skipped[NONE_GIVEN] += 1
            transcripts[key] = conversation.transcript(key, "LongMemEval")
            samples.append(
                Sample(
                    id=key,
                    conversation=key,
                    question=question,
                    target=target,
                    category=as_text(item.get("question_type")) or "unknown",
                    evidence=evidence,
                    asked_at=read_date(item.get("question_date")),
                    answerable=not key.endswith("_abs"),
                )
            )
    return Benchmark("longmemeval", tuple(samples), transcripts, skipped)


def _history(item: Mapping[str, Any], skipped: Counter[str]) -> tuple[Conversation, tuple[str, ...]]:
    """Return the history of one question, in order of time, and the ids of its evidence turns."""
    sessions = as_list(item.get("haystack_sessions"))
    dates = [read_date(value) for value in as_list(item.get("haystack_dates"))]
    names = [clean_label(value) or "" for value in as_list(item.get("haystack_session_ids"))]
    dates += [None] * (len(sessions) - len(dates))
    names += [""] * (len(sessions) - len(names))
    skipped["session without a date"] += sum(date is None for date in dates[: len(sessions)])
    # The oracle file is not sorted; sessions without a date keep their place at the end.
    order = sorted(range(len(sessions)), key=lambda place: (dates[place] is None, dates[place] or _LATEST, place))
    conversation = Conversation(UTC)
    reader = ChatReader(conversation)
    evidence = []
    for place in order:
        turns = sessions[place]
        name = names[place] or f"session_{place + 1}"
        skipped["session without turns"] += not turns
        for number, turn in enumerate(mappings(turns), start=1):
            turn_id = f"{name}:{place + 1}:{number}"
            before = len(conversation.messages)
            reader.add({**turn, "id": turn_id, "timestamp": dates[place]}, name)
            if turn.get("has_answer") is True and len(conversation.messages) > before:
                evidence.append(turn_id)
    skipped.update({f"conversation: {reason}": count for reason, count in conversation.skipped.items()})
    return conversation, tuple(evidence)


_LATEST: Final = datetime.max.replace(tzinfo=UTC)


def read_date(value: object) -> datetime | None:
    """Return the moment a LongMemEval date names, in UTC, or None."""
    match = _DATE.search(value) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
