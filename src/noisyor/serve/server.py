"""Run the application with uvicorn on this machine until Ctrl-C.

uvicorn has no deadline for a request, nor for a client that does not read its answer. Without
deadlines, connections that send nothing, send an endless request or read nothing would stay open
forever and reach the limit of connections. Nothing is logged.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import closing, suppress

from threadpoolctl import threadpool_limits

from noisyor.errors import InvalidSettingError, MissingExtraError
from noisyor.serve.subjects import Subject

try:
    import h11
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from noisyor.serve.app import make_app
except ImportError as error:
    raise MissingExtraError.of("the server needs starlette and uvicorn", "serve") from error

LOOPBACK = "127.0.0.1"
"""The address that only this machine reaches."""

MAX_CONNECTIONS = 500
"""Open connections; above it, the one that has waited longest for a request is closed."""

REQUEST_SECONDS = 10.0
"""Seconds within which a request must be complete, and a client must continue to read."""

_MAX_HEAD = 16_384


def serve(load: Callable[[], Subject], port: int, ready: Callable[[str], None]) -> None:
    """Serve a model on a port of this machine until Ctrl-C.

    Parameters
    ----------
    load : returns the model, for example `load_subject` of a file; called once the port is free.
    port : port to listen on; 0 for any free port.
    ready : called with the address once requests are answered.
    """
    # Requests run concurrently; threads of the matrix library would only wait for each other.
    with closing(listen(port)) as door, threadpool_limits(1):
        address = f"http://{LOOPBACK}:{door.getsockname()[1]}/"
        server = make_server(make_app(load()), lambda: ready(address))
        with suppress(KeyboardInterrupt):  # that is how it ends
            server.run(sockets=[door])


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine; 0 for any free port."""
    # asyncio sends at once only over sockets that say they are TCP; else every answer, sent as a
    # head and a body, waits 40 ms until the head has been acknowledged.
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((LOOPBACK, port))
        door.listen(MAX_CONNECTIONS)
    except OSError as error:
        door.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidSettingError(
                f"port {port} is in use by another program; choose another one, or 0 for any"
            ) from error
        if error.errno == errno.EACCES:
            raise InvalidSettingError(
                f"port {port} needs administrator rights; use a port above 1023, or 0 for any"
            ) from error
        raise
    return door


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
