"""The server of the application: uvicorn, with limits, and silent."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

__all__ = ["make_server"]

_CONNECTIONS = 512
_LARGEST_HEADER = 16_384


class _Server(uvicorn.Server):
    """Tells when requests are answered and Ctrl-C is listened to."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def make_server(app: ASGIApp, ready: Callable[[], None]) -> uvicorn.Server:
    """A server for an application; ``ready`` is called once it answers."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        backlog=_CONNECTIONS,
        h11_max_incomplete_event_size=_LARGEST_HEADER,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    return _Server(config, ready)
