"""Reading the settings of a run from whatever context it carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.runtime import Runtime
from pydantic import BaseModel

from dualmem.config import Options, load_settings
from dualmem.context import Context, Resources, Span, bound, resolve, shared_resources, wall_times
from dualmem.errors import ConfigurationError
from dualmem.testing import ScriptedChatModel, WordEmbeddings


@dataclass
class HostContext:
    """What a larger graph may carry: its own fields, and some named like ours."""

    tenant: str = "acme"
    gate: str | None = "never"
    top_k: int | None = None


class HostModel(BaseModel):
    tenant: str = "acme"
    gate: str = "never"


@dataclass
class HostWithEntry:
    gate: str = "the host's own gate"
    dualmem: Any = field(default_factory=lambda: {"gate": "never"})


@pytest.fixture
def resources() -> Resources:
    return Resources(load_settings(top_k=7, gate="always"))


CARRIED = {
    "options": Options(gate="never"),
    "a mapping": {"gate": "never"},
    "a mapping with other keys": {"gate": "never", "tenant": "acme", "top_k": None},
    "a mapping with an entry of ours": {"gate": "host's", "dualmem": {"gate": "never"}},
    "an entry that is options": {"dualmem": Options(gate="never")},
    "an object with fields": HostContext(),
    "a pydantic model": HostModel(),
    "a namespace": SimpleNamespace(gate="never", other=1),
    "an object with an entry of ours": HostWithEntry(),
    "an object with options of ours": HostWithEntry(dualmem=Options(gate="never")),
    "an object whose entry is an object": HostWithEntry(dualmem=SimpleNamespace(gate="never")),
}


@pytest.mark.parametrize("given", CARRIED.values(), ids=CARRIED.keys())
def test_options_are_found_in_whatever_a_run_carries(given: object, resources: Resources) -> None:
    context = resolve(given, resources)
    assert (context.settings.gate, context.settings.top_k) == ("never", 7)
    assert context.resources is resources


EMPTY = {
    "nothing": None,
    "an empty mapping": {},
    "other keys only": {"tenant": "acme"},
    "an entry that is None": {"dualmem": None},
    "options that were not set": Options(),
    "an object without fields": object(),
    "a string": "never",
}


@pytest.mark.parametrize("given", EMPTY.values(), ids=EMPTY.keys())
def test_without_options_the_settings_of_the_graph_are_in_force(given: object, resources: Resources) -> None:
    context = resolve(given, resources)
    assert (context.settings.gate, context.settings.top_k) == ("always", 7)


def test_a_context_of_ours_is_taken_as_it_is(resources: Resources) -> None:
    context = Context(load_settings(), Resources(load_settings()))
    assert resolve(context, resources) is context


def test_settings_are_taken_whole(resources: Resources) -> None:
    settings = load_settings(top_k=3)
    assert resolve(settings, resources).settings is settings


def test_an_option_that_cannot_be_is_a_configuration_error(resources: Resources) -> None:
    with pytest.raises(ConfigurationError, match="gate"):
        resolve({"gate": "sometimes"}, resources)


def test_without_resources_the_process_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALMEM_STORE", "somewhere")
    context = resolve({"gate": "never"}, None)
    assert context.settings.store == "somewhere"
    assert resolve(None, None).resources is context.resources
    assert shared_resources(load_settings(store="elsewhere")) is not context.resources


def test_one_chat_is_made_for_equal_settings() -> None:
    resources = Resources(load_settings(), chat_model=ScriptedChatModel(script={}), embeddings=WordEmbeddings())
    first = resources.chat(resources.settings)
    assert resources.chat(resources.settings.override({"gate": "never"})) is first
    assert resources.chat(resources.settings.override({"call_timeout": 1.0})) is not first


async def test_closing_what_was_never_opened_is_nothing() -> None:
    await Resources(load_settings()).close()


async def test_a_bound_node_gets_its_context_and_is_timed(resources: Resources) -> None:
    seen: list[Context] = []

    async def look(state: dict[str, Any], runtime: Runtime[Context]) -> dict[str, Any]:
        seen.append(runtime.context)
        return {"answer": state["question"]}

    runtime: Any = Runtime(context={"gate": "never"})
    update = await bound(look, resources, step="look")({"question": "x"}, runtime)
    assert update["answer"] == "x"
    assert [span.step for span in update["spans"]] == ["look"]
    assert (seen[0].settings.gate, seen[0].resources) == ("never", resources)


def test_wall_times_run_from_the_first_to_the_last_of_a_step() -> None:
    spans = [Span("extract", 10.0, 12.0), Span("extract", 11.0, 15.0), Span("answer", 15.0, 15.5)]
    assert wall_times(spans) == {"extract": 5.0, "answer": 0.5}
