"""LoCoMo (arXiv 2402.17753): the official list of conversations, or one conversation a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dualmem.cleaning import clean_label
from dualmem.evals.datasets.evidence import dialogue_ids
from dualmem.evals.datasets.reading import as_list, as_text, json_files, mappings, read_json, read_transcripts
from dualmem.evals.samples import Benchmark, Observation, Sample
from dualmem.records import Transcript

CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
NOT_MENTIONED: Final = "Not mentioned in the conversation"


def load(path: Path, *, adversarial: bool = False) -> Benchmark:
    """Read LoCoMo. Category 5 is counted and left out unless `adversarial` is set, as in the papers."""
    skipped: Counter[str] = Counter()
    samples: list[Sample] = []
    transcripts: dict[str, Transcript] = {}
    observations: dict[str, tuple[Observation, ...]] = {}
    for file in json_files(path):
        objects = [item for item in mappings(read_json(file)) if isinstance(item.get("conversation"), Mapping)]
        if not objects:
            skipped["file in another format"] += 1
            continue
        read = read_transcripts(file)
        for number, item in enumerate(objects, start=1):
            key = clean_label(item.get("sample_id")) or (f"{file.stem}-{number}" if len(objects) > 1 else file.stem)
            if key not in read:
                skipped["question about a conversation without turns"] += len(as_list(item.get("qa")))
                continue
            transcripts[key] = read[key]
            skipped.update({f"conversation: {reason}": count for reason, count in read[key].skipped.items()})
            known = {message.id for message in read[key].messages if message.id}
            samples += questions(key, item, known, CATEGORIES, skipped, adversarial=adversarial)
            observations[key] = _observations(item, known, skipped)
    return Benchmark("locomo", tuple(samples), transcripts, skipped, observations)


def questions(
    key: str,
    item: Mapping[str, Any],
    known: set[str],
    categories: Mapping[int, str],
    skipped: Counter[str],
    *,
    adversarial: bool = False,
) -> list[Sample]:
    """Return the samples of one conversation's `qa`; REALTALK has the same shape.

    Args:
        key: The conversation's.
        item: The object that holds `qa`.
        known: Ids of the conversation's turns.
        categories: Names of the categories by number.
        skipped: Counts by reason, added to.
        adversarial: Take category 5 too.
    """
    samples = []
    for number, qa in enumerate(as_list(item.get("qa")), start=1):
        if not isinstance(qa, Mapping) or not as_text(qa.get("question")):
            skipped["malformed question"] += 1
            continue
        category = categories.get(qa.get("category", 0), "unknown")
        unanswerable = category == "adversarial"
        if unanswerable and not adversarial:
            skipped["adversarial question"] += 1
            continue
        target = NOT_MENTIONED if unanswerable else as_text(qa.get("answer"))
        if not target:
            skipped["question without an answer"] += 1
            continue
        if not isinstance(qa.get("answer", ""), str):
            skipped["numeric answer read as text"] += 1
        samples.append(
            Sample(
                id=f"{key}/{number}",
                conversation=key,
                question=as_text(qa["question"]),
                target=target,
                category=category,
                evidence=dialogue_ids(as_list(qa.get("evidence")), known, skipped),
                answerable=not unanswerable,
            )
        )
    return samples


def _observations(item: Mapping[str, Any], known: set[str], skipped: Counter[str]) -> tuple[Observation, ...]:
    """Return the facts of `observation`: by session and speaker, pairs of a text and the turns it comes from."""
    found = []
    sessions = item.get("observation")
    for session in sessions.values() if isinstance(sessions, Mapping) else []:
        for speaker, facts in session.items() if isinstance(session, Mapping) else []:
            for fact in as_list(facts):
                text = as_text(fact[0]) if isinstance(fact, list) and len(fact) > 1 else ""
                defects: Counter[str] = Counter()
                ids = dialogue_ids(as_list(fact[1]), known, defects) if text else ()
                if ids:
                    found.append(Observation(text, str(speaker), ids))
                else:
                    skipped["observation without a source turn"] += 1
    return tuple(found)
