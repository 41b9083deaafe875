"""Every benchmark and every example script starts: ``--help`` succeeds, and importing does nothing.

Names that a script uses only later are checked by mypy, which reads the folder of benchmarks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("[!_]*.py"), *(ROOT / "examples").glob("*.py")])

# All scripts in one process, because importing the libraries takes most of the time.
START = """
import contextlib, importlib, io, json, runpy, sys, traceback
from pathlib import Path

found = {}
for path in sys.argv[1:]:
    sys.path.insert(0, str(Path(path).parent))
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            importlib.import_module(Path(path).stem)
            error = printed.getvalue() and f"importing it prints {printed.getvalue()!r}"
            sys.argv = [path, "--help"]
            runpy.run_path(path, run_name="__main__")
            error = error or "it has no --help"
        except SystemExit as end:
            error = error or (f"it ends with {end.code!r}" if end.code else "")
            error = error or ("" if "usage:" in printed.getvalue() else "it has no --help")
        except BaseException:
            error = traceback.format_exc(limit=-3)
    found[path] = error
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def errors() -> dict[str, str]:
    """What went wrong with each script; nothing is an empty text."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START, *map(str, SCRIPTS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_starts(script, errors):
    assert errors[str(script)] == ""
