"""What prompts cost, without a model: tokens of every gate policy, and what a prompt cache would have saved.

The graphs run as they are, with a model that gives one fixed reply for each step. What is counted are the prompts it
was sent. Memories are a benchmark's own observations (LoCoMo); where it has none, each turn is one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage

from dualmem.config import Settings
from dualmem.context import Context, Resources
from dualmem.evals.retrieval import fill
from dualmem.evals.samples import Benchmark, Sample
from dualmem.graphs.ingestion import build_ingestion_graph
from dualmem.graphs.recall import build_recall_graph
from dualmem.retrieval.text import count_tokens
from dualmem.stores.opening import open_backend
from dualmem.testing import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "never": {"gate": "never", "memory_filter": "off"},
    "filter": {"gate": "never", "memory_filter": "model"},
    "quality": {"gate": "quality", "memory_filter": "off"},
    "majority": {"gate": "majority", "memory_filter": "off"},
    "consensus": {"gate": "consensus", "memory_filter": "off"},
    "always": {"gate": "always", "memory_filter": "off"},
}
"""The rows of D-Mem's table, from System 1 alone to full deliberation, and the options that make them."""

PAPER_RATIOS: Final[Mapping[str, float]] = {
    "never": 1.0,
    "filter": 3162 / 2186,
    "quality": 12525 / 2186,
    "majority": 7501 / 2186,
    "consensus": 15544 / 2186,
    "always": 34805 / 2186,
}
"""Tokens in of a question against System 1 (D-Mem, LoCoMo, gpt-4o-mini). Not measured here."""

PAPER_FALLBACK: Final = 0.241
"""Share of questions that D-Mem's quality gate sent on (LoCoMo, gpt-4o-mini)."""

_ANSWERS: Final = ("on 7 May 2023, in Lisbon", "in Lisbon, on 7 May 2023", "7 May 2023, at Lisbon...")
"""Of one length, and no two the same word for word: sampled ones have to be compared."""
_PASS: Final = {"reason": "fixed", "relevant": True, "faithful": True, "complete": True, "missing": ""}
_FAIL: Final = {**_PASS, "complete": False, "missing": "the date"}
_FACTS: Final = {"facts": [{"turns": [1], "fact": "It was on 7 May 2023, in Lisbon.", "score": 8}]}
"""One fact a chunk: about what a question finds in a chunk that holds something of use."""


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """One prompt as it was sent."""

    step: str
    text: str
    tokens: int
    hit: float
    """Share of its tokens that an exact-prefix cache would have held from the prompts before it."""


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """Mean cost of one question under one policy."""

    policy: str
    escalated: bool
    """Whether the gate's verdict sent it on to deliberation."""
    calls: float
    tokens_in: float
    cached: float
    """Share of `tokens_in` that an exact-prefix cache would have served."""
    n: int


class PrefixCache:
    """A cache of every prompt that was sent, as a server with room for all of them would have it."""

    def __init__(self) -> None:
        self._sent: list[str] = []

    def send(self, text: str) -> str:
        """Return the longest beginning of `text` that was sent before, and remember `text`.

        Of all texts in order, the two beside it share most with it.
        """
        place = bisect_left(self._sent, text)
        near = self._sent[max(0, place - 1) : place + 1]
        held = max((text[: _common(text, other)] for other in near), key=len, default="")
        insort(self._sent, text)
        return held


def _common(left: str, right: str) -> int:
    """Return how many characters two texts begin with alike."""
    size = min(len(left), len(right))
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def as_text(messages: Sequence[BaseMessage]) -> str:
    """Return a prompt's messages as one text, as a server lays them out before it counts tokens."""
    return "".join(f"<{message.type}>\n{message.text}\n" for message in messages)


def script(*, passes: bool) -> dict[str, Any]:
    """Return fixed replies for every step of recall and deliberation."""
    verdict = _PASS if passes else _FAIL
    answers = cycle(_ANSWERS)
    return {
        "filter": {"keep": ["M1", "T1"]},
        "answer": lambda _: {"cites": [], "found": True, "answer": next(answers)},
        "gate": verdict,
        "agree": {"reason": "fixed", "agree": [1, 2, 3] if passes else [], "best": 1 if passes else 0},
        "deliberate.extract": _FACTS,
        "deliberate.filter": {"keep": [1, 2, 3]},
    }


async def measure_prompts(
    benchmark: Benchmark,
    samples: Sequence[Sample],
    *,
    settings: Settings,
    embeddings: Embeddings,
    folder: Path,
    policies: Sequence[str] = tuple(POLICIES),
) -> tuple[list[PolicyCost], dict[str, list[SentPrompt]]]:
    """Ask all samples under every policy, once with a gate that passes and once with one that does not.

    Args:
        benchmark: The conversations.
        samples: What is asked, in this order.
        settings: Options of recall; the gate is set by policy, and nothing is written back.
        embeddings: The embedding model.
        folder: Where the store is made.
        policies: Which of `POLICIES`.

    Returns:
        Mean costs, and the prompts of each policy (those with a gate that passes) in the order they were sent.
    """
    settings = settings.override({"store": str(folder), "write_back": False})
    backend = open_backend(settings)
    filling = Resources(settings, embeddings=embeddings, backend=backend)
    costs: list[PolicyCost] = []
    sent: dict[str, list[SentPrompt]] = {}
    try:
        for key in dict.fromkeys(sample.conversation for sample in samples):
            await _remember(Context(settings, filling), key, benchmark)
        for policy in policies:
            for passes in (True, False):
                if policy in {"never", "filter", "always"} and not passes:  # the gate's reply does not matter there
                    continue
                model = ScriptedChatModel(script=script(passes=passes))
                resources = Resources(
                    settings.override(POLICIES[policy]), chat_model=model, embeddings=embeddings, backend=backend
                )
                graph = build_recall_graph(resources)
                for sample in samples:
                    given: dict[str, Any] = {"user_id": sample.conversation, "question": sample.question}
                    if sample.asked_at is not None:
                        given["asked_at"] = sample.asked_at
                    await graph.ainvoke(given, context=resources.settings)
                prompts = through_cache(model.prompts)
                if passes:
                    sent[policy] = prompts
                costs.append(_cost(policy, prompts, len(samples), escalated=not passes or policy == "always"))
    finally:
        await filling.close()
    return costs, sent


async def _remember(context: Context, key: str, benchmark: Benchmark) -> None:
    if benchmark.observations:
        await fill(context, key, benchmark)
        return
    given: Any = {"user_id": key, "transcript": benchmark.transcripts[key]}
    options = context.settings.override({"strategy": "verbatim"})
    await build_ingestion_graph(context.resources).ainvoke(given, context=options)


def through_cache(prompts: Sequence[tuple[str, Sequence[BaseMessage]]]) -> list[SentPrompt]:
    """Return prompts with their token counts and what a cache would have held of each."""
    cache = PrefixCache()
    found = []
    for step, messages in prompts:
        text = as_text(messages)
        tokens = count_tokens(text)
        held = count_tokens(cache.send(text))
        found.append(SentPrompt(step, text, tokens, min(1.0, held / tokens) if tokens else 0.0))
    return found


def _cost(policy: str, prompts: Sequence[SentPrompt], questions: int, *, escalated: bool) -> PolicyCost:
    tokens = sum(prompt.tokens for prompt in prompts)
    cached = sum(prompt.tokens * prompt.hit for prompt in prompts)
    return PolicyCost(
        policy=policy,
        escalated=escalated,
        calls=round(len(prompts) / questions, 3),
        tokens_in=round(tokens / questions, 1),
        cached=round(cached / tokens, 4) if tokens else 0.0,
        n=questions,
    )


def shares_by_step(prompts: Sequence[SentPrompt]) -> dict[str, dict[str, float]]:
    """Return, for each step, the prompts sent, their mean tokens, and the mean share a cache would have held."""
    groups: dict[str, list[SentPrompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.step, []).append(prompt)
    return {
        step: {
            "prompts": len(group),
            "tokens": round(sum(prompt.tokens for prompt in group) / len(group), 1),
            "cached_share": round(sum(prompt.hit for prompt in group) / len(group), 4),
        }
        for step, group in groups.items()
    }


def expected(costs: Sequence[PolicyCost], fallback: Mapping[str, float]) -> dict[str, float]:
    """Return the mean tokens of a question by policy, at a given fallback rate of each policy."""
    found: dict[str, float] = {}
    for policy, rate in fallback.items():
        by_route = {cost.escalated: cost.tokens_in for cost in costs if cost.policy == policy}
        if len(by_route) == 2:  # noqa: PLR2004 - both routes were measured
            found[policy] = round((1 - rate) * by_route[False] + rate * by_route[True], 1)
    return found


def rate_of_ratio(costs: Sequence[PolicyCost], policy: str, ratio: float) -> float | None:
    """Return the fallback rate at which a policy would cost `ratio` times System 1; None where there is none."""
    base = next((cost.tokens_in for cost in costs if cost.policy == "never"), 0.0)
    by_route = {cost.escalated: cost.tokens_in for cost in costs if cost.policy == policy}
    if not base or len(by_route) < 2 or by_route[True] == by_route[False]:  # noqa: PLR2004 - both routes
        return None
    rate = (ratio * base - by_route[False]) / (by_route[True] - by_route[False])
    return round(rate, 3) if 0 <= rate <= 1 else None


def ratios(costs: Sequence[PolicyCost], fallback: float = PAPER_FALLBACK) -> list[dict[str, Any]]:
    """Return tokens in of each policy against System 1, beside the paper's.

    The policies that escalate are taken at one fallback rate, that of the paper's quality gate; the rate at which each
    would cost what the paper measured is given with it, since the paper does not tell the others' rates.
    """
    base = next(cost.tokens_in for cost in costs if cost.policy == "never")
    mean = expected(costs, dict.fromkeys(("quality", "majority", "consensus"), fallback))
    found = []
    for policy, paper in PAPER_RATIOS.items():
        row = {cost.escalated: cost for cost in costs if cost.policy == policy}
        if not row:
            continue
        tokens = mean.get(policy, next(iter(row.values())).tokens_in)
        found.append(
            {
                "policy": policy,
                "tokens_in": tokens,
                "ratio": round(tokens / base, 2),
                "paper_ratio": round(paper, 2),
                "fast_ratio": round(row[False].tokens_in / base, 2) if False in row else None,
                "deliberate_ratio": round(row[True].tokens_in / base, 2) if True in row else None,
                "rate_for_paper_ratio": rate_of_ratio(costs, policy, paper),
            }
        )
    return found
