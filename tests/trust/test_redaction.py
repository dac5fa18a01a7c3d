"""What is redacted is in no store, index, prompt or export."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dualmem import DualMem
from dualmem.context import Resources
from dualmem.errors import ConfigurationError
from dualmem.graphs.ingestion import build_ingestion_graph
from dualmem.integrations.langgraph_store import DualMemStore
from dualmem.redaction import PresidioRedact
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]

ADDRESS = "mara@example.org"


def without_addresses(text: str) -> str:
    return re.sub(r"[\w.]+@[\w.]+\w", "[EMAIL]", text)


def shown(model: ScriptedChatModel) -> str:
    return "\n".join(message.text for _, messages in model.prompts for message in messages)


async def everything(memory: DualMem, user_id: str = "ana") -> str:
    return "\n".join([line async for line in memory.export(user_id=user_id)])


async def test_what_is_redacted_is_neither_stored_nor_shown(open_memory: Open, reader: Make, chat_of: Make) -> None:
    model = reader(answer={"answer": "[EMAIL]", "cites": [], "found": True})
    memory = open_memory(model, redact=without_addresses, gate="never")
    await memory.remember(chat_of(f"Ana: Ana has the address {ADDRESS}."), user_id="ana")
    (turn,) = await memory.resources.store.turns("ana")
    (made,) = await memory.memories(user_id="ana")
    assert turn.text == made.text == "Ana has the address [EMAIL]."
    await memory.recall(f"Whose address is {ADDRESS}?", user_id="ana")
    await memory.context(f"Whose address is {ADDRESS}?", user_id="ana")
    assert ADDRESS not in shown(model)
    assert "Whose address is [EMAIL]?" in shown(model)
    assert ADDRESS not in await everything(memory)


async def test_the_same_turn_is_known_again(open_memory: Open, reader: Make, chat_of: Make) -> None:
    """By what was said, whatever is left of it: also where what is taken out changes, or differs each time."""
    said = chat_of(f"Ana: Write to {ADDRESS}.", "Ana: Write to other@example.org.")
    numbers = iter(range(100))

    def numbered(text: str) -> str:
        return text.replace(ADDRESS, f"address {next(numbers)}")

    for redact, stored in ((without_addresses, 2), (without_addresses, 0), (numbered, 0), (None, 0)):
        memory = open_memory(reader(), redact=redact)
        receipt = await memory.remember(said, user_id="ana")
        assert (receipt.turns_stored, receipt.turns_known) == (stored, 2 - stored)
        turns = await memory.resources.store.turns("ana")
        assert [turn.text for turn in turns] == ["Write to [EMAIL]."] * 2


async def test_a_graph_of_its_own_redacts(open_memory: Open, reader: Make) -> None:
    memory = open_memory(reader())
    resources = Resources(
        memory.settings, memory.resources.chat_model, memory.resources.embeddings, redact=without_addresses
    )
    graph = build_ingestion_graph(resources)
    await graph.ainvoke({"user_id": "ana", "messages": [("user", f"I am {ADDRESS}.")]})
    assert ADDRESS not in await everything(memory)
    for option in ({"redact": None}, {"suspicious": "keep"}):
        with pytest.raises(ValueError, match="not permitted"):  # whoever starts a run cannot switch it off
            await graph.ainvoke({"user_id": "ana", "messages": [("user", "x")]}, context=option)
    await resources.close()


async def test_what_deliberation_writes_back_is_redacted(open_memory: Open, chat_of: Make, grades: Make) -> None:
    """A model can put back into a fact what it was never shown, as by guessing."""
    fact = {"turns": [1], "fact": f"Ana can be reached at {ADDRESS}.", "score": 9}
    script = {
        "answer": {"answer": "At her address.", "cites": ["F1"], "found": True},
        "gate": [grades(complete=False), grades()],
        "deliberate.extract": {"facts": [fact]},
        "consolidate": {"decisions": []},
        "extract": {"memories": []},
    }
    memory = open_memory(ScriptedChatModel(script=script), redact=without_addresses)
    await memory.remember(chat_of(f"Ana: Ana can be reached at {ADDRESS} best."), user_id="ana")
    found = await memory.recall("How can Ana be reached?", user_id="ana")
    assert found.route == "deliberate"
    assert [one.text for one in await memory.memories(user_id="ana")] == ["Ana can be reached at [EMAIL]."]


async def test_an_import_is_redacted(open_memory: Open, reader: Make, chat_of: Make) -> None:
    raw = open_memory(reader())
    said = chat_of(f"Ana: Ana lives in {ADDRESS}.", "Ana: Ana lives in Porto.")
    await raw.remember(said, user_id="ana")
    assert ADDRESS in await everything(raw)
    lines = [line async for line in raw.export(user_id="ana")]
    clean = open_memory(reader(), redact=without_addresses)
    assert (await clean.load(lines, user_id="bob")).memories_stored == 2
    assert ADDRESS not in await everything(clean, "bob")
    assert (await clean.doctor(user_id="bob"))[0].healthy


async def test_a_value_that_is_put_again_stays(open_memory: Open) -> None:
    memory = open_memory(redact=without_addresses)
    store = DualMemStore(memory)
    for _ in range(2):
        await store.aput(("ana", "memories"), "mail", {"content": f"Ana: {ADDRESS}"})
    assert len(await memory.resources.store.turns("ana")) == 1
    item = await store.aget(("ana", "memories"), "mail")
    assert item is not None
    assert item.value == {"content": "Ana: [EMAIL]"}


async def test_a_turn_of_which_nothing_is_left_is_shown_to_no_model(open_memory: Open, reader: Make) -> None:
    model = reader()
    memory = open_memory(model, redact=lambda text: "" if "secret" in text else text)
    receipt = await memory.remember([("user", "My secret is out."), ("user", "I like tea.")], user_id="ana")
    assert (receipt.turns_stored, receipt.turns_pending) == (2, 0)
    assert [turn.state for turn in await memory.resources.store.turns("ana")] == ["skipped", "read"]


async def test_what_is_left_is_cleaned_like_any_text(open_memory: Open, reader: Make) -> None:
    memory = open_memory(reader(), redact=lambda text: f"{text}<|im_end|>\x00")
    await memory.remember([("user", "I like tea.")], user_id="ana")
    assert [turn.text for turn in await memory.resources.store.turns("ana")] == ["I like tea.< |im_end|>"]


def fails(text: str) -> str:
    raise KeyError(text)


@pytest.mark.parametrize(("redact", "says"), [(fails, "KeyError"), (lambda _: None, "NoneType")])
async def test_where_it_fails_nothing_is_stored(open_memory: Open, reader: Make, redact: Any, says: str) -> None:
    memory = open_memory(reader(), redact=redact)
    with pytest.raises(ConfigurationError, match=says) as raised:
        await memory.remember([("user", f"I am {ADDRESS}.")], user_id="ana")
    assert ADDRESS not in str(raised.value)
    assert await memory.resources.store.turns("ana") == []


async def test_without_the_extra_it_is_named(open_memory: Open, reader: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    memory = open_memory(reader(), redact="presidio")
    with pytest.raises(ConfigurationError, match=re.escape('pip install "dualmem[redact]"')):
        await memory.remember([("user", "I like tea.")], user_id="ana")
    assert await memory.resources.store.turns("ana") == []


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="presidio"):
        DualMem(redact="everything")


# Presidio


@pytest.mark.redact
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Write to mara@example.org, or call +49 30 1234567.", "Write to [EMAIL_ADDRESS], or call [PHONE_NUMBER]."),
        ("Mein Telefon: 212-555-5555 😀", "Mein Telefon: [PHONE_NUMBER] 😀"),
        ("Pay by 4111 1111 1111 1111.", "Pay by [CREDIT_CARD]."),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN [IBAN_CODE]"),
        ("It ran at 192.168.0.1 and 2001:db8::1", "It ran at [IP_ADDRESS] and [IP_ADDRESS]"),
        ("On 2024-05-08 at 12:30:45 ten of us met; order 12345678, pi is 3.14159265, std::vector", None),
        ("", None),
    ],
)
def test_presidio_finds_what_has_a_pattern(text: str, kept: str | None) -> None:
    redact = PresidioRedact()
    assert redact(text) == (text if kept is None else kept)
    assert redact(redact(text)) == redact(text)


@pytest.mark.redact
async def test_presidio_by_name(open_memory: Open, reader: Make, chat_of: Make) -> None:
    memory = open_memory(reader(), redact="presidio")
    await memory.remember(chat_of(f"Ana: Ana has the address {ADDRESS}."), user_id="ana")
    assert [one.text for one in await memory.memories(user_id="ana")] == ["Ana has the address [EMAIL_ADDRESS]."]
