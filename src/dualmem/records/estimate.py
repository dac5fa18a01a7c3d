"""What a question would cost, told before any model is asked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StepCost(BaseModel):
    """The most that one step of a question can cost."""

    model_config = ConfigDict(frozen=True)

    step: str
    calls: int
    tokens_in: int
    tokens_out: int


class Estimate(BaseModel):
    """The least and the most that a question would cost.

    The least is the fast route, the most a deliberation that reads on to the end and writes back. Prompts are counted
    as they would be sent, replies by their limit. What a failed or unreadable call costs when it is repeated is not in
    it.
    """

    model_config = ConfigDict(frozen=True)

    question: str
    policy: str
    turns: int
    """Turns that would be read."""
    chunks: int
    waves: int
    everything: bool
    """Whether the question needs the whole history, so that the first wave is all of it."""
    fast: tuple[StepCost, ...] = ()
    deliberation: tuple[StepCost, ...] = ()
    least_calls: int = 0
    least_tokens: int = 0
    most_calls: int = 0
    most_tokens_in: int = 0
    most_tokens_out: int = 0
    most_cost: float | None = None
    """In the currency of the prices; None where none are set."""
    limited_by: str = ""
    """The budget that would stop it before, "" where none would."""
