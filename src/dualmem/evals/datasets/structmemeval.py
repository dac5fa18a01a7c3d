"""StructMemEval (arXiv 2602.11243): four tasks, scored by question and by scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dualmem.cleaning import clean_label
from dualmem.errors import EmptyConversation
from dualmem.evals.datasets.reading import as_list, as_text, json_files, mappings, read_json, read_transcripts
from dualmem.evals.samples import Benchmark, Sample
from dualmem.records import Transcript

TASKS: Final = ("accounting", "recommendations", "state_tracking", "tree_based")

CHECKPOINTS: Final = (10, 20, 50, 100, 200)
"""Messages after which the accounting task asks its questions; the n-th answer of a session is the state there."""

SETTLEMENT: Final = (
    "Who owes how much to whom? Work out what each person paid and what each one's share is, and list the payments "
    "that settle all debts, each as: [person] pays [amount] to [person]."
)
"""The accounting files hold answers only; the benchmark asks for a settlement plan."""


def load(path: Path) -> Benchmark:
    """Read the cases below `path`; a file's task is told by its folders, or by what it holds.

    A scenario is a case, in accounting a session: all of its questions must be answered right.
    """
    skipped: Counter[str] = Counter()
    samples: list[Sample] = []
    transcripts: dict[str, Transcript] = {}
    for file in json_files(path):
        case = read_json(file)
        if not isinstance(case, Mapping) or not mappings(case.get("sessions")):
            skipped["file in another format"] += 1
            continue
        try:
            transcript = next(iter(read_transcripts(file).values()))
        except EmptyConversation:
            skipped["question about a conversation without turns"] += len(as_list(case.get("queries")))
            continue
        skipped.update({f"conversation: {reason}": count for reason, count in transcript.skipped.items()})
        task = _task(file, case)
        key = f"{task}/{file.stem}"
        if task == "accounting":
            _accounting(key, case, transcript, samples, transcripts, skipped)
        else:
            transcripts[key] = _renamed(transcript, key)
            samples += _queries(key, task, case, skipped)
    return Benchmark("structmemeval", tuple(samples), transcripts, skipped)


def _renamed(transcript: Transcript, key: str) -> Transcript:
    """Return a transcript under the id `key`; the case ids of the files are not unique."""
    return transcript.model_copy(update={"conversation_id": key})


def _task(file: Path, case: Mapping[str, Any]) -> str:
    if any("answers" in session for session in mappings(case.get("sessions"))):
        return "accounting"
    for folder in reversed(file.parts[:-1]):
        for task in TASKS:
            if folder.startswith(task):
                return task
    return clean_label(file.parent.name) or "unknown"


def _queries(key: str, task: str, case: Mapping[str, Any], skipped: Counter[str]) -> list[Sample]:
    samples = []
    for number, query in enumerate(as_list(case.get("queries")), start=1):
        reference = query.get("reference_answer") if isinstance(query, Mapping) else None
        target = as_text(reference.get("text") if isinstance(reference, Mapping) else reference)
        question = as_text(query.get("question")) if isinstance(query, Mapping) else ""
        if not question or not target:
            skipped["malformed question"] += 1
            continue
        samples.append(Sample(f"{key}/{number}", key, question, target, task, scenario=key))
    return samples


def _accounting(
    key: str,
    case: Mapping[str, Any],
    transcript: Transcript,
    samples: list[Sample],
    transcripts: dict[str, Transcript],
    skipped: Counter[str],
) -> None:
    """Add a conversation for each session and checkpoint: the answer there holds for the messages until then."""
    sessions = mappings(case.get("sessions"))
    for position, session in enumerate(sessions, start=1):
        label = clean_label(session.get("session_id")) or f"session_{position}"
        said = tuple(message for message in transcript.messages if message.session == label)
        scenario = f"{key}/{label}"
        answers = as_list(session.get("answers"))
        skipped["answer beyond the checkpoints"] += max(0, len(answers) - len(CHECKPOINTS))
        for checkpoint, answer in zip(CHECKPOINTS, answers, strict=False):
            target = as_text(answer)
            if not target or not said:
                skipped["malformed question"] += 1
                continue
            part = f"{scenario}/{checkpoint}"
            transcripts[part] = _renamed(transcript, part).model_copy(update={"messages": said[:checkpoint]})
            samples.append(Sample(part, part, SETTLEMENT, target, "accounting", scenario=scenario))
