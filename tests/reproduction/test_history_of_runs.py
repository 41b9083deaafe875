"""A finished run stays: every record that was ever committed is still in ``results``."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def git(*arguments, text=None):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def in_history():
    """Path and content of every version of a run record."""
    paths = {}
    for line in git("log", "--raw", "--no-abbrev", "--format=", "--", "results").splitlines():
        about, *_, path = line.split("\t")
        blob, is_record = about.split()[3], "/runs/" in path and path.endswith(".json")
        if is_record and blob.strip("0"):  # all zeros: the file was removed
            paths[blob] = path
    lines = git("cat-file", "--batch", text="\n".join(paths)).splitlines()
    records, head = {}, None
    for line in lines:
        fields = line.split(" ")
        if len(fields) == 3 and fields[1] == "blob":
            head = fields[0]
            records[head] = []
        else:
            records[head].append(line)
    return [(paths[blob], json.loads("\n".join(content))) for blob, content in records.items()]


def numbers(record):
    """Metrics of a run, without those of the trivial model, which later records have more of."""
    return {
        (name, round(value, 9))
        for name, value in record["metrics"].items()
        if not name.startswith("trivial")
    }


@pytest.fixture(scope="module")
def history():
    try:
        complete = git("rev-parse", "--is-shallow-repository").strip() == "false"
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no clone of the repository: its history cannot be read")
    if not complete:
        pytest.skip("a shallow clone: its history cannot be read")
    return in_history()


def test_no_run_was_taken_out(history):
    present = {}
    for path in RESULTS.glob("*/runs/*.json"):
        present.setdefault(path.parts[-3], []).append(numbers(json.loads(path.read_text())))
    lost = [
        path
        for path, record in history
        if not any(numbers(record) <= kept for kept in present[path.split("/")[1]])
    ]
    assert len(history) > 500
    assert lost == []
