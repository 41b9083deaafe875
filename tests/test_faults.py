"""The fault campaign in its short form, and that it sees what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")

ENDINGS = """
import ctypes, os, subprocess, sys, time
from dataclasses import asdict
import json
from fault_campaign.case import Case, Loss, run_in_process

def fine(folder):
    (folder / "file").write_text("content")
    return os.path.samefile(folder, os.getcwd()) and "fine"

def lost(folder):
    raise Loss("a result")

def traceback(folder):
    return 1 / 0

def crash(folder):
    ctypes.string_at(0)

def exit(folder):
    os._exit(7)

def slow(folder):
    time.sleep(30)

def large(folder):
    kept = bytearray(400 * 2**20)
    time.sleep(30)

def parent(folder):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return "left a child"

found = {}
for attempt in (fine, lost, traceback, crash, exit, slow, large, parent):
    seconds = 0.5 if attempt is slow else 20
    case = Case(attempt.__name__, "test", 0)
    outcome = run_in_process(case, attempt, limit_seconds=seconds, limit_mb=200)
    found[case.name] = asdict(outcome)
print(json.dumps(found))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_how_a_case_ends_is_seen():
    done = run("-c", ENDINGS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert [name for name, outcome in found.items() if outcome["ok"]] == ["fine", "parent"]
    assert found["fine"]["what"] == "fine"
    assert found["lost"]["what"] == "a result"
    assert found["traceback"]["what"].startswith("traceback: ZeroDivisionError")
    assert "SIGSEGV" in found["crash"]["what"]
    assert "code 7" in found["exit"]["what"]
    assert found["slow"]["what"] == "took longer than 0.5 s"
    assert found["large"]["peak_mb"] >= 200
    assert found["large"]["what"].startswith("took ")


@pytest.mark.long
def test_a_short_campaign_loses_nothing(tmp_path):
    record = tmp_path / "faults.json"
    arguments = "--kills 13 --fuzz 10 --processes 3 --minutes 5 --patience 20 --json"
    done = run("faults.py", *arguments.split(), str(record))

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(record.read_text())
    assert found["finished"]
    assert found["losses"] == []
    assert found["cases"] >= 16
    assert {"kill train", "write save", "prefork", "kernel cache"} <= set(found["kinds"])
    assert done.stdout.splitlines()[0].split()[:3] == ["kind", "cases", "losses"]
