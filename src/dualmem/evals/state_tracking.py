"""Does the current state of a person's life stay in force, and every earlier one reachable, if extraction is perfect?

A scripted model reads the state-tracking scenarios of StructMemEval as a perfect extractor would: one statement for
each home, and one for each thing the scenario asks about (what is done on Saturdays, what there is for breakfast, who
lives next door). What is left to fail is the lifecycle itself. Run it on a folder of scenarios:

    python -m dualmem.evals.state_tracking FOLDER
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dualmem.errors import InputError
from dualmem.evals.datasets.reading import json_files, mappings, read_json
from dualmem.loaders import load_file
from dualmem.memory import DualMem
from dualmem.testing import ScriptedChatModel, WordEmbeddings

if TYPE_CHECKING:
    from dualmem.records import Memory

_HOME = re.compile(
    r"\bI(?:'m| am)? (?:live in|moving to|relocating to) (.+?)"
    r"(?=,? (?:for|next|and|as|with|this|because|to)\b|[.!?;]|$)"
)
_WORDS: Final = {"saturday": "On Saturdays", "breakfast": "For breakfast", "neighbor": "As a neighbour"}
"""How a statement begins about what a scenario may ask for."""

_HOME_WORDS = "The home of the user"

_TURN = re.compile(r"^\[(\d+)\] user: (.*)$", re.MULTILINE)
_NEW = re.compile(r"^New (\d+): \[N\d+\] (.*)$")
_OLD = re.compile(r"^ +old: \[([A-Z]+)\] (.*)$")


@dataclass(frozen=True, slots=True)
class Tracked:
    """One scenario, ingested."""

    name: str
    expected: Mapping[str, Sequence[str]]
    """The states of each attribute in the order in which they were told."""
    problems: tuple[str, ...]
    """Where the memory differs from that."""
    calls: Mapping[str, int]


def statements(text: str, asked: Sequence[str]) -> list[tuple[str, str]]:
    """Return what a perfect extractor makes of a user's turn: attributes and statements.

    Args:
        text: What the user said.
        asked: Which of the words in `_WORDS` the scenario asks about.
    """
    found = []
    if home := _HOME.search(text):
        found.append(("home", f"{_HOME_WORDS} is in {home[1]}."))
    found += [
        (word, f"{_WORDS[word]} the user has this: {text}")
        for word in asked
        if word in text.casefold() and text.rstrip()[-1:] != "?"
    ]
    return found


def perfect_reader(asked: Sequence[str]) -> ScriptedChatModel:
    """Return a model that extracts and relates without a mistake."""

    def extract(prompt: str) -> dict[str, Any]:
        shown = prompt.partition("<conversation>")[2].partition("</conversation>")[0]
        return {
            "memories": [
                {
                    "turns": [int(number)],
                    "quote": said,
                    "text": text,
                    "kind": "state",
                    "subject": "user",
                    "attribute": attribute,
                }
                for number, said in _TURN.findall(shown)
                for attribute, text in statements(said, asked)
            ]
        }

    return ScriptedChatModel(script={"extract": extract, "consolidate": _decide, "evolve": {"relations": []}})


def _decide(prompt: str) -> dict[str, Any]:
    """A state replaces the one with the same beginning; the same words are the same state."""
    decisions: list[dict[str, Any]] = []
    text = ""
    for line in prompt.partition("<memories>")[2].partition("</memories>")[0].splitlines():
        if new := _NEW.match(line):
            text = new[2].partition(" (")[0]
            decisions.append({"new": int(new[1]), "target": "none", "same": False, "both": True, "sign": ""})
        elif (old := _OLD.match(line)) and decisions[-1]["target"] == "none":
            other = old[2].partition(" (")[0]
            if text.split()[:3] == other.split()[:3]:
                same = text == other
                decisions[-1] |= {"target": old[1], "same": same, "both": same, "sign": "later", "reason": "moved on"}
    return {"decisions": decisions}


async def track(path: Path, **options: Any) -> Tracked:
    """Ingest a scenario file and compare what is in force with what should be.

    Raises:
        InputError: The file is no scenario.
    """
    case = read_json(path)
    if not isinstance(case, Mapping) or not mappings(case.get("queries")):
        complaint = f"{path} is no scenario of StructMemEval: it has no queries"
        raise InputError(complaint)
    (transcript,) = load_file(path)
    question = " ".join(str(query.get("question", "")) for query in mappings(case["queries"])).casefold()
    asked = [word for word in _WORDS if word in question]
    expected: dict[str, list[str]] = {}
    for message in transcript.messages:
        for attribute, text in statements(message.content, asked) if message.role == "user" else []:
            states = expected.setdefault(attribute, [])
            if states[-1:] != [text]:
                states.append(text)
    model = perfect_reader(asked)
    given = {"store": ":memory:", "candidate_similarity": 0.2, "retirements": 200, **options}
    async with DualMem(chat_model=model, embeddings=WordEmbeddings(), **given) as memory:
        await memory.remember(transcript, user_id="user")
        memories = await memory.memories(user_id="user", states=())
        histories = {one.id: await memory.history(one.id, user_id="user") for one in memories if one.active}
    problems = [
        problem
        for attribute, states in expected.items()
        for problem in _problems(attribute, states, memories, histories)
    ]
    return Tracked(
        name=path.stem,
        expected=expected,
        problems=tuple(problems),
        calls={step: model.calls(step) for step in ("extract", "consolidate", "evolve")},
    )


def _problems(
    attribute: str, states: Sequence[str], memories: Sequence[Memory], histories: Mapping[str, Sequence[Memory]]
) -> list[str]:
    mine = [memory for memory in memories if memory.attribute == attribute]
    active = [memory for memory in mine if memory.active]
    current = {memory.text for memory in active}
    if current != {states[-1]}:
        return [f"{attribute}: {sorted(current)} in force instead of {states[-1]!r}"]
    # A state that was said twice stands twice in its chain.
    reached = max(([text for text, _ in groupby(one.text for one in histories[key.id])] for key in active), key=len)
    return [] if reached == list(states) else [f"{attribute}: {reached} can be reached instead of {list(states)}"]


def main(arguments: Sequence[str]) -> int:
    """Track every scenario below the paths in `arguments`; print one JSON object a line, and the sum last."""
    files = [file for argument in arguments for file in json_files(Path(argument))]
    done = [asyncio.run(track(file)) for file in files]
    for one in done:
        states = sum(len(row) for row in one.expected.values())
        line = {"scenario": one.name, "states": states, "problems": one.problems, "calls": one.calls}
        sys.stdout.write(f"{json.dumps(line, ensure_ascii=False)}\n")
    passed = sum(not one.problems for one in done)
    states = sum(len(row) for one in done for row in one.expected.values())
    sys.stdout.write(f"{passed} of {len(done)} scenarios, {states} states\n")
    return 0 if done and passed == len(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
