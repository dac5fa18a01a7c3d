"""What tokens cost, by a price table that its user gives: prices change, so none is shipped."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dualmem.errors import ConfigurationError
from dualmem.records import Usage

_MILLION = 1_000_000


class Price(BaseModel):
    """Prices of one model for a million tokens, in whatever currency the table is in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(None, ge=0)
    """Of input that the provider had in its prompt cache; like `input` where it is not given."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the model's name."""

    prices: Mapping[str, Price]

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of `usage`, or None where the table does not have the model."""
        price = self.prices.get(model) or self.prices.get(model.partition(":")[2])
        if price is None:
            return None
        cached = price.input if price.cached is None else price.cached
        fresh = usage.tokens_in - usage.tokens_cached
        return (fresh * price.input + usage.tokens_cached * cached + usage.tokens_out * price.output) / _MILLION


def read_prices(path: Path | None) -> PriceTable:
    """Return the table in a JSON or TOML file: `{"gpt-4o-mini": {"input": 0.15, "output": 0.6}}`.

    Raises:
        ConfigurationError: It cannot be read, or is no price table.
    """
    if path is None:
        return PriceTable({})
    try:
        text = path.expanduser().read_text("utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        return PriceTable(TypeAdapter(dict[str, Price]).validate_python(value))
    except (OSError, ValueError, ValidationError) as error:
        message = f"{str(path)!r} is no price table: {error}"
        raise ConfigurationError(message) from error
