"""Who may see and do what: a one-time link, a cookie, this machine's own names, and a strict content policy.

The page is served on loopback, yet other pages in the same browser can send requests there, and a name that they
own may lead there (DNS rebinding). So every request must name this host, carry the cookie that the link of the
terminal gave, and, where it acts, come from a form of this page.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with that a browser does not say which page a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

_SAFE = frozenset({"GET", "HEAD"})


class Access:
    """The secrets of one run of the explorer.

    Args:
        port: Where it is served; part of what a request must name as its host.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.csrf = secrets.token_urlsafe(32)
        self._link: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)

    @property
    def cookie(self) -> str:
        """Name of the cookie; two explorers on one machine share the cookies of its name, so the port is in it."""
        return f"dualmem-explorer-{self.port}"

    def url(self, path: str = "/", **query: str) -> str:
        """Return the address to open; it works once."""
        return f"http://127.0.0.1:{self.port}{path}?{urlencode({**query, 'token': self._link or ''})}"

    def admit(self, token: str) -> str | None:
        """Return the cookie's value for the one-time token, and use the token up."""
        if self._link is None or not _same(token, self._link):
            return None
        self._link = None
        return self._session

    def knows(self, cookie: str | None) -> bool:
        """Whether a cookie is the one that was given."""
        return cookie is not None and _same(cookie, self._session)

    def vouches(self, token: str | None) -> bool:
        """Whether a form is one of this page's own."""
        return token is not None and _same(token, self.csrf)

    def names(self, host: str) -> bool:
        """Whether a Host header names this machine itself, at this port."""
        return host in {f"{name}:{self.port}" for name in LOOPBACK}


def _same(left: str, right: str) -> bool:
    return compare_digest(left.encode(), right.encode())


class Guard:
    """Let through only what may be seen, and put the headers of safety on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, guarded)

    def _refusal(self, request: Request) -> ASGIApp | None:
        access = self._access
        if not access.names(request.headers.get("host", "")):
            return _refuse(421, "This page answers only to the names of this machine.")
        token = request.query_params.get("token")
        known = access.knows(request.cookies.get(access.cookie))
        if token is not None and request.method == "GET":
            # A link that is opened again where the cookie is there already leads on, without its token.
            session = access.admit(token)
            if session is not None or known:
                return _enter(request, access, session)
        if not known:
            return _refuse(
                403, "This link was used already, or is not complete. Start `dualmem explore` again for a new one."
            )
        if request.method not in _SAFE and not _from_here(request, access):
            return _refuse(403, "This request did not come from a page of the explorer.")
        return None


def _enter(request: Request, access: Access, session: str | None) -> RedirectResponse:
    kept = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
    answer = RedirectResponse(request.url.path + (f"?{urlencode(kept)}" if kept else ""), status_code=303)
    if session is not None:
        answer.set_cookie(access.cookie, session, httponly=True, samesite="strict", path="/")
    return answer


def _from_here(request: Request, access: Access) -> bool:
    """Whether the browser says that a page of this host sent the request; a browser always says one of the two."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("origin")
    return origin is None or access.names(urlsplit(origin).netloc)


def _refuse(status: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status_code=status)
