"""Coverage-guided fuzzing of whatever reads what others wrote: each target takes any bytes.

`python tests/fuzzing/harness.py TARGET [libFuzzer options]` runs one with atheris (dependency group `fuzz`); `make fuzz`
runs all. `--list` names the targets, and `--check` calls each with some of its seeds, whole and cut off, without atheris. A
target fails by any exception but the package's own.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[1] / "loaders" / "samples"
NOW = datetime(2024, 3, 15, 12, tzinfo=UTC)
NESTED = 1500
"""Deeper than the JSON parser goes, and short enough for a first line of an export."""
WORK = Path(tempfile.mkdtemp(prefix="dualmem-fuzz-"))

atheris: Any = None
if __name__ == "__main__" and not {"--list", "--check"} & set(sys.argv):
    import atheris  # type: ignore[no-redef] # the stand-in for where it is not installed

with atheris.instrument_imports(include=["dualmem"]) if atheris is not None else nullcontext():
    import dualmem.cli
    from dualmem import context
    from dualmem.chat import Chat
    from dualmem.embedding import Embedder
    from dualmem.errors import DualmemError
    from dualmem.inputs import scope_of, time_of, transcript_of
    from dualmem.integrations.importing import read_mem0_export
    from dualmem.loaders import from_messages, load_file
    from dualmem.prompts.answer import AnswerReply
    from dualmem.prompts.chunk_extraction import ChunkReply
    from dualmem.prompts.consolidation import ConsolidationReply
    from dualmem.prompts.extraction import ExtractionReply
    from dualmem.prompts.gate import GateReply
    from dualmem.reply import partial_text, read_reply
    from dualmem.retrieval.times import find, resolve
    from dualmem.testing import ScriptedChatModel, WordEmbeddings

REPLIES = (AnswerReply, ChunkReply, ConsolidationReply, ExtractionReply, GateReply)

MEM0 = {"results": [{"id": "1", "memory": "Ana owns a boat.", "user_id": "ana", "created_at": "2024-03-15T12:00:00Z"}]}
MESSAGES = [
    {"role": "user", "content": "I moved to Porto.", "timestamp": "2024-03-15T12:00:00Z", "name": "Ana", "id": "1"},
    {"role": "assistant", "content": [{"type": "text", "text": "When?"}], "tool_calls": [{"name": "look", "args": {}}]},
    {"type": "human", "content": "Last week.", "additional_kwargs": {}},
]
REPLY = {
    "memories": [
        {
            "turns": [1],
            "quote": "a boat",
            "text": "Ana owns a boat.",
            "kind": "fact",
            "subject": "Ana",
            "standing": False,
        }
    ],
    "decisions": [{"new": 1, "target": "A", "same": False, "both": True, "sign": "later", "reason": "moved"}],
    "facts": [{"turns": [1], "fact": "Ana owns a boat.", "score": 8}],
    "cites": ["M1"],
    "found": True,
    "answer": "In Porto.",
    "reason": "",
    "relevant": True,
    "faithful": True,
    "complete": False,
    "missing": "when",
}
TIMES = (
    "last week", "two weeks ago", "in March 2023", "on 5 May", "yesterday evening", "between 2020 and 2022", "next Friday",
    "the summer of 1999", "since Christmas", "vor drei Tagen", "el año pasado", "上周五", "2024-03-15", "3/4/2021", "at 5 pm",
    "100,000 years ago", "the day before the wedding", "a fortnight later", "Q3 2021", "in the nineties",
)  # fmt: skip
LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, 10**30, "", " ", "user", "message", "text", "2024-03-15", "\ud800", "\x00", [], {},
    [[]], {"a": None}, "99999-99-99", "2024-03-15T25:61:61Z", 1710504000, 1710504000000, -(10**18), "💬" * 50,
)  # fmt: skip


class Choices:
    """Fuzzed bytes as a row of choices; where they end, the first one is always taken."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, count: int) -> int:
        """Return a number from 0 to `count` - 1."""
        value = next(self._data, 0)
        return (value if count <= 256 else value * 256 + next(self._data, 0)) % count

    def any_of(self, items: Any) -> Any:
        return items[self.below(len(items))]

    def rest(self) -> bytes:
        """Return all that is left; now and then nested deeper than a parser goes."""
        opening = {1: b"[", 2: b'{"a":', 3: b"<think>"}.get(self.below(64), b"")
        return opening * NESTED + bytes(self._data)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(*at, key), *places(value[key], (*at, key))]]


def damaged(sample: Any, choices: Choices) -> Any:
    """Return a sample in which values were replaced, removed, repeated, or put elsewhere."""
    value = copy.deepcopy(sample)
    for _ in range(1 + choices.below(6)):
        inside = places(value)
        if not inside:
            break
        *way, last = choices.any_of(inside)
        holder = value
        for key in way:
            holder = holder[key]
        match choices.below(5):
            case 0:
                holder[last] = choices.any_of(LEAVES)
            case 1:
                del holder[last]
            case 2:
                holder[last] = [holder[last]]
            case 3:
                holder[last] = copy.deepcopy(choices.any_of([holder[last], sample]))
            case _:
                holder[last] = f"{holder[last]}{choices.any_of(LEAVES)}"
    return value


@cache
def samples(*endings: str) -> list[tuple[str, bytes]]:
    """Return the sample files with one of these endings, by name."""
    paths = [path for path in sorted(SAMPLES.rglob("*")) if path.suffix in endings]
    return [(path.name, path.read_bytes()) for path in paths]


def load(raw: bytes) -> None:
    path = WORK / "file"
    path.write_bytes(raw)
    with contextlib.suppress(DualmemError):
        transcripts = load_file(path)
        assert all(transcript.messages for transcript in transcripts)
        assert all(transcript.model_dump_json() for transcript in transcripts)
        assert len({transcript.conversation_id for transcript in transcripts}) == len(transcripts)


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def json_formats(raw: bytes) -> None:
    """The samples of JSON formats, changed inside, so that each loader is met beyond its first look."""
    choices = Choices(raw)
    _, sample = choices.any_of(samples(".json"))
    load(as_bytes(damaged(json.loads(sample), choices)))


def slack_folder(raw: bytes) -> None:
    """A folder of days, as Slack exports a channel."""
    choices = Choices(raw)
    folder = WORK / "channel"
    folder.mkdir(exist_ok=True)
    days = [json.loads(raw) for path in sorted((SAMPLES / "slack").rglob("*.json")) for raw in [path.read_bytes()]]
    for number in range(3):
        (folder / f"2024-03-0{number + 1}.json").write_bytes(as_bytes(damaged(choices.any_of(days), choices)))
    with contextlib.suppress(DualmemError):
        assert load_file(folder)


def text_formats(raw: bytes) -> None:
    """Lines of the samples of text formats in any order, with any bytes between them."""
    choices = Choices(raw)
    _, sample = choices.any_of(samples(".txt", ".md"))
    lines = sample.split(b"\n")
    mixed = [choices.any_of(lines) for _ in range(choices.below(12))]
    load(b"\n".join([lines[0], *mixed, choices.rest()]))


def messages(raw: bytes) -> None:
    choices = Choices(raw)
    value = damaged(MESSAGES, choices)
    before = repr(value)
    with contextlib.suppress(DualmemError):
        from_messages(value, conversation_id="chat")
    for read in (scope_of, time_of, transcript_of):
        with contextlib.suppress(DualmemError):
            read(choices.any_of([value, *value]))
    assert repr(value) == before, "what is the caller's stays as it is"


def mem0_export(raw: bytes) -> None:
    choices = Choices(raw)
    path = WORK / "mem0.json"
    path.write_bytes(as_bytes(damaged(MEM0, choices)) if choices.below(2) else choices.rest())
    with contextlib.suppress(DualmemError):
        read_mem0_export(path)


def times(raw: bytes) -> None:
    """Any phrase, also made of parts of known ones, from any time on."""
    choices = Choices(raw)
    said = choices.any_of([NOW, None, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)])
    prefer = choices.any_of(["past", "future", "nearest"])
    parts = [choices.any_of(choices.any_of(TIMES).split()) for _ in range(choices.below(6))]
    phrase = " ".join([*parts, choices.rest().decode("utf-8", "replace")])
    for interval in (
        resolve(phrase, said, prefer=prefer),
        *(one.interval for one in find(phrase, said, prefer=prefer)),
    ):
        if interval is not None and interval.start is not None and interval.end is not None:
            assert interval.start <= interval.end


def replies(raw: bytes) -> None:
    """A model's reply: a good one changed inside, cut off and dressed up, or any text."""
    choices = Choices(raw)
    output = choices.any_of(REPLIES)
    text = json.dumps(damaged(REPLY, choices), ensure_ascii=bool(choices.below(2)))
    cut = choices.below(len(text) + 1)
    rest = choices.rest().decode("utf-8", "surrogateescape")
    for shown in (text[: cut or None], f"<think>{rest}</think>```json\n{text}\n```", rest + text[cut:], rest):
        with contextlib.suppress(DualmemError):
            assert isinstance(read_reply(shown, output), output)
        assert isinstance(partial_text(shown, "answer"), str)


COMMANDS = (
    ("ingest", "FILE", "--user", "ana"),
    ("ingest", "FILE", "--user", "ana", "--json", "--timezone", "Europe/Berlin"),
    ("import", "FILE", "--user", "ana"),
    ("import", "FILE"),
    ("memories", "list", "--user", "ana", "--as-of", "TEXT"),
    ("rekey", "FILE"),
)


@cache
def _models_without_network() -> None:
    words = WordEmbeddings()
    model = ScriptedChatModel(script={})
    replaced: Any = context
    replaced.make_chat = lambda *_: Chat(model)
    replaced.make_embedder = lambda *_: Embedder(words, name=words.model_name, dimension=words.dimension)
    for name in [name for name in os.environ if name.startswith(("DUALMEM_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_"))]:
        del os.environ[name]
    os.environ.update(DUALMEM_STORE=":memory:", DUALMEM_STRATEGY="verbatim", HOME=str(WORK))
    os.chdir(WORK)


def export_lines() -> list[str]:
    turn = {"type": "turn", "id": "00000000-0000-4000-8000-000000000001", "user_id": "ana", "conversation_id": "chat",
            "position": 0, "speaker": "Ana", "role": "user", "text": "I own a boat.", "state": "read",
            "recorded_at": "2024-03-15T12:00:00Z"}  # fmt: skip
    memory = {"type": "memory", "id": "00000000-0000-4000-8000-000000000002", "user_id": "ana", "conversation_id": "chat",
              "text": "Ana owns a boat.", "kind": "fact", "speaker": "Ana", "subject": "Ana",
              "known_at": "2024-03-15T12:00:00Z", "recorded_at": "2024-03-15T12:00:00Z",
              "sources": [{"turn_id": turn["id"], "quote": "a boat"}]}  # fmt: skip
    header = {"type": "dualmem-export", "version": 1, "user_id": "ana", "exported_at": "2024-03-15T12:00:00Z", "turns": 1,
              "memories": 1}  # fmt: skip
    return [json.dumps(one) for one in (header, turn, memory)]


def command_line(raw: bytes) -> None:
    """Commands that read a file: a result, or one sentence and status 2."""
    _models_without_network()
    choices = Choices(raw)
    path = WORK / "given"
    kind = choices.below(4)
    command = choices.any_of(COMMANDS)
    if kind == 0:
        lines = [json.dumps(damaged(json.loads(line), choices)) for line in export_lines()]
        path.write_text("\n".join(lines), encoding="utf-8")
    elif kind == 1:
        path.write_bytes(as_bytes(damaged(MEM0, choices)))
    elif kind == 2:
        _, sample = choices.any_of(samples(".json", ".txt", ".md", ".jsonl"))
        cut = choices.below(len(sample))
        path.write_bytes(sample[:cut] + choices.rest() + sample[cut:])
    else:
        path.write_bytes(choices.rest())
    text = choices.rest().decode("utf-8", "replace").replace("\0", "") or "2024-03-15"
    sys.argv = ["dualmem", *(str(path) if part == "FILE" else text if part == "TEXT" else part for part in command)]
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            dualmem.cli.main()
        except SystemExit as end:
            status = end.code or 0
    assert status in (0, 1, 2)
    assert "Traceback" not in out.getvalue() + err.getvalue()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "files": load,
    "json-formats": json_formats,
    "slack-folder": slack_folder,
    "text-formats": text_formats,
    "messages": messages,
    "mem0-export": mem0_export,
    "times": times,
    "replies": replies,
    "command-line": command_line,
}


def seeds(target: str) -> Iterator[tuple[str, bytes]]:
    """Yield what a target starts from."""
    if target == "files":
        yield from samples(".json", ".jsonl", ".txt", ".md")
        yield "export", "\n".join(export_lines()).encode()
    elif target == "times":
        for number, phrase in enumerate(TIMES):
            yield str(number), b"\0\0\0" + phrase.encode()
    generator = random.Random(target)  # noqa: S311 - the same bytes each time
    for number in range(40):
        yield f"any-{number}", generator.randbytes(4 + 2 * number)


def main() -> None:
    if "--list" in sys.argv:
        print(*TARGETS, sep="\n")  # noqa: T201 - it is a script
    elif "--check" in sys.argv:
        for name, target in TARGETS.items():
            # Spread over the kinds of seeds: all of them take minutes.
            for _, seed in [*seeds(name)][::7]:
                target(seed)
                target(seed[: len(seed) // 2])
    else:
        name = sys.argv.pop(1)
        corpus = WORK / "corpus"
        corpus.mkdir()
        for number, (_, seed) in enumerate(seeds(name)):
            (corpus / str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, str(corpus)], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
