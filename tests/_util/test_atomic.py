"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noisyor._util.atomic import _open_part, write_atomically


def test_the_content_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"

    write_atomically(path, b"old")
    write_atomically(str(path), b"new")

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_atomically(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_of_the_old_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)

    write_atomically(path, b"new")

    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"new")
    finally:
        os.umask(before)

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_the_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", b"new")


KILLED = """
import os, signal, sys
from noisyor._util.atomic import write_atomically
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], b"half")
"""


def killed_while_writing(path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    killed_while_writing(path)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2

    write_atomically(path, b"new")

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_living_writers_and_of_other_files_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "another file"
    killed_while_writing(other)
    left = set(tmp_path.iterdir())
    handle, living = _open_part(path)
    mine = tmp_path / f"{living[:-1]}"  # as good as the same name, and not ours
    mine.write_bytes(b"of the user")
    try:
        write_atomically(path, b"new")
        assert set(tmp_path.iterdir()) == {path, Path(living), mine, *left}
    finally:
        os.close(handle)

    write_atomically(path, b"newer")
    assert set(tmp_path.iterdir()) == {path, mine, *left}


def test_a_name_of_full_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)

    write_atomically(path, b"content")

    assert path.read_bytes() == b"content"
