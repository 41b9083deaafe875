"""The code on every page for developers runs; a new page in the folder is found by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"
PAGES = [
    page
    for page in sorted((ROOT / "docs" / "developer").rglob("*.md"))
    if "\n```python\n" in page.read_text("utf-8")
]


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # In a process of its own, because pages enter their examples in the registries.
    return subprocess.run(
        [sys.executable, "-W", "error", str(SUPPORT / "run_page.py"), str(page)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(SUPPORT)])},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_code_runs(page, tmp_path):
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_code_that_fails_is_found_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nfine = 1\nassert fine == 2\n```\n")
    done = run(page, tmp_path)
    assert done.returncode == 1
    assert "line 5" in done.stderr


def test_the_pages_are_found():
    assert "add_a_reader" in {page.stem for page in PAGES}
