"""Tests of tables write their files into a folder of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
