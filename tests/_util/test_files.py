"""Files are replaced whole or not at all, locked by one process, and checked before the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noisyor._util.files import (
    _open_part,
    check_folder,
    check_target,
    csv_content,
    locked,
    real_path,
    write_atomically,
    write_text,
)
from noisyor.errors import InvalidSettingError
from noisyor.tables.table import read_table


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


KILLED = """
import os, signal, sys
from noisyor._util.files import write_atomically
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


HOLDER = """
import sys, pathlib
from noisyor._util.files import locked
with locked(pathlib.Path(sys.argv[1])):
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


def test_two_processes_do_not_hold_one_lock(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with hold(path), pytest.raises(InvalidSettingError, match="model is in use"), locked(path):
        pytest.fail("two hold one lock")

    with locked(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    with hold(tmp_path) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == [".noisyor.lock"]

    with locked(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []


def test_one_lock_at_a_time_also_within_a_process(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "model"),
        pytest.raises(InvalidSettingError, match="in use"),
        locked(tmp_path / "model"),
    ):
        pass


def test_a_link_and_its_target_have_one_lock(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "model")

    with (
        locked(tmp_path / "model"),
        pytest.raises(InvalidSettingError, match="in use"),
        locked(link),
    ):
        pass


def ours(path: Path) -> bool:
    return path.read_text().startswith("ours")


def test_a_folder_that_can_be_written_to_passes_and_stays_empty(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_inside_a_file_is_refused_by_its_own_name(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(OSError, match=r"Not a directory|Errno") as caught:
        check_folder(blocked)
    assert str(caught.value.filename).startswith(str(blocked))


def test_only_files_of_the_author_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page"

    check_target(path, ours, "the demo")
    path.write_text("")
    check_target(path, ours, "the demo")
    path.write_text("ours, earlier")
    check_target(path, ours, "the demo")
    path.write_text("somebody else's")
    with pytest.raises(InvalidSettingError, match=r"exists.*the demo"):
        check_target(path, ours, "the demo")
    with pytest.raises(InvalidSettingError, match="regular file"):
        check_target(tmp_path, ours, "the demo")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)

    write_text(link, "new")

    assert link.is_symlink()
    assert target.read_text() == "new"
    assert real_path(link) == real_path(target)


def test_a_failed_write_names_the_file_and_not_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"

    with pytest.raises(FileNotFoundError) as caught:
        write_text(path, "text")

    assert caught.value.filename == str(path)


def test_formulas_are_escaped_and_names_read_back(tmp_path):
    names = ["=1+1", "+a", "-b", "@c", "plain", "'quoted"]
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_content([names, [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, -0.0]]))
    assert path.read_text().splitlines()[0] == "'=1+1,'+a,'-b,'@c,plain,'quoted"
    assert read_table(path).observations.column_names == tuple(names)
