"""What a graph is given, as its nodes take it: over HTTP records arrive as plain objects, and times as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from dualmem.config import describe_validation
from dualmem.errors import InputError
from dualmem.records import Scope, Transcript


def scope_of(given: Any) -> Scope | None:
    """Return the scope that was given.

    Raises:
        InputError: It is no scope.
    """
    if given is None or isinstance(given, Scope):
        return given
    try:
        return Scope.model_validate(given)
    except ValidationError as error:
        message = f"the scope {given!r} cannot be used: {describe_validation(error)}"
        raise InputError(message) from error


def time_of(given: Any) -> datetime | None:
    """Return when something is asked; a time without a zone is UTC.

    Raises:
        InputError: It is no time.
    """
    if given is None:
        return None
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError as error:
        message = f"asked_at {given!r} is no time; write it like 2024-05-08T13:30:00+00:00"
        raise InputError(message) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def transcript_of(given: Any) -> Transcript | None:
    """Return the transcript that was given.

    Raises:
        InputError: It is no transcript.
    """
    if given is None or isinstance(given, Transcript):
        return given
    try:
        return Transcript.model_validate(given)
    except ValidationError as error:
        message = f"the transcript cannot be used: {describe_validation(error)}"
        raise InputError(message) from error
