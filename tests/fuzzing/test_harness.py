"""The targets of the fuzzing run, and what fuzzing found stays mended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.errors import InputError
from dualmem.integrations.importing import read_mem0_export
from dualmem.integrations.langgraph_store import DualMemStore
from dualmem.transfer import is_export

Make = Callable[..., Any]
HARNESS = Path(__file__).with_name("harness.py")
NESTED = ('{"a":' * 1500, "[" * 5000)


def test_every_target_takes_its_seeds() -> None:
    done = subprocess.run([sys.executable, HARNESS, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("text", NESTED)
def test_json_nested_deeper_than_the_parser_goes(text: str, tmp_path: Path, dualmem: Make) -> None:
    path = tmp_path / "export.json"
    path.write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        read_mem0_export(path)
    assert not is_export(text)
    for command in (("import", str(path)), ("ingest", str(path), "--user", "ana")):
        assert str(path) in dualmem(*command).complaint


@pytest.mark.parametrize("text", NESTED)
async def test_an_export_with_a_line_nested_too_deep(text: str, open_memory: Callable[..., DualMem]) -> None:
    with pytest.raises(InputError, match="line 1 is no JSON"):
        await open_memory().load([text])


async def test_a_memory_that_is_nested_json_is_a_text(open_memory: Callable[..., DualMem]) -> None:
    store = DualMemStore(open_memory(strategy="verbatim"), text_key="text")
    await store.aput(("ana", "memories"), "boat", {"text": NESTED[0]})
    found = await store.aget(("ana", "memories"), "boat")
    assert found is not None
    assert str(found.value["text"]).startswith(NESTED[0][:50])
