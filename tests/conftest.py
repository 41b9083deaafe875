"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import noisyor._util.arrays

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs like this; the commands under test would inherit it and could
    # not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the real data, which the environment's NOISYOR_DATA names."""
    named = os.environ.get("NOISYOR_DATA")
    if not named:
        pytest.skip("real data not found: set NOISYOR_DATA to their folder")
    if not Path(named).is_dir():
        pytest.fail(f"NOISYOR_DATA names {named!r}, which is not a folder")
    return Path(named)


@pytest.fixture(params=[1, 5, 1 << 20], ids=lambda size: f"block{size}")
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of one row, of a few, and of everything must agree."""
    monkeypatch.setattr(noisyor._util.arrays, "BLOCK", request.param)
    return int(request.param)
