"""The packages that only the benchmarks need (extra `bench`)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from dualmem.errors import ConfigurationError


@cache
def bench_module(name: str, package: str) -> Any:
    """Return a module of a package that the extra `bench` brings.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        message = f'the package {package} is not installed; the benchmarks need the extra: pip install "dualmem[bench]"'
        raise ConfigurationError(message) from error
