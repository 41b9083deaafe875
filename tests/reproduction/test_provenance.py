"""What a record says of where it was made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reproduction import provenance
from reproduction.provenance import environment

SOURCE = Path(provenance.__file__).read_text()


def test_everything_that_a_reader_asks_for():
    found = environment(3)
    assert {"python", "numba", "numpy", "noisyor", "system", "cpu", "cpu_count"} <= set(found)
    assert found["threads"] == 3
    age = datetime.now(UTC) - datetime.fromisoformat(found["date"])
    assert timedelta() <= age + timedelta(seconds=1) < timedelta(minutes=5)


@pytest.fixture
def checkout(tmp_path):
    """A checkout with a package that has the module in question, and one commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    module = tmp_path / "package" / "experiments" / "provenance.py"
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE)
    (tmp_path / "package" / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "package")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "a")
    return tmp_path


def git(folder, *arguments):
    result = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def commit_of(folder):
    """What a fresh process says of the code in a folder."""
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['_commit']())"
    module = folder / "package" / "experiments" / "provenance.py"
    result = subprocess.run(
        [sys.executable, "-c", code, str(module)], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_the_commit_of_a_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert commit_of(checkout) == head
    (checkout / "package" / "__init__.py").write_text("changed = True")
    assert commit_of(checkout) == head + "+"


def test_a_copy_inside_somebodys_checkout_has_no_commit(checkout):
    installed = checkout / "venv"
    shutil.copytree(checkout / "package", installed / "package")
    assert commit_of(installed) == "None"
