"""How many texts are taken for instructions to a model, of those that are none and of those that are?

Files of conversations tell how often what people say is taken for one: their turns, and the statements that LoCoMo has
of them (`observation`). Files of JSON Lines with `text` and `label` tell how many of each label are:

    python -m dualmem.evals.suspicion FOLDER attacks.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dualmem.cleaning import clean_text
from dualmem.errors import InputError
from dualmem.evals.datasets.reading import json_files, read_json
from dualmem.ingestion.suspicion import suspicion_of
from dualmem.loaders import load_file


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that may read like an instruction."""

    group: str
    """What it is counted with."""
    text: str
    foreign: bool = False
    """Whether somebody else than the user wrote it."""


@dataclass
class Tally:
    """What was found in one group of texts."""

    texts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def marked(self) -> int:
        """How many were taken for instructions."""
        return sum(self.reasons.values())


def samples_of(path: Path) -> Iterator[Sample]:
    """Yield the texts of a file.

    Raises:
        InputError: It can be read neither as a conversation nor as labelled texts.
    """
    if path.suffix == ".jsonl":
        yield from _labelled(path)
        return
    for transcript in load_file(path):
        for message in transcript.messages:
            foreign = message.role != "user"
            yield Sample("turns of others" if foreign else "turns of users", message.content, foreign)
    given = read_json(path)
    for conversation in given if isinstance(given, list) else [given]:
        if isinstance(conversation, dict):
            for text in _statements(conversation.get("observation")):
                yield Sample("statements about users", text)


def _labelled(path: Path) -> Iterator[Sample]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            text, label = str(row["text"]), str(row["label"])
        except (ValueError, KeyError, TypeError) as error:
            message = f"line {number} of {path} is no JSON object with `text` and `label`"
            raise InputError(message) from error
        yield Sample(f"labelled {label}", clean_text(text), row.get("channel", "user_input") != "user_input")


def _statements(value: Any) -> Iterator[str]:
    """Yield the statements of LoCoMo's observations: pairs of a statement and the turns it comes from."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):  # noqa: PLR2004 - a pair
        yield clean_text(value[0])
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _statements(inner)


def tally(samples: Iterable[Sample]) -> tuple[dict[str, Tally], list[tuple[Sample, str]]]:
    """Return what was found in each group, and the texts that were taken for instructions, with the reason."""
    groups: dict[str, Tally] = {}
    marked: list[tuple[Sample, str]] = []
    for sample in samples:
        group = groups.setdefault(sample.group, Tally())
        group.texts += 1
        if reason := suspicion_of(sample.text, foreign=sample.foreign):
            group.reasons[reason] += 1
            marked.append((sample, reason))
    return groups, marked


def main(arguments: Sequence[str]) -> int:
    """Print one JSON object for each text that is taken for an instruction, then the count of each group."""
    paths = [Path(argument) for argument in arguments]
    files = [file for path in paths for file in ([path] if path.suffix == ".jsonl" else json_files(path))]
    groups, marked = tally(sample for file in files for sample in samples_of(file))
    for sample, reason in marked:
        line = {"group": sample.group, "reason": reason, "text": sample.text}
        sys.stdout.write(f"{json.dumps(line, ensure_ascii=False)}\n")
    for name, group in groups.items():
        sys.stdout.write(f"{name}: {group.marked} of {group.texts} read like instructions\n")
    return 0 if groups else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
