"""A folder with a table of patients and a model of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from patients_table import FIT, patients

from noisyor.cli.main import main


@pytest.fixture(scope="session")
def fitted(tmp_path_factory) -> Path:
    """A folder with the patients and a model of them."""
    folder = tmp_path_factory.mktemp("fitted")
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path("patients.csv").write_text(patients())
        assert main([*FIT, "--quiet"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def patients_folder(tmp_path, monkeypatch, fitted):
    """A copy of that folder as the current one."""
    monkeypatch.chdir(tmp_path)
    for path in fitted.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
