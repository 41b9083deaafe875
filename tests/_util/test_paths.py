"""Places to write are checked before the work, with the name that the user gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisyor._util.paths import (
    check_folder,
    check_target,
    csv_content,
    make_folder,
    real_path,
    write_text,
)
from noisyor.errors import InvalidSettingError
from noisyor.tables.read import read_table


def ours(path: Path) -> bool:
    return path.read_text().startswith("ours")


def test_a_folder_that_can_be_written_to_passes_and_stays_empty(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_inside_a_file_is_refused_by_its_own_name(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    for refused in (lambda: check_folder(blocked), lambda: make_folder(blocked / "folder")):
        with pytest.raises(OSError, match=r"Not a directory|Errno") as caught:
            refused()
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


def test_a_folder_in_the_way_is_refused(tmp_path: Path) -> None:
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


def test_folders_are_made_with_those_above(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")

    assert (tmp_path / "a" / "b").is_dir()


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
