"""The explorer as an ASGI application."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dualmem.errors import DualmemError, InputError, ModelError, NotFound, StoreLocked, UserBusy
from dualmem.evals.prices import PriceTable
from dualmem.explorer.actions import Actions, Forbidden
from dualmem.explorer.guard import Access, Guard
from dualmem.explorer.pages import Pages, Site
from dualmem.explorer.rendering import make_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from dualmem.memory import DualMem

_STATUS: tuple[tuple[type[DualmemError], int], ...] = (
    (Forbidden, 403),
    (InputError, 400),
    (NotFound, 404),
    (StoreLocked, 503),
    (UserBusy, 503),
    (ModelError, 502),
)


def build_app(
    memory: DualMem, access: Access, *, writable: bool = False, prices: PriceTable | None = None
) -> Starlette:
    """Return the explorer of a memory's store.

    Args:
        memory: Whose store is shown; it stays the caller's to close.
        access: The secrets of this run, and the port it is served at.
        writable: Whether undo, forget and writing back are offered.
        prices: What tokens cost; by default nothing is said of costs.
    """
    site = Site(
        memory=memory,
        access=access,
        templates=make_environment(),
        writable=writable,
        prices=prices or PriceTable({}),
    )
    pages = Pages(site)
    actions = Actions(site, pages)

    async def say(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's signature
        assert isinstance(error, DualmemError)  # noqa: S101 - what it is registered for
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        return site.render("error.html", status=status, message=str(error), code=status)

    async def unknown(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the framework's form
        status = getattr(error, "status_code", 404)
        message = "There is no such page." if status == 404 else "This page cannot be asked for in this way."  # noqa: PLR2004 - HTTP's own number
        return site.render("error.html", status=status, message=message, code=status)

    async def favicon(request: Request) -> Response:  # noqa: ARG001 - the framework's form
        return RedirectResponse("/static/icon.svg", status_code=301)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await actions.console.close()

    return Starlette(
        routes=[
            Route("/", pages.users),
            Route("/memories", pages.memories),
            Route("/clock", pages.clocks),
            Route("/memory/{memory_id}", pages.memory),
            Route("/conversations", pages.conversations),
            Route("/conversation", pages.conversation),
            Route("/search", pages.search),
            Route("/console", actions.ask_page, methods=["GET"]),
            Route("/console", actions.ask, methods=["POST"]),
            Route("/runs/{key}", actions.events),
            Route("/undo", actions.undo_page, methods=["GET"]),
            Route("/undo", actions.undo, methods=["POST"]),
            Route("/forget", actions.forget_page, methods=["GET"]),
            Route("/forget", actions.forget, methods=["POST"]),
            Route("/receipts/{key}", actions.receipt),
            Route("/favicon.ico", favicon),
            Mount("/static", StaticFiles(packages=[("dualmem.explorer", "static")])),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={DualmemError: say, 404: unknown, 405: unknown},
        lifespan=lifespan,
    )
