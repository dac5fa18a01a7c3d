"""What a question may cost: how much of the next wave is still to be read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dualmem.chat import Prompt
from dualmem.config import Options
from dualmem.errors import ConfigurationError
from dualmem.prompts import chunk_extraction
from dualmem.records import ModelCall, Usage
from dualmem.retrieval.text import count_tokens
from dualmem.state import Chunk

REPLY_TOKENS: Final = 150
"""Tokens that the reply to one chunk is reckoned with before it is there."""

CLOSING_CALLS: Final = 3
"""Calls kept back for what follows a wave: the selection of facts, the answer, and its grade."""

CLOSING_TOKENS: Final = 3_000
"""Tokens kept back for these calls, with what they reply."""

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one question, each None where there is none.

    A call that has begun is paid for whatever it replies, so that the sum can end above a limit of tokens or money by
    as much as its reply was longer than reckoned. No wave is begun that would be over it by its prompts, and nothing is
    repaired or repeated that would.
    """

    tokens: int | None = None
    calls: int | None = None
    cost: float | None = None
    price_input: float = 0.0
    price_output: float = 0.0
    price_cached: float = 0.0

    @classmethod
    def of(cls, options: Options) -> Budget:
        """Return the limits that the settings name.

        Raises:
            ConfigurationError: A limit of money is set, and no price.
        """
        price = options.price_input
        if options.budget_cost is not None and price is None:
            message = f"budget_cost is {options.budget_cost:g}, and no price is set; set price_input and price_output"
            raise ConfigurationError(message)
        return cls(
            tokens=options.budget_tokens,
            calls=options.budget_calls,
            cost=options.budget_cost,
            price_input=price or 0.0,
            price_output=options.price_output or 0.0,
            price_cached=price or 0.0 if options.price_cached is None else options.price_cached,
        )

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return not (self.tokens is None and self.calls is None and self.cost is None)

    def price(self, usage: Usage) -> float:
        """Return what `usage` costs in money."""
        fresh = usage.tokens_in - usage.tokens_cached
        spent = fresh * self.price_input + usage.tokens_cached * self.price_cached
        return (spent + usage.tokens_out * self.price_output) / _MILLION

    def exceeded(self, usage: Usage) -> str:
        """Return which limit `usage` is over, in words; "" where it is over none."""
        if self.calls is not None and usage.calls > self.calls:
            return f"the budget of {self.calls} calls"
        if self.tokens is not None and usage.tokens_in + usage.tokens_out > self.tokens:
            return f"the budget of {self.tokens} tokens"
        if self.cost is not None and self.price(usage) > self.cost:
            return f"the budget of {self.cost:g}"
        return ""


@dataclass(frozen=True, slots=True)
class Due:
    """What of a wave is read."""

    chunks: tuple[Chunk, ...] = ()
    stopped: str = ""
    """The limit that cut the wave short."""
    spare: tuple[int, ...] | None = None
    """For each chunk the calls that are left over to repair, to repeat or to divide it; None without a limit."""


MOST_SPARE: Final = 8
"""Calls more than one that are kept for a chunk at most."""


def prompt_tokens(prompt: Prompt[Any]) -> int:
    """Estimate the tokens of a prompt."""
    return sum(count_tokens(message.text) for message in prompt.messages)


def affordable(
    wave: Sequence[Chunk],
    calls: Sequence[ModelCall],
    options: Options,
    *,
    question: str,
    asked_at: datetime | None,
    ledger: bool,
    deadline: float | None,
    grades: int = 0,
) -> Due:
    """Return those chunks of a wave that the limits allow, from its beginning.

    What follows the wave (selection, answer, grade) is kept back.

    Args:
        wave: What would be read.
        calls: What was spent.
        options: The limits.
        question: For the size of the prompts.
        asked_at: As above.
        ledger: As above.
        deadline: When the budget of seconds is spent, in seconds since the epoch.
        grades: Calls that come before the wave: the grade that decides whether it is read.

    Raises:
        ConfigurationError: A limit of money is set, and no price.
    """
    if deadline is not None and time.time() >= deadline:
        return Due(stopped=f"the budget of {options.budget_seconds:g} seconds")
    budget = Budget.of(options)
    if not budget:
        return Due(tuple(wave))
    usage = Usage.of(calls)
    closing = CLOSING_CALLS + grades
    usage = _more(usage, closing, closing * CLOSING_TOKENS // CLOSING_CALLS, 0)
    sizes: list[int] = []
    stopped = ""
    for chunk in wave:
        prompt = chunk_extraction.render(
            chunk.earlier,
            chunk.turns,
            question,
            least=options.extraction_score,
            asked_at=asked_at,
            ledger=ledger,
        )
        size = prompt_tokens(prompt)
        more = _more(usage, 1, size, REPLY_TOKENS)
        if stopped := budget.exceeded(more):
            break
        usage = more
        sizes.append(size)
    return Due(tuple(wave[: len(sizes)]), stopped, _spare(sizes, usage, budget))


def _spare(sizes: Sequence[int], usage: Usage, budget: Budget) -> tuple[int, ...]:
    """Share what is left of a budget among the chunks that are read, whose prompts have these tokens, in turns."""
    spare = [0] * len(sizes)
    for _ in range(MOST_SPARE):
        for place, size in enumerate(sizes):
            # A correction shows the reply that it corrects.
            usage = _more(usage, 1, size + REPLY_TOKENS, REPLY_TOKENS)
            if budget.exceeded(usage):
                return tuple(spare)
            spare[place] += 1
    return tuple(spare)


def repairable(prompt: Prompt[Any], calls: Sequence[ModelCall], options: Options, *, after: int) -> bool:
    """Whether the limits allow to send a prompt, to have its reply corrected, and `after` closing calls more."""
    size = prompt_tokens(prompt)
    closing = after * CLOSING_TOKENS // CLOSING_CALLS
    usage = _more(Usage.of(calls), 2 + after, 2 * size + REPLY_TOKENS + closing, 2 * REPLY_TOKENS)
    return not Budget.of(options).exceeded(usage)


def _more(usage: Usage, calls: int, tokens_in: int, tokens_out: int) -> Usage:
    return usage.model_copy(
        update={
            "calls": usage.calls + calls,
            "tokens_in": usage.tokens_in + tokens_in,
            "tokens_out": usage.tokens_out + tokens_out,
        }
    )
