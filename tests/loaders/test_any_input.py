from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmem.errors import DualmemError
from dualmem.loaders import load_file

SAMPLES = Path(__file__).parent / "samples"
JSON_SAMPLES = [json.loads(path.read_text("utf-8")) for path in sorted(SAMPLES.rglob("*.json"))]
TEXT_SAMPLES = [path.read_text("utf-8") for path in sorted(SAMPLES.iterdir()) if path.suffix in {".md", ".txt"}]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["user", "message", "text", "2024-03-15"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "file"


def load(path: Path, raw: bytes) -> None:
    """Load the bytes; every outcome but messages or an error of ours fails the test."""
    path.write_bytes(raw)
    try:
        transcripts = load_file(path)
    except DualmemError:
        return
    for transcript in transcripts:
        assert transcript.messages
        assert transcript.model_dump_json()
    assert len({transcript.conversation_id for transcript in transcripts}) == len(transcripts)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(*at, key), *places(value[key], (*at, key))]]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Return a sample in which a few values were replaced or removed."""
    value = copy.deepcopy(draw(st.sampled_from(JSON_SAMPLES)))
    for _ in range(draw(st.integers(1, 4))):
        inside = places(value)
        if not inside:
            break
        *way, last = draw(st.sampled_from(inside))
        holder = value
        for key in way:
            holder = holder[key]
        if draw(st.booleans()):
            holder[last] = draw(JSON)
        else:
            del holder[last]
    return value


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(path: Path, raw: bytes) -> None:
    load(path, raw)


@settings(deadline=None)
@given(JSON)
def test_any_json(path: Path, value: object) -> None:
    load(path, json.dumps(value).encode())


@settings(deadline=None, max_examples=300)
@given(damaged())
def test_damaged_samples(path: Path, value: object) -> None:
    load(path, json.dumps(value).encode())


@settings(deadline=None)
@given(st.sampled_from(JSON_SAMPLES), st.floats(0, 1))
def test_samples_cut_off(path: Path, value: object, share: float) -> None:
    raw = json.dumps(value).encode()
    load(path, raw[: int(len(raw) * share)])


@settings(deadline=None)
@given(st.sampled_from(TEXT_SAMPLES), st.data())
def test_damaged_texts(path: Path, text: str, data: st.DataObject) -> None:
    lines = data.draw(st.permutations(text.split("\n")))
    position = data.draw(st.integers(0, len(lines)))
    lines.insert(position, data.draw(st.text(st.sampled_from("[]12/.:- ,*#`NAPM\u200e<>\n"), max_size=60)))
    load(path, "\n".join(lines).encode())
