"""What a question may cost: how much of the next wave is still to be read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

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

    A call that has begun is paid for whatever it replies, and one that must be repaired or repeated costs twice, so
    the sum can end above a limit by as much. No wave is begun that would be over it by its prompts.
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


def prompt_tokens(prompt: Prompt[chunk_extraction.ChunkReply]) -> int:
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
) -> tuple[list[Chunk], str]:
    """Return those chunks of a wave that the limits allow, from its beginning, and the limit that cut it short.

    What follows the wave (selection, answer, grade) is kept back.

    Raises:
        ConfigurationError: A limit of money is set, and no price.
    """
    if deadline is not None and time.time() >= deadline:
        return [], f"the budget of {options.budget_seconds:g} seconds"
    budget = Budget.of(options)
    if not budget:
        return list(wave), ""
    usage = Usage.of(calls)
    usage = _more(usage, CLOSING_CALLS, CLOSING_TOKENS, 0)
    due: list[Chunk] = []
    for chunk in wave:
        prompt = chunk_extraction.render(
            chunk.earlier,
            chunk.turns,
            question,
            least=options.extraction_score,
            asked_at=asked_at,
            ledger=ledger,
        )
        usage = _more(usage, 1, prompt_tokens(prompt), REPLY_TOKENS)
        if exceeded := budget.exceeded(usage):
            return due, exceeded
        due.append(chunk)
    return due, ""


def _more(usage: Usage, calls: int, tokens_in: int, tokens_out: int) -> Usage:
    return usage.model_copy(
        update={
            "calls": usage.calls + calls,
            "tokens_in": usage.tokens_in + tokens_in,
            "tokens_out": usage.tokens_out + tokens_out,
        }
    )
