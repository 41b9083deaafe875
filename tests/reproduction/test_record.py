"""The record of runs: it grows, it never changes, and it says where a run was made."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from run_records import scored

import noisyor
from noisyor.errors import InvalidDataError
from reproduction.record import FOLDER, Record, commit_of, compact, environment

ROOT = Path(__file__).resolve().parents[2]
FIRST_RUNS = "8341ef5504c28b9b7492432b4abaa0100c4d6e529d8ae916d2ecb7e9107adec0"
"""Checksum of the runs that were recorded when the table was made."""


@pytest.fixture
def record(tmp_path) -> Record:
    """A record of three runs with arrays."""
    found = Record(tmp_path / "record")
    for seed in range(3):
        found.append(scored(seed, -40.0) | {"arrays": {"same": np.eye(3), "own": [0.5, seed]}})
    return found


def replace_line(record: Record, number: int, *lines: bytes) -> None:
    content = record.table.read_bytes().splitlines(keepends=True)
    record.table.write_bytes(b"".join([*content[:number], *lines, *content[number + 1 :]]))


class TestTheRepository:
    def test_no_run_was_edited_or_removed(self):
        assert Record(FOLDER).faults() == []

    def test_all_runs_and_archived_files_have_checksums(self):
        entries = Record(FOLDER).manifest.read_text().splitlines()
        assert f"{FIRST_RUNS}  runs.jsonl:1088" in entries
        listed = [entry.split("  ")[1] for entry in entries]
        archived = {f"archive/{path.name}" for path in (FOLDER / "archive").glob("*.xz")}
        assert len(archived) == 7
        assert archived <= set(listed)

    def test_archived_files_are_json_lines(self):
        for path in (FOLDER / "archive").glob("*.xz"):
            for line in lzma.decompress(path.read_bytes()).splitlines():
                assert set(json.loads(line)) == {"path", "content"}

    def test_every_line_has_sorted_keys(self):
        for line in Record(FOLDER).table.read_text("utf-8").splitlines():
            assert json.dumps(json.loads(line), sort_keys=True, ensure_ascii=False) == line


class TestAppending:
    def test_what_is_appended_is_read(self, record):
        runs = record.lines()
        assert [run["seed"] for run in runs] == [0, 1, 2]
        assert runs[1]["metrics"] == scored(1, -40.0)["metrics"]
        np.testing.assert_array_equal(runs[1]["arrays"]["same"], np.eye(3))
        np.testing.assert_array_equal(runs[1]["arrays"]["own"], [0.5, 1.0])
        assert dict(runs[0]["arrays"]).keys() == {"same", "own"}
        assert record.faults() == []

    def test_equal_arrays_are_stored_once(self, record):
        with np.load(record.folder / "arrays" / "deconvolution.npz") as arrays:
            assert len(arrays.files) == 1 + 3

    def test_a_repeated_run_counts_as_it_was_last(self, record):
        record.append(scored(1, -1.0))
        assert len(record.lines()) == 4
        assert [run["metrics"]["test_elbo"] for run in record.runs()] == [-40.0, -1.0, -40.0]

    def test_arrays_that_are_too_large_are_left_out(self, record):
        record.append(
            scored(9, -40.0) | {"arrays": {"large": np.random.default_rng(0).random(10**6)}}
        )
        assert len(record.lines()[-1]["arrays"]) == 0

    def test_several_processes_at_once(self, record):
        code = """
import sys
from pathlib import Path
from reproduction.record import Record
from run_records import scored
for k in range(10):
    Record(Path(sys.argv[1])).append(scored(100 * int(sys.argv[2]) + k, -40.0))
"""
        paths = [str(ROOT), str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(record.folder), str(number)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
            for number in (1, 2)
        ]
        assert [process.wait(timeout=120) for process in started] == [0, 0]
        seeds = sorted(run["seed"] for run in record.lines())
        assert seeds == [0, 1, 2, *range(100, 110), *range(200, 210)]
        assert record.faults() == []

    def test_a_stop_before_the_checksum_was_written(self, record):
        manifest = record.manifest.read_bytes()
        record.append(scored(3, -40.0))
        record.manifest.write_bytes(manifest)
        assert record.faults() == ["lines after line 3 have no checksum"]
        record.append(scored(4, -40.0))
        assert record.faults() == []


class TestProtection:
    def test_an_edited_line(self, record):
        line = record.table.read_bytes().splitlines(keepends=True)[1]
        replace_line(record, 1, line.replace(b"-40.0", b"-39.0"))
        assert any("first 2 lines" in fault for fault in record.faults())

    @pytest.mark.parametrize("number", [0, 2])
    def test_a_removed_line(self, record, number):
        replace_line(record, number)
        assert record.faults()

    def test_a_line_in_between(self, record):
        lines = record.table.read_bytes().splitlines(keepends=True)
        replace_line(record, 0, lines[0], lines[2])
        assert record.faults()

    def test_an_archived_file(self, record):
        path = record.folder / "archive" / "old.xz"
        path.parent.mkdir()
        path.write_bytes(b"results")
        digest = "5fb32fe5c0f2e5af4f8e9b5d0b4ea3ebdf0f4b9e2f6a4a7d95a4e6a1f5e2d3c4"
        record.manifest.write_text(f"{digest}  archive/old.xz\n" + record.manifest.read_text())
        assert record.faults() == ["archive/old.xz was edited or removed"]

    def test_a_changed_array(self, record):
        path = record.folder / "arrays" / "deconvolution.npz"
        with np.load(path) as arrays:
            content = {name: arrays[name] for name in arrays.files}
        name = next(name for name, array in content.items() if array.shape == (3, 3))
        np.savez(path, **content | {name: np.zeros((3, 3), dtype=bool)})
        assert any(name in fault for fault in record.faults())


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"{\n", "line 2"),
        (b"[]\n", "noisyor-run-2"),
        (json.dumps(scored(0, 1.0) | {"steps": "3"}).encode() + b"\n", "steps"),
    ],
)
def test_a_damaged_line_is_named(record, line, word):
    replace_line(record, 1, line)
    with pytest.raises(InvalidDataError, match=word) as caught:
        record.lines()
    assert "line 2" in str(caught.value)


def test_a_damaged_archive_is_named(record):
    (record.folder / "arrays" / "deconvolution.npz").write_bytes(b"rubbish")
    with pytest.raises(InvalidDataError, match=r"deconvolution\.npz"):
        _ = record.lines()[0]["arrays"]["same"]


def test_no_folder(tmp_path):
    with pytest.raises(InvalidDataError, match="nowhere"):
        Record(tmp_path / "nowhere").runs()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.eye(3, dtype=np.uint8), "b"),
        (np.array([[0, 5], [300, 1]]), "u"),
        (np.array([0.5, -2.25, 1e-3]), "f"),
        (["ape", "bear"], "U"),
    ],
)
def test_arrays_are_stored_in_small_types(values, kind):
    found = compact(values)
    assert found.dtype.kind == kind
    assert found.dtype.itemsize <= 2 or kind == "U"
    if kind != "U":
        np.testing.assert_allclose(found.astype(float), values, rtol=1e-3)


# ---- where a run was made


def test_everything_that_a_reader_asks_for():
    found = environment(3)
    assert {"python", "numba", "numpy", "noisyor", "system", "cpu", "cpu_count"} <= set(found)
    assert found["threads"] == 3
    age = datetime.now(UTC) - datetime.fromisoformat(found["date"])
    assert timedelta() <= age + timedelta(seconds=1) < timedelta(minutes=5)


def git(folder, *arguments):
    result = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with one commit, from which noisyor is imported."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    package = tmp_path / "src" / "noisyor" / "__init__.py"
    for path in (package, tmp_path / "reproduction" / "runs.jsonl"):
        path.parent.mkdir(parents=True)
        path.write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "a")
    monkeypatch.setattr(noisyor, "__file__", str(package))
    commit_of.cache_clear()
    yield tmp_path
    commit_of.cache_clear()


def test_the_commit_of_a_clone(clone):
    head = git(clone, "rev-parse", "HEAD")
    (clone / "reproduction" / "runs.jsonl").write_text("{}")  # a run was recorded
    assert commit_of(clone) == head
    commit_of.cache_clear()
    (clone / "src" / "noisyor" / "__init__.py").write_text("changed = True")
    assert commit_of(clone) == head + "+"


def test_another_copy_of_noisyor_has_no_commit(clone, monkeypatch):
    monkeypatch.setattr(noisyor, "__file__", str(clone.parent / "__init__.py"))
    assert commit_of(clone) is None
