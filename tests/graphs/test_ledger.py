"""Counting, adding up and measuring time, with a model that only reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dualmem import DualMem, build_deliberation_graph
from dualmem.records import Recollection
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
Make = Callable[..., Any]

EXPENSES = (
    "Nora: I paid 90 euros for the cabin, for all of us.",
    "Omar: What a view!",
    "Omar: Firewood was 24 euros, shared between Nora and me.",
    "Pia: Dinner cost 60 euros, I paid, split among all.",
    "Nora: I got a refund of 30 euros on the cabin for all.",
    "Pia: The stars are so bright here.",
    "Omar: I gave Pia 10 euros.",
    "Nora: Did you see the fox?",
)
OPINIONS = (
    "Mia: I adored that sea novel.",
    "Mia: The heist novel was dull.",
    "Bot: Noted.",
    "Mia: The desert novel was a joy.",
    "Mia: That cookbook is lovely.",
)
_NUMBERED = re.compile(r"^\[(\d+)\] ([^:\n]+): (.*)$", re.MULTILINE)


def entry(number: str, text: str, **record: Any) -> dict[str, Any]:
    blank = {
        "kind": "",
        "who": "",
        "what": "",
        "others": [],
        "amount": "",
        "unit": "",
        "each": False,
        "value": "",
        "date": "",
    }
    return {"turns": [int(number)], "fact": text, "score": 8, **blank, **record}


def shown(prompt: str) -> list[tuple[str, str, str]]:
    return _NUMBERED.findall(prompt.partition("<conversation>")[2].partition("</conversation>")[0])


def read_expenses(prompt: str) -> dict[str, Any]:
    """Read expenses as a careful person would, one after the other."""
    facts = []
    for number, speaker, text in shown(prompt):
        amount = re.search(r"(\d+) euros", text)
        if amount is None:
            continue
        kind = "refund" if "refund" in text else "transfer" if "gave" in text else "payment"
        others = ["Nora", "me"] if "Nora and me" in text else ["Pia"] if kind == "transfer" else ["all"]
        facts.append(
            entry(number, text, kind=kind, who=speaker, what="expense", others=others, amount=amount[1], unit="euros")
        )
    return {"facts": facts}


def read_opinions(prompt: str) -> dict[str, Any]:
    facts = []
    for number, speaker, text in shown(prompt):
        what = next((word for word in ("novel", "cookbook") if word in text), "")
        if what:
            side = "negative" if "dull" in text else "positive"
            facts.append(entry(number, text, kind="opinion", who=speaker, what=what, value=side))
    return {"facts": facts}


def answer_from_computed(prompt: str, start: str) -> dict[str, Any]:
    """Take the computed line that starts so as the answer."""
    line = re.search(rf"\[(C\d+)\] computed: ({re.escape(start)}.*)", prompt)
    assert line is not None, prompt
    return {"cites": [line[1]], "found": True, "answer": line[2]}


async def deliberated(
    open_memory: Open, messages: list[dict[str, Any]], script: dict[str, Any], question: str, **options: Any
) -> tuple[Recollection, ScriptedChatModel]:
    await open_memory(strategy="verbatim").remember(messages, user_id="ana")
    model = ScriptedChatModel(script={"consolidate": {"decisions": []}, **script})
    memory = open_memory(model, **{"chunk_turns": 3, "chunk_overlap": 1, **options})
    graph = build_deliberation_graph(memory.resources)
    return (await graph.ainvoke({"user_id": "ana", "question": question}))["recollection"], model


async def test_who_owes_whom_is_worked_out_in_code(open_memory: Open, chat_of: Make) -> None:
    script = {
        "deliberate.extract": read_expenses,
        "answer": lambda prompt: answer_from_computed(prompt, "settled by"),
    }
    found, model = await deliberated(
        open_memory, chat_of(*EXPENSES), script, "Who owes how much to whom, and how is it settled?", wave_chunks=1
    )
    # paid: Nora 90 - 30, Omar 24, Pia 60; shares: all 120 / 3 = 40 each, firewood 12 each for Nora and Omar;
    # Omar gave Pia 10 more: Nora +60 - 52 = 8, Omar +24 + 10 - 52 = -18, Pia +60 - 10 - 40 = 10
    assert found.answer == "settled by: Omar pays 10 EUR to Pia, Omar pays 8 EUR to Nora"
    assert str(found.coverage) == "read 8 of 8 turns"
    assert "balances: Nora is owed 8 EUR, Omar owes 18 EUR, Pia is owed 10 EUR" in found.computed
    assert model.calls("deliberate.extract") == 3
    assert model.calls("deliberate.filter") == model.calls("gate") == 0


async def test_shares_of_opinions_are_counted_in_code(open_memory: Open, chat_of: Make) -> None:
    script = {
        "deliberate.extract": read_opinions,
        "answer": lambda prompt: answer_from_computed(prompt, "opinions of novel"),
    }
    found, _ = await deliberated(
        open_memory, chat_of(*OPINIONS), script, "What percentage of my comments about novels was positive?"
    )
    assert found.answer == "opinions of novel: 3, of these 1 negative (33.3%), 2 positive (66.7%)"


async def test_every_item_is_counted_though_few_go_into_the_prompt(open_memory: Open, chat_of: Make) -> None:
    lines = [f"Nora: Coffee number {number} cost {number} euros, for all." for number in range(1, 31)]
    script = {
        "deliberate.extract": read_expenses,
        "answer": lambda prompt: answer_from_computed(prompt, "sum of"),
    }
    found, model = await deliberated(
        open_memory, chat_of(*lines), script, "How much did Nora pay in total?", max_facts=5, chunk_turns=60
    )
    assert found.answer.startswith("sum of 30 paid: 465 EUR")
    assert model.prompts[-1][1][-1].text.count("[F") == 5


async def test_the_items_of_a_sum_are_not_written_back(open_memory: Open, chat_of: Make) -> None:
    lines = [f"Nora: Coffee number {number} cost {number} euros, for all." for number in range(1, 31)]
    script = {"deliberate.extract": read_expenses, "answer": lambda prompt: answer_from_computed(prompt, "sum of")}
    found, model = await deliberated(
        open_memory, chat_of(*lines), script, "How much did Nora pay in total?", chunk_turns=60
    )
    assert sum(item.cited for item in found.evidence) == 30
    assert (found.remembered, model.calls("consolidate")) == ((), 0)


async def test_an_amount_that_the_model_worked_out_itself_is_not_added_up(open_memory: Open, chat_of: Make) -> None:
    def adding(prompt: str) -> dict[str, Any]:
        reply = read_expenses(prompt)
        return {"facts": [{**fact, "amount": "1000"} for fact in reply["facts"]]}

    script = {
        "deliberate.extract": adding,
        "answer": {"cites": ["F1"], "found": True, "answer": "90 euros for the cabin."},
    }
    found, _ = await deliberated(open_memory, chat_of(*EXPENSES), script, "What was paid for the cabin in total?")
    assert found.computed == ()


async def test_the_time_between_two_things_is_counted_in_code(open_memory: Open, chat_of: Make) -> None:
    messages = chat_of("Ana: I moved on 2 March 2024.", "Bot: Nice.", "Ana: The party was on 30 March 2024.")

    def read(prompt: str) -> dict[str, Any]:
        return {
            "facts": [
                {"turns": [int(number)], "fact": text.replace("I ", "Ana "), "score": 9}
                for number, _, text in shown(prompt)
                if "2024" in text
            ]
        }

    script = {
        "deliberate.extract": read,
        "answer": lambda prompt: answer_from_computed(prompt, 'from "Ana moved'),
    }
    found, _ = await deliberated(open_memory, messages, script, "How many weeks passed between the move and the party?")
    assert found.answer.endswith("28 days = 4 weeks (whole)")


async def test_a_ledger_can_be_off(open_memory: Open, chat_of: Make) -> None:
    def read(prompt: str) -> dict[str, Any]:
        assert "kind" not in prompt.partition("</conversation>")[2]
        return {
            "facts": [{"turns": [1], "fact": "Nora paid 90 euros for the cabin.", "score": 9}]
            if "cabin" in prompt
            else []
        }

    script = {
        "deliberate.extract": read,
        "answer": {"cites": ["F1"], "found": True, "answer": "90 euros for the cabin."},
    }
    found, _ = await deliberated(
        open_memory, chat_of(*EXPENSES), script, "What was paid for the cabin in total?", ledger=False
    )
    assert (found.answer, found.computed) == ("90 euros for the cabin.", ())
