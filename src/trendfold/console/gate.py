"""Who may use the console: a browser on this machine that was given the token."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "trendfold-console"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Gate:
    """Refuse requests without the token, from other machines, or under another host's name."""

    app: App
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 403."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        is_asked_with_token = self._fits(_token_of(scope))
        if not _is_local(headers) or not (is_asked_with_token or self._fits(_cookie_of(headers))):
            await _refuse(scope, send)
            return

        async def send_with_cookie(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and is_asked_with_token:
                cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie.encode())]
            await send(message)

        await self.app(scope, receive, send_with_cookie)

    def _fits(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


def _token_of(scope: Scope) -> str:
    asked = str(scope.get("query_string", b"").decode("latin-1"))
    return parse_qs(asked).get("token", [""])[0]


def _cookie_of(headers: dict[str, str]) -> str:
    found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    return str(found.value) if found is not None else ""


def _is_local(headers: dict[str, str]) -> bool:
    """Whether the browser asks for this machine by a loopback name, from a page of the console."""
    host = headers.get("host", "")
    origin = headers.get("origin")
    is_own = origin is None or origin.partition("://")[2] == host
    return is_own and host.rpartition(":")[0] in LOOPBACK


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = b"Open the address that trendfold console printed: it carries the token."
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
