"""Run the application with uvicorn: limits and timeouts for every connection, and no log output.

uvicorn has no deadline for a request, nor for a client that does not read its answer. Without
deadlines, connections that send nothing, send an endless request or read nothing would stay open
forever and reach the limit of connections.
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

MAX_CONNECTIONS = 500
"""Open connections; above it, the one that has waited longest for a request is closed."""

REQUEST_SECONDS = 10.0
"""Seconds within which a request must be complete, and a client must continue to read."""

_MAX_HEAD = 16_384


class _Protocol(H11Protocol):
    """A connection with deadlines for the request and for reading the answer."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [
                (one._deadline.when(), id(one), one)
                for one in self.connections
                if isinstance(one, _Protocol) and one._deadline is not None
            ]
            if waiting:
                min(waiting)[2]._end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        # The rest of a body that nobody reads would be taken for the next request.
        unread = self.conn.their_state is h11.SEND_BODY
        super().on_response_complete()
        if unread:
            self.transport.close()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_deadline()  # for the client to read on

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Set the deadline while a request is incomplete; clear it while it is answered."""
        if self.flow.write_paused:
            return  # the deadline is for reading
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._clear_deadline()
        elif self._deadline is None and not self.transport.is_closing():
            self._set_deadline()

    def _set_deadline(self) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._end)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        """End the connection at once; what the client did not read is dropped."""
        self._clear_deadline()
        self.transport.abort()


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
