"""Start the server on this machine and run it until Ctrl-C."""

from __future__ import annotations

import errno
import hashlib
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from threadpoolctl import threadpool_limits

from noisyor.errors import InvalidSettingError, MissingExtraError
from noisyor.serve.subjects import Subject

LOOPBACK = "127.0.0.1"
"""The address that only this machine reaches."""

_BACKLOG = 512


def serve(load: Callable[[], Subject], port: int, ready: Callable[[str], None]) -> None:
    """Serve a model on a port of this machine until Ctrl-C.

    Parameters
    ----------
    load : returns the model, for example `load_subject` of a file; called once the port is free.
    port : port to listen on; 0 for any free port.
    ready : called with the address once requests are answered.
    """
    try:
        from noisyor.serve.app import make_app
        from noisyor.serve.server import make_server
    except ImportError as error:
        raise MissingExtraError.of("the server needs starlette and uvicorn", "serve") from error
    # Requests run concurrently; threads of the matrix library would only wait for each other.
    with closing(listen(port)) as door, threadpool_limits(1):
        address = f"http://{LOOPBACK}:{door.getsockname()[1]}/"
        server = make_server(make_app(load()), lambda: ready(address))
        with suppress(KeyboardInterrupt):  # that is how it ends
            server.run(sockets=[door])


def load_subject(path: Path) -> Subject:
    """Load the network of a model file, with the SHA-256 hash of the file."""
    from noisyor.report.inputs import read_model
    from noisyor.serve.networks import NetworkSubject

    model = read_model(path)
    with path.open("rb") as stream:
        return NetworkSubject(model, hashlib.file_digest(stream, "sha256").hexdigest())


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine; 0 for any free port."""
    # asyncio sends at once only over sockets that say they are TCP; else every answer, sent as a
    # head and a body, waits 40 ms until the head has been acknowledged.
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((LOOPBACK, port))
        door.listen(_BACKLOG)
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
