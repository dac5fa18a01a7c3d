"""The pages that only show."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.context import Context
from dualmem.errors import DualmemError, InputError, ModelNotConfigured
from dualmem.explorer.catalogue import (
    CONVERSATIONS_ON_PAGE,
    TURNS_ON_PAGE,
    USERS_ON_PAGE,
    Catalogue,
    Offers,
    UserRow,
)
from dualmem.explorer.drawing import Span, bars, ticks
from dualmem.explorer.views import PAGE, View
from dualmem.memory import DualMem
from dualmem.models import chat_name
from dualmem.records import Scope
from dualmem.searching.search import search as find_evidence

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from dualmem.evals.prices import PriceTable
    from dualmem.explorer.guard import Access

BINS = 48
_HEIGHT = 44.0
_FOUND = 20
"""Evidence units shown of a search."""

_KEPT = 32
"""Densities kept; one costs many counts."""


_FRESH = 20.0
"""Seconds for which a user's counts are shown without counting again; another process may write to a server's store."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands over every page of a user's memories."""

    row: UserRow
    offers: Offers
    told: Span | None
    dated: Span | None


@dataclass
class Site:
    """What every page needs.

    Args:
        memory: Whose store is shown.
        access: The secrets of this run.
        templates: The environment that renders.
        writable: Whether undo, forget and writing back are offered.
        prices: What tokens cost.
        start: The user to begin with, "" for the list of them.
    """

    memory: DualMem
    access: Access
    templates: Environment
    writable: bool
    prices: PriceTable
    start: str = ""
    catalogue: Catalogue = field(init=False)
    densities: OrderedDict[tuple[Any, ...], list[int]] = field(default_factory=OrderedDict)
    _summaries: dict[str, tuple[float, Summary]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the catalogue."""
        self.catalogue = Catalogue(self.memory)

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page; `user` is whose memory it is about, "" for no one's."""
        body = self.templates.get_template(template).render(
            **{
                "user": "",
                "section": "",
                "csrf": self.access.csrf,
                "writable": self.writable,
                "store": self.memory.settings.store,
                **values,
            }
        )
        return HTMLResponse(body, status_code=status)

    async def summary(self, user_id: str) -> Summary:
        """Return what stands over every page of a user's memories, counted a short while ago at most.

        Raises:
            NotFound: Nothing is stored of this user.
        """
        known = self._summaries.get(user_id)
        if known is None or time.monotonic() - known[0] > _FRESH:
            made = Summary(
                row=await self.catalogue.user(user_id),
                offers=await self.catalogue.offers(user_id),
                told=await self.catalogue.told(user_id),
                dated=await self.catalogue.dated(user_id),
            )
            known = self._summaries[user_id] = (time.monotonic(), made)
        return known[1]

    def changed(self) -> None:
        """Forget what was counted, since the store was written to."""
        self.densities.clear()
        self._summaries.clear()


def user_of(request: Request) -> str:
    """Return the user an address is about.

    Raises:
        InvalidUser: It names none.
    """
    return clean_user_id(request.query_params.get("user"))


def page_of(request: Request) -> int:
    """Return the page an address is about, from 1.

    Raises:
        InputError: It is no number of a page.
    """
    page = request.query_params.get("page", "1")
    if not page.isdecimal() or not 1 <= int(page) <= 10**6:
        message = f"there is no page {page!r}"
        raise InputError(message)
    return int(page)


class Pages:
    """The handlers of what is shown."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def users(self, request: Request) -> Response:
        """Show who is remembered, and how much."""
        site, page = self._site, page_of(request)
        names = await site.catalogue.users()
        sought = request.query_params.get("name", "").strip()
        matching = [name for name in names if sought.casefold() in name.casefold()]
        shown = matching[(page - 1) * USERS_ON_PAGE : page * USERS_ON_PAGE]
        rows = [await site.catalogue.user(name) for name in shown]
        return site.render(
            "users.html",
            rows=rows,
            sought=sought,
            total=len(names),
            matching=len(matching),
            page=page,
            pages=_pages(len(matching), USERS_ON_PAGE),
        )

    async def memories(self, request: Request) -> Response:
        """Show a user's memories on two clocks, filtered, a page at a time."""
        site = self._site
        view = View.of(user_of(request), request.query_params)
        summary = await site.summary(view.user_id)
        memories, total = await site.catalogue.page(view)
        return site.render(
            "memories.html",
            user=view.user_id,
            section="memories",
            row=summary.row,
            view=view,
            memories=memories,
            total=total,
            page=view.page,
            pages=_pages(total, PAGE),
            offers=summary.offers,
            told=summary.told,
            dated=summary.dated,
            ticks=ticks,
        )

    async def clocks(self, request: Request) -> Response:
        """Draw how a user's memories lie on a clock; a part of a page, for it costs many counts."""
        site, user_id = self._site, user_of(request)
        clock = "held" if request.query_params.get("clock") == "held" else "known"
        summary = await site.summary(user_id)
        span = summary.dated if clock == "held" else summary.told
        counts = await self._density(user_id, span, clock) if span else []
        drawn = bars(counts, span, _HEIGHT) if span else []
        return site.render("clock.html", user=user_id, bars=drawn, height=_HEIGHT, clock=clock)

    async def _density(self, user_id: str, span: Span, clock: str) -> list[int]:
        kept = self._site.densities
        key = (user_id, clock, span, await self._site.memory.resources.store.count(user_id))
        if key not in kept:
            kept[key] = await self._site.catalogue.density(user_id, span, BINS, clock=clock)
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return kept[key]

    async def memory(self, request: Request) -> Response:
        """Show a memory with everything that explains it."""
        site, user_id = self._site, user_of(request)
        portrait = await site.catalogue.portrait(user_id, request.path_params["memory_id"])
        return site.render(
            "memory.html",
            user=user_id,
            section="memories",
            portrait=portrait,
            memory=portrait.memory,
            decisions=(await site.memory.why(portrait.memory.id, user_id=user_id)).decisions if site.writable else (),
            told=(await site.summary(user_id)).told,
            ticks=ticks,
        )

    async def conversations(self, request: Request) -> Response:
        """Show a user's conversations."""
        site, user_id, page = self._site, user_of(request), page_of(request)
        await site.catalogue.user(user_id)
        conversations = await site.catalogue.conversations(user_id)
        shown = list(conversations.items())[(page - 1) * CONVERSATIONS_ON_PAGE : page * CONVERSATIONS_ON_PAGE]
        return site.render(
            "conversations.html",
            user=user_id,
            section="conversations",
            conversations=shown,
            total=len(conversations),
            turns=sum(conversations.values()),
            page=page,
            pages=_pages(len(conversations), CONVERSATIONS_ON_PAGE),
        )

    async def conversation(self, request: Request) -> Response:
        """Show a conversation's turns, and what each gave rise to."""
        site, user_id, page = self._site, user_of(request), page_of(request)
        name = request.query_params.get("id", "")
        rows, total = await site.catalogue.conversation(user_id, name, page)
        return site.render(
            "conversation.html",
            user=user_id,
            section="conversations",
            name=name,
            rows=rows,
            total=total,
            page=page,
            pages=_pages(total, TURNS_ON_PAGE),
        )

    async def search(self, request: Request) -> Response:
        """Show what a question finds, and what each ranking gave to it; no chat model is called."""
        site, user_id = self._site, user_of(request)
        await site.catalogue.user(user_id)
        question = clean_text(request.query_params.get("q", "")).strip()
        view = View.of(user_id, request.query_params)
        units: list[Any] = []
        whole = 0.0
        complaint = ""
        if question:
            try:
                context = Context(site.memory.settings, site.memory.resources)
                scope = Scope(
                    kinds=view.kinds,
                    entities=(view.entity,) if view.entity else (),
                    conversation_ids=(view.conversation_id,) if view.conversation_id else (),
                    as_of=view.known,
                )
                found = await find_evidence(context, user_id, await context.redacted(question), scope=scope)
                units = list(found.units[:_FOUND])
                whole = max((sum(unit.shares.values()) for unit in units), default=0.0)
            except ModelNotConfigured as error:
                complaint = str(error)
        rankings = sorted({name for unit in units for name in unit.shares})
        return site.render(
            "search.html",
            user=user_id,
            section="search",
            question=question,
            view=view,
            units=units,
            whole=whole,
            rankings=rankings,
            complaint=complaint,
            offers=(await site.summary(user_id)).offers,
        )

    def model(self) -> tuple[str, str]:
        """Return the name of the chat model, or "" and why there is none."""
        if self._site.memory.resources.chat_model is not None:
            return type(self._site.memory.resources.chat_model).__name__, ""
        try:
            return chat_name(self._site.memory.settings), ""
        except DualmemError as error:
            return "", str(error)


def _pages(total: int, size: int) -> int:
    return max(1, -(-total // size))
