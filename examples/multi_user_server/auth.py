"""Who may see whose memory, for LangGraph Server: everyone their own.

The server asks `authenticate` for each request and the handlers for what it touches. A run is given the user who is
logged in, whatever its input says; threads and assistants are seen by their owner alone.
"""

from __future__ import annotations

import os
from typing import Any

from langgraph_sdk import Auth

auth = Auth()


def _users() -> dict[str, str]:
    """Return the users by token, from `TOKENS` ("token=user,token=user"); put your identity provider here."""
    return dict(pair.split("=", 1) for pair in os.environ.get("TOKENS", "").split(",") if "=" in pair)


@auth.authenticate
async def authenticate(authorization: str | None) -> str:
    """Return the user of a token."""
    token = (authorization or "").removeprefix("Bearer ")
    user = _users().get(token)
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="unknown token")
    return user


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
    """Mark what is made with its owner, and show nothing else."""
    metadata = value.setdefault("metadata", {})
    metadata["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@auth.on.assistants(actions=["read", "search"])
async def every_assistant(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Let everyone use the graphs themselves."""


@auth.on.threads.create_run
async def own_memory(ctx: Auth.types.AuthContext, value: Any) -> dict[str, str]:
    """Run with the memory of the user who is logged in.

    A run that has no input goes on from a thread's state, which its owner can write: it would run with whatever
    user is named there.
    """
    run = value["kwargs"]
    if not isinstance(run.get("input"), dict) or run.get("command"):
        raise Auth.exceptions.HTTPException(status_code=403, detail="a run starts with an input")
    run["input"]["user_id"] = ctx.user.identity
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@auth.on.crons
@auth.on.store
async def closed(ctx: Auth.types.AuthContext, value: Any) -> bool:  # noqa: ARG001 - LangGraph passes both, by these names
    """Keep shut what nobody needs here: runs by the clock, and the server's own store."""
    return False
