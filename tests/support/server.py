"""``noisyor serve`` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


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
