"""The gate's policies: what each says of an answer, case by case."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import pytest

from dualmem import DualMem
from dualmem.config import GatePolicy
from dualmem.context import Context
from dualmem.errors import ModelUnavailable
from dualmem.gating import EVERYTHING, POLICIES, Case, Judgement
from dualmem.records import Answer, EvidenceUnit, Member, Memory, PackedContext
from dualmem.testing import ScriptedChatModel

Open = Callable[..., DualMem]
FAST = Answer(text="In Porto.", memory_ids=("porto",))
ABSTAINED = Answer(text="I do not know.", abstained=True)


@pytest.fixture(scope="session")
def packed(a_memory: Callable[..., Memory]) -> PackedContext:
    """One memory."""
    unit = EvidenceUnit((Member(a_memory("porto", text="Ana lives in Porto."), "current"),), 1.0)
    return PackedContext((unit,), labels={"porto": "M1"})


async def judge(memory: DualMem, policy: Any, packed: PackedContext, answer: Answer = FAST) -> Judgement:
    case = Case(question="Where does Ana live?", answer=answer, packed=packed)
    return await POLICIES[policy](case, Context(memory.settings, memory.resources))


@pytest.mark.parametrize("answer", [FAST, ABSTAINED])
@pytest.mark.parametrize(("policy", "passed"), [("never", True), ("always", False)])
async def test_never_and_always_ask_nobody(
    open_memory: Open,
    packed: PackedContext,
    policy: str,
    passed: bool,
    answer: Answer,
) -> None:
    judgement = await judge(open_memory(), policy, packed, answer)
    assert (judgement.verdict.passed, judgement.verdict.policy, judgement.answer) == (passed, policy, answer)


# quality


@pytest.mark.parametrize(("relevant", "faithful", "complete"), list(product([True, False], repeat=3)))
async def test_quality_passes_only_what_is_good_in_all_three(
    open_memory: Open,
    packed: PackedContext,
    grades: Callable[..., Any],
    relevant: bool,
    faithful: bool,
    complete: bool,
) -> None:
    given = grades(relevant=relevant, faithful=faithful, complete=complete, reason="why", missing="the street")
    judgement = await judge(open_memory(ScriptedChatModel(script={"gate": [given]})), "quality", packed)
    verdict = judgement.verdict
    assert verdict.passed == (relevant and faithful and complete)
    assert (verdict.relevant, verdict.faithful, verdict.complete) == (relevant, faithful, complete)
    assert (verdict.reason, verdict.missing, verdict.readable) == ("why", "the street", True)
    assert judgement.answer == FAST
    assert [call.step for call in judgement.calls] == ["gate"]


async def test_an_abstention_never_passes_and_costs_no_call(open_memory: Open, packed: PackedContext) -> None:
    verdict = (await judge(open_memory(), "quality", packed, ABSTAINED)).verdict
    assert (verdict.passed, verdict.complete, verdict.missing) == (False, False, EVERYTHING)


async def test_an_unreadable_grade_escalates_and_says_so(open_memory: Open, packed: PackedContext) -> None:
    model = ScriptedChatModel(script={"gate": ["fine!"], "repair": ['{"relevant": true, "faithful": true}']})
    verdict = (await judge(open_memory(model), "quality", packed)).verdict
    assert (verdict.passed, verdict.readable) == (False, False)
    assert "complete" in verdict.reason


@pytest.mark.parametrize("policy", ["quality", "majority", "consensus"])
async def test_a_model_that_is_down_is_an_error(open_memory: Open, packed: PackedContext, policy: str) -> None:
    down = ConnectionError("refused")
    memory = open_memory(ScriptedChatModel(script={"gate": down, "answer": down}))
    with pytest.raises(ModelUnavailable):
        await judge(memory, policy, packed)


# majority and consensus


def sampling(agree: Any, best: Any, *, found: tuple[bool, ...] = (True, True, True), **more: Any) -> ScriptedChatModel:
    answers = [
        {"cites": ["M1"], "found": there, "answer": f"answer {number}"} for number, there in enumerate(found, start=1)
    ]
    return ScriptedChatModel(
        script={"answer": answers, "agree": [{"reason": "r", "agree": agree, "best": best}], **more}
    )


TABLE = [
    # the numbers that agree, the best of them, what majority says and what consensus says
    ([1, 2, 3], 2, True, True, "answer 2"),
    ([1, 3], 3, True, False, "answer 3"),
    ([2, 3], 1, True, False, "answer 2"),
    ([2], 2, False, False, None),
    ([], 0, False, False, None),
    ([1, 1, 1], 1, False, False, None),
    ([1, 2, 7], 7, True, False, "answer 1"),
    ([0, -1, 9], 9, False, False, None),
    ([3, 2, 1], 0, True, True, "answer 1"),
]


@pytest.mark.parametrize(("agree", "best", "majority", "consensus", "text"), TABLE)
@pytest.mark.parametrize("policy", ["majority", "consensus"])
async def test_sampled_answers_must_agree(
    open_memory: Open,
    packed: PackedContext,
    policy: str,
    agree: list[int],
    best: int,
    majority: bool,
    consensus: bool,
    text: str | None,
) -> None:
    passed = majority if policy == "majority" else consensus
    judgement = await judge(open_memory(sampling(agree, best)), policy, packed)
    assert judgement.verdict.passed is passed
    assert judgement.answer.text == (text if passed else FAST.text)
    assert judgement.verdict.missing == ("" if passed else EVERYTHING)
    assert [call.step for call in judgement.calls] == [f"gate.{policy}"] * 4


@pytest.mark.parametrize(
    ("policy", "same", "asked"), [("majority", 2, False), ("consensus", 3, False), ("consensus", 2, True)]
)
async def test_answers_that_are_the_same_word_for_word_need_no_judge(
    open_memory: Open, packed: PackedContext, policy: str, same: int, asked: bool
) -> None:
    texts = ["On 7 May.", "on 7 May", "On  7 May", "never"][:same] + ["never", "always"]
    answers = [{"cites": ["M1"], "found": True, "answer": text} for text in texts[:3]]
    model = ScriptedChatModel(script={"answer": answers, "agree": [{"reason": "r", "agree": [], "best": 0}]})
    judgement = await judge(open_memory(model), policy, packed)
    assert judgement.verdict.passed is not asked
    assert len(judgement.calls) == 3 + asked
    assert judgement.answer.text == (FAST.text if asked else "On 7 May.")


async def test_the_best_answer_keeps_its_citations(open_memory: Open, packed: PackedContext) -> None:
    assert (await judge(open_memory(sampling([1, 2], 1)), "majority", packed)).answer.memory_ids == ("porto",)


async def test_agreeing_not_to_know_is_no_pass(open_memory: Open, packed: PackedContext) -> None:
    model = sampling([1, 2, 3], 1, found=(False, False, False))
    judgement = await judge(open_memory(model), "consensus", packed)
    assert (judgement.verdict.passed, judgement.verdict.relevant) == (False, False)


@pytest.mark.parametrize(
    ("candidates", "agree", "passed"), [(5, [1, 2], False), (5, [1, 2, 3], True), (4, [1, 2], False)]
)
async def test_a_majority_is_more_than_half(
    open_memory: Open,
    packed: PackedContext,
    candidates: int,
    agree: list[int],
    passed: bool,
) -> None:
    model = sampling(agree, 1, found=(True,) * candidates)
    judgement = await judge(open_memory(model, candidates=candidates), "majority", packed)
    assert judgement.verdict.passed is passed


async def test_candidates_are_sampled_at_their_own_temperature(open_memory: Open, packed: PackedContext) -> None:
    seen: list[Any] = []

    class Noting(ScriptedChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            seen.append(kwargs.get("temperature"))
            return super()._generate(messages, stop, run_manager, **kwargs)

    model = Noting(script=sampling([1, 2, 3], 1).script)
    await judge(open_memory(model, candidate_temperature=0.9), "majority", packed)
    assert seen == [0.9, 0.9, 0.9, None]


async def test_without_evidence_nothing_is_sampled(open_memory: Open) -> None:
    for policy in ("majority", "consensus"):
        verdict = (await judge(open_memory(), policy, PackedContext(()))).verdict
        assert (verdict.passed, verdict.missing) == (False, EVERYTHING)


async def test_an_unreadable_comparison_escalates_and_says_so(open_memory: Open, packed: PackedContext) -> None:
    judgement = await judge(open_memory(sampling("all", 1, repair=["no"])), "majority", packed)
    assert (judgement.verdict.passed, judgement.verdict.readable, judgement.answer) == (False, False, FAST)
    assert len(judgement.calls) == 5, "three samples, the comparison and its correction were paid for"


@pytest.mark.parametrize(("policy", "passed"), [("majority", True), ("consensus", False)])
async def test_an_unreadable_sample_agrees_with_none(
    open_memory: Open, packed: PackedContext, policy: str, passed: bool
) -> None:
    """Two of three still are a majority, and not all."""
    model = sampling([1, 2], 1, repair=["still no"])
    model.script["answer"][2] = "no"
    verdict = (await judge(open_memory(model), policy, packed)).verdict
    assert (verdict.passed, verdict.readable) == (passed, True)
    assert verdict.reason.startswith("2 of 3 ")


@pytest.mark.parametrize("policy", ["majority", "consensus"])
async def test_where_no_sample_can_be_read_it_escalates(open_memory: Open, packed: PackedContext, policy: str) -> None:
    model = ScriptedChatModel(script={"answer": "no", "repair": "still no"})
    judgement = await judge(open_memory(model), policy, packed)
    assert (judgement.verdict.passed, judgement.verdict.readable, judgement.answer) == (False, False, FAST)


async def test_what_was_sampled_before_is_not_sampled_again(open_memory: Open, packed: PackedContext) -> None:
    model = ScriptedChatModel(script={"agree": [{"reason": "", "agree": [1, 3], "best": 3}]})
    memory = open_memory(model, gate="majority")
    candidates = [Answer(text=text) for text in ("Porto", "Faro", "In Porto")]
    case = Case(question="Where?", answer=candidates[0], packed=packed, candidates=candidates)
    judgement = await POLICIES["majority"](case, Context(memory.settings, memory.resources))
    assert (judgement.verdict.passed, judgement.answer.text, len(judgement.calls)) == (True, "In Porto", 1)


def test_there_is_a_policy_for_every_name() -> None:
    assert set(POLICIES) == set(get_args(GatePolicy))
