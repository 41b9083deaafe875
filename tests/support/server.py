"""A server to ask: in a thread, or as ``noisyor serve`` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from noisyor.serve.app import make_app
from noisyor.serve.networks import load_subject
from noisyor.serve.server import listen, make_server


class Server:
    """``noisyor serve`` as people start it, and the address that it tells."""

    def __init__(self, model: Path, *options: str) -> None:
        script = "import sys; from noisyor.cli.main import main; sys.exit(main())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, "serve", str(model), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.address = self.line.split()[0] if self.line else ""

    def interrupt(self) -> tuple[int, str, str]:
        """Press Ctrl-C; exit code and what is left of its output."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


class ServerInThread:
    """The same server without the command line: nothing is imported and compiled anew."""

    def __init__(self, model: Path) -> None:
        started = threading.Event()
        self._door = listen(0)
        self._server = make_server(make_app(load_subject(model)), started.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._door]}, daemon=True
        )
        self._thread.start()
        assert started.wait(30)
        self.port = self._door.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._door.close()
