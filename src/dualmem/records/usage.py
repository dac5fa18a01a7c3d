"""What model calls cost."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class ModelCall(BaseModel):
    """One call to a chat model."""

    model_config = ConfigDict(frozen=True)

    step: str
    """The step that made it: `extract`, `consolidate`, `evolve`, `filter`, `answer`, `gate`, `deliberate.*`."""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    """Part of `tokens_in` that the provider served from its prompt cache."""
    seconds: float = 0.0
    repaired: bool = False


class Usage(BaseModel):
    """Sum of several calls."""

    model_config = ConfigDict(frozen=True)

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    by_step: dict[str, int] = {}
    """Tokens in and out, by step."""

    @classmethod
    def of(cls, calls: Iterable[ModelCall]) -> Usage:
        """Add up `calls`."""
        calls = list(calls)
        by_step: dict[str, int] = {}
        for call in calls:
            by_step[call.step] = by_step.get(call.step, 0) + call.tokens_in + call.tokens_out
        return cls(
            calls=len(calls),
            tokens_in=sum(call.tokens_in for call in calls),
            tokens_out=sum(call.tokens_out for call in calls),
            tokens_cached=sum(call.tokens_cached for call in calls),
            by_step=by_step,
        )
