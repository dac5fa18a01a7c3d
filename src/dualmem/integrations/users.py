"""Whose memory a run works with: never the model's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime

from dualmem.cleaning import clean_user_id
from dualmem.errors import InvalidUser

NO_USER = (
    "no user is known for this run; pass `context={'user_id': ...}` or `config={'configurable': {'user_id': ...}}`, "
    "let the server's authentication name one, or fix `user_id` where the integration is made"
)


def user_of_run(fixed: object = None) -> str:
    """Return the user whose memory the current run works with.

    In this order: `fixed`, which the application set; whom LangGraph Server has authenticated; `user_id` in the
    run's context (a mapping or an object); `user_id` in `config["configurable"]`. What a client sends can
    therefore not name another user than the one that is logged in.

    Raises:
        InvalidUser: None is named, or the one named is blank.
    """
    if fixed is not None:
        return clean_user_id(fixed)
    configurable = _configurable()
    for found in (_authenticated(configurable), _field(_context(), "user_id"), configurable.get("user_id")):
        if found is not None:
            return clean_user_id(found)
    raise InvalidUser(NO_USER)


def _configurable() -> Mapping[str, Any]:
    try:
        return get_config().get("configurable") or {}
    except RuntimeError:  # outside of a run
        return {}


def _context() -> object:
    try:
        runtime: Runtime[Any] | None = get_runtime()
    except (RuntimeError, KeyError):  # outside of a run, or in the run of something that is no graph
        return None
    return None if runtime is None else runtime.context


def _authenticated(configurable: Mapping[str, Any]) -> object:
    """Return the identity that LangGraph Server's authentication gave the run; without one it leaves "" or None."""
    user = configurable.get("langgraph_auth_user")
    identity = _field(user, "identity") if user is not None else None
    return identity or configurable.get("langgraph_auth_user_id") or None


def _field(holder: object, name: str) -> object:
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
