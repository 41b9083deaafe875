"""Access control: only this machine, and only pages of the server itself.

A page of any other site can send requests to a server on the same machine and read the answers
through a host name that resolves to this machine (DNS rebinding). So the host and the origin of
every request are checked.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NAMES = ("127.0.0.1", "localhost", "[::1]")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every response: load nothing from elsewhere, no inline scripts, frames or caches."""


class Guard:
    """Reject requests that do not come from this machine, and set `HEADERS` on every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        reason = _refusal(Headers(scope=scope), scope)
        if reason is None:
            await self._app(scope, receive, send_with_headers)
        else:
            answer = JSONResponse({"error": reason}, status_code=403)
            await answer(scope, receive, send_with_headers)


def _refusal(headers: Headers, scope: Scope) -> str | None:
    """Return the reason to reject a request, or None."""
    port = scope["server"][1]
    hosts = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())
    given = headers.getlist("host")
    if len(given) != 1 or given[0].lower() not in hosts:
        return "this server answers requests for this machine only"
    origins = {f"http://{host}" for host in hosts}
    if any(origin.lower() not in origins for origin in headers.getlist("origin")):
        return "this server answers its own page only"
    # Browsers say where a request comes from; following a link to the page is allowed.
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    followed = scope["method"] == "GET" and mode == "navigate"
    if site not in (None, "same-origin", "none") and not followed:
        return "this server answers its own page only"
    return None
