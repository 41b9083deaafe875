"""One process at a time; a lock ends with its holder and says who that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noisyor._util.locks import locked
from noisyor.errors import InvalidSettingError

HOLDER = """
import sys, pathlib
from noisyor._util.locks import locked
with locked(pathlib.Path(sys.argv[1]), "noisyor fit"):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_message_names_the_other_process(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with hold(path) as other:
        refused = rf"model is in use: process {other.pid} \(noisyor fit\) works on it"
        with pytest.raises(InvalidSettingError, match=refused), locked(path, "this"):
            pytest.fail("two hold one lock")

    with locked(path, "this"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    with hold(tmp_path) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == [".noisyor.lock"]

    with locked(tmp_path, "this"):
        pass

    assert list(tmp_path.iterdir()) == []


def test_one_lock_at_a_time_also_within_a_process(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "model", "the first"),
        pytest.raises(InvalidSettingError, match=r"\(the first\) works on it"),
        locked(tmp_path / "model", "the second"),
    ):
        pass


def test_a_link_and_its_target_have_one_lock(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "model")

    with (
        locked(tmp_path / "model", "the first"),
        pytest.raises(InvalidSettingError, match="in use"),
        locked(link, "the second"),
    ):
        pass


@pytest.mark.parametrize("note", [b"", b"{}", b'{"process": [], "host": 1}', b"[" * 9000])
def test_a_note_that_cannot_be_read_is_no_obstacle(tmp_path: Path, note: bytes) -> None:
    with locked(tmp_path, "the first"):
        (tmp_path / ".noisyor.lock").write_bytes(note)
        with (
            pytest.raises(InvalidSettingError, match="another process works on it"),
            locked(tmp_path, "the second"),
        ):
            pass
