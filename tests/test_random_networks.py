"""The comparison of all engines with enumeration on random networks, in its short form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "against_enumeration.py"

pytestmark = pytest.mark.long


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_sixty_networks():
    done = run("--seed", "20240", "--networks", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 networks" in done.stdout


def test_a_network_of_a_new_seed():
    done = run("--networks", "1")
    print(done.stdout)  # has the seed, and on a failure the command that repeats it
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failure_prints_the_command_that_repeats_it(tmp_path):
    # An engine that is wrong by a thousandth must be found out.
    code = (
        "import runpy, sys\n"
        "from noisyor.engines.numpy.engine import NumpyEngine\n"
        "right = NumpyEngine.log_joint\n"
        "NumpyEngine.log_joint = lambda *a: right(*a) * 1.001\n"
        "sys.argv[0] = sys.argv.pop(1)\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    arguments = ["--seed", "1", "--networks", "2", "--engines", "numpy"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "--seed 1 --first 0 --networks 1 --engines numpy" in done.stdout
