"""The server under load and attack at once, in its short form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "serve_load.py"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_requests_are_answered_beside_hostile_connections():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--requests", "1000", "--hostile", "600"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
