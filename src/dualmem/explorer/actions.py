"""What changes something: only by a form of a page, with its secret, and only where that was asked for."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response, StreamingResponse

from dualmem.cleaning import clean_text, clean_user_id
from dualmem.errors import InputError, NotFound
from dualmem.explorer.console import Console, as_event
from dualmem.explorer.pages import Pages, Site, user_of
from dualmem.explorer.rendering import RELATIONS, href
from dualmem.explorer.views import moment
from dualmem.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from dualmem.records import Decision

_LARGEST: Final = 64 * 1024
"""Bytes of a form."""

_RECEIPTS: Final = 100


class Forbidden(InputError):
    """A form is not one of this page, or what it asks for was not allowed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an action did, to be shown once it is done and the form is gone."""

    user_id: str
    done: str
    counts: Mapping[str, int]
    back: str


class Actions:
    """The handlers of forms, and of the stream that a recall is followed by."""

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages
        self.console = Console(site)
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()

    # Recall

    async def ask_page(self, request: Request) -> Response:
        """Show the form of the recall console."""
        site, user_id = self._site, user_of(request)
        await site.catalogue.user(user_id)
        model, complaint = self._pages.model()
        return site.render(
            "console.html",
            user=user_id,
            section="console",
            presets=tuple(PRESETS),
            model=model,
            complaint=complaint,
            question=request.query_params.get("q", ""),
            chosen=(site.memory.settings.preset, ""),
            asked_at="",
            runs=[],
        )

    async def ask(self, request: Request) -> Response:
        """Start one or two recalls, and show where their steps will appear."""
        site, form = self._site, await read_form(request, self._site)
        user_id = clean_user_id(form.get("user"))
        question = clean_text(form.get("question", "")).strip()
        if not question:
            message = "there is no question; write one"
            raise InputError(message)
        presets = [name for name in (form.get("preset", ""), form.get("beside", "")) if name]
        asked_at = moment(form.get("asked_at", ""))
        model, complaint = self._pages.model()
        runs = [self.console.start(user_id, question, preset, asked_at) for preset in presets or ["default"]]
        return site.render(
            "console.html",
            user=user_id,
            section="console",
            presets=tuple(PRESETS),
            model=model,
            complaint=complaint,
            question=question,
            chosen=(form.get("preset", ""), form.get("beside", "")),
            asked_at=form.get("asked_at", ""),
            runs=runs,
        )

    async def events(self, request: Request) -> Response:
        """Stream the steps of a recall, from the first, or from where the browser was."""
        run = self.console.run(request.path_params["key"])
        last = request.headers.get("last-event-id", "")
        start = int(last) + 1 if last.isdecimal() and len(last) < 9 else 0  # noqa: PLR2004 - no number of an event

        async def stream() -> AsyncIterator[str]:
            async for number, name, html in run.follow(start):
                yield as_event(number, name, html)

        return StreamingResponse(stream(), media_type="text/event-stream")

    # Undo

    async def undo_page(self, request: Request) -> Response:
        """Ask whether a decision is really to be taken back."""
        site, user_id = self._site, user_of(request)
        self._needs_writing()
        decision = await self._decision(user_id, request.query_params)
        return site.render("undo.html", user=user_id, section="memories", decision=decision)

    async def undo(self, request: Request) -> Response:
        """Take back the decision that a form names, and lead to the receipt."""
        site, form = self._site, await read_form(request, self._site)
        self._needs_writing()
        user_id = clean_user_id(form.get("user"))
        decision = await self._decision(user_id, form)
        undone = await site.memory.undo(decision.id, user_id=user_id)
        site.changed()
        return self._done(
            Receipt(
                user_id,
                f"Taken back: {decision.later.text} {RELATIONS[decision.relation]} {decision.earlier.text}",
                {"memories in force again": len(undone.active_again)},
                href(f"/memory/{decision.earlier.id}", user=user_id),
            )
        )

    async def _decision(self, user_id: str, given: Mapping[str, str]) -> Decision:
        """Return a decision on a memory.

        Raises:
            NotFound: There is no such memory, or no such decision on it.
        """
        explanation = await self._site.memory.why(given.get("memory", ""), user_id=user_id)
        for decision in explanation.decisions:
            if decision.id == given.get("decision"):
                return decision
        message = f"there is no decision {given.get('decision', '')!r} on this memory; it may be taken back already"
        raise NotFound(message)

    # Forget

    async def forget_page(self, request: Request) -> Response:
        """Ask whether something is really to be forgotten."""
        site, user_id = self._site, user_of(request)
        self._needs_writing()
        what = await self._named(user_id, request.query_params)
        return site.render("forget.html", user=user_id, section="memories", **what)

    async def forget(self, request: Request) -> Response:
        """Forget what a form names, and lead to the receipt."""
        site, form = self._site, await read_form(request, self._site)
        self._needs_writing()
        user_id = clean_user_id(form.get("user"))
        what = await self._named(user_id, form)
        receipt = await site.memory.forget(user_id=user_id, **what["selection"])
        site.changed()
        left = sum(await site.memory.resources.store.count(user_id))
        return self._done(
            Receipt(
                user_id if left else "",
                f"Forgotten: {what['title']}",
                {
                    "turns erased": receipt.turns,
                    "memories erased": receipt.memories,
                    "memories that lost a source": receipt.sources,
                    "rejected drafts erased": receipt.rejections,
                    "earlier states in force again": receipt.restored,
                },
                href("/memories", user=user_id) if left else "/",
            )
        )

    async def receipt(self, request: Request) -> Response:
        """Show what an action did."""
        receipt = self._receipts.get(request.path_params["key"])
        if receipt is None:
            message = "there is no such receipt; they are kept as long as the explorer runs"
            raise NotFound(message)
        return self._site.render("receipt.html", user=receipt.user_id, section="memories", receipt=receipt)

    def _done(self, receipt: Receipt) -> Response:
        key = secrets.token_urlsafe(9)
        self._receipts[key] = receipt
        while len(self._receipts) > _RECEIPTS:
            self._receipts.popitem(last=False)
        # Loading the receipt again must not do it again.
        return RedirectResponse(f"/receipts/{key}", status_code=303)

    def _needs_writing(self) -> None:
        if not self._site.writable:
            message = "this explorer only shows; start it with --write to change something"
            raise Forbidden(message)

    async def _named(self, user_id: str, given: Mapping[str, str]) -> dict[str, Any]:
        """Return what an address or a form names to be forgotten: its words, and how `forget` is called for it."""
        memory = self._site.memory
        if memory_id := given.get("memory"):
            found = await memory.memory(memory_id, user_id=user_id)
            return {
                "title": found.text,
                "kind": "memory",
                "selection": {"memory_id": found.id},
                "field": ("memory", found.id),
                "back": href(f"/memory/{found.id}", user=user_id),
                "restores": found.active and bool(found.linked("supersedes")),
            }
        if turn_id := given.get("turn"):
            effects = await memory.from_turn(turn_id, user_id=user_id)
            turn = effects.turn
            return {
                "title": f"{turn.speaker}: {turn.text}",
                "kind": "turn",
                "selection": {"turn_id": turn.id},
                "field": ("turn", turn.id),
                "back": href("/conversation", user=user_id, id=turn.conversation_id),
                "restores": False,
                "effects": effects,
            }
        if (name := given.get("conversation")) is not None:
            return {
                "title": f"the conversation {name}",
                "kind": "conversation",
                "selection": {"conversation_id": name},
                "field": ("conversation", name),
                "back": href("/conversation", user=user_id, id=name),
                "restores": False,
            }
        if given.get("everything") == "yes":
            return {
                "title": f"everything of {user_id}",
                "kind": "everything",
                "selection": {"everything": True},
                "field": ("everything", "yes"),
                "back": href("/memories", user=user_id),
                "restores": False,
            }
        message = "nothing to forget is named"
        raise InputError(message)


async def read_form(request: Request, site: Site) -> dict[str, str]:
    """Return the fields of a form of this page.

    Raises:
        Forbidden: The form does not carry this page's secret.
        InputError: It is too large, or no form.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            message = f"the form is larger than {_LARGEST} bytes"
            raise InputError(message)
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        message = f"the form cannot be read: {error}"
        raise InputError(message) from error
    form = {name: values[-1] for name, values in fields.items()}
    if not site.access.vouches(form.get("csrf")):
        message = "the form is not one of this page, or is older than this explorer; load the page again"
        raise Forbidden(message)
    return form
