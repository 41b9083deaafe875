"""Run the application with uvicorn: limits and timeouts for every connection, and no log output.

uvicorn has no deadline for the head of a request. Without one, connections that send nothing, or
a head without an end, would be held for ever, and their number would reach the limit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["make_server"]

MAX_CONNECTIONS = 500
"""Open connections; above it, the one that has waited longest for a request is closed."""

HEAD_SECONDS = 10.0
"""Time until the head of a request must be complete."""

_MAX_HEAD = 16_384


class _Protocol(H11Protocol):
    """A connection with a deadline for the head of a request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [
                (one._deadline.when(), id(one), one)
                for one in self.connections
                if isinstance(one, _Protocol) and one._deadline is not None
            ]
            if waiting:
                min(waiting)[2]._close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()  # the head is complete, and the application answers
        elif self._deadline is None and not self.transport.is_closing():
            self._await_head()  # the next request has begun

    def on_response_complete(self) -> None:
        # The rest of a body that nobody reads would be taken for the next request.
        unread = self.conn.their_state is h11.SEND_BODY
        super().on_response_complete()
        if unread:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that reports when it answers requests and Ctrl-C ends it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def make_server(app: ASGIApp, ready: Callable[[], None]) -> uvicorn.Server:
    """Return a server for an application; ``ready`` is called once it answers."""
    # Anybody who sends nonsense could otherwise fill the terminal with warnings.
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS + 12,
        backlog=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    return _Server(config, ready)
