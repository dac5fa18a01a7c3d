"""BEAM (arXiv 2510.27246): folders with `chat.json` and `probing_questions.json`, of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dualmem.errors import InputError
from dualmem.evals.datasets.evidence import NONE_GIVEN, NOWHERE
from dualmem.evals.datasets.reading import as_list, as_text, json_files, mappings, read_json, read_transcripts, texts
from dualmem.evals.samples import Benchmark, Sample
from dualmem.records import Transcript

ABILITIES: Final = (
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "information_extraction",
    "instruction_following",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "summarization",
    "temporal_reasoning",
)
QUESTIONS: Final = "probing_questions.json"
CHAT: Final = "chat.json"
_TARGETS: Final = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")


def load(path: Path) -> Benchmark:
    """Read BEAM: each folder below `path` that holds a chat and its questions.

    Raises:
        InputError: A chat of questions is missing, or two chats have one name.
    """
    skipped: Counter[str] = Counter()
    samples: list[Sample] = []
    transcripts: dict[str, Transcript] = {}
    for file in json_files(path, QUESTIONS):
        chat = _chat_of(file)
        key, transcript = next(iter(read_transcripts(chat).items()))
        if key in transcripts:
            message = f"two chats of BEAM are named {key!r}, the second at {str(chat)!r}; give one size at a time"
            raise InputError(message)
        transcripts[key] = transcript
        skipped.update({f"conversation: {reason}": count for reason, count in transcript.skipped.items()})
        known = {message.id for message in transcript.messages if message.id}
        abilities = read_json(file)
        for ability, asked in abilities.items() if isinstance(abilities, Mapping) else []:
            if ability not in ABILITIES:
                skipped["question of an unknown ability"] += len(as_list(asked))
                continue
            for number, question in enumerate(mappings(asked), start=1):
                sample = _sample(f"{key}/{ability}/{number}", key, ability, question, known, skipped)
                samples += [sample] if sample else []
    return Benchmark("beam", tuple(samples), transcripts, skipped)


def _chat_of(questions: Path) -> Path:
    """Return the chat beside the questions, or (as in the official repository) in the folder above."""
    for folder in (questions.parent, questions.parent.parent):
        if (folder / CHAT).is_file():
            return folder / CHAT
    message = f"there is no {CHAT} beside {str(questions)!r}"
    raise InputError(message)


def _sample(
    sample_id: str, key: str, ability: str, question: Mapping[str, Any], known: set[str], skipped: Counter[str]
) -> Sample | None:
    asked, rubric = as_text(question.get("question")), texts(as_list(question.get("rubric")))
    target = next((text for name in _TARGETS if (text := as_text(question.get(name)))), "; ".join(rubric))
    if not asked or not target:
        skipped["malformed question"] += 1
        return None
    if not rubric:
        skipped["question without a rubric"] += 1
    ids = dict.fromkeys(as_text(value) for value in _leaves(question.get("source_chat_ids")))
    if not ids:
        skipped[NONE_GIVEN] += 1
    skipped[NOWHERE] += sum(each not in known for each in ids)
    return Sample(
        id=sample_id,
        conversation=key,
        question=asked,
        target=target,
        category=ability,
        evidence=tuple(each for each in ids if each in known),
        rubric=rubric,
        answerable=ability != "abstention",
    )


def _leaves(value: object) -> Iterator[object]:
    """Yield the ids in `source_chat_ids`: a list, a list of lists, or an object of lists."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value
