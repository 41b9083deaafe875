"""One progress bar for everything: on stderr, and only where somebody looks."""

from __future__ import annotations

import pytest

from noisyor._util.progress import progress_bar


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (None, False):
        with progress_bar(3, "train", "steps", show) as bar:
            bar.update(3)
            assert bar.disable

    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_bar_that_is_asked_for_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(3, "train", "steps", True) as bar:
        bar.update(2)
        bar.refresh()

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "train" in captured.err
    assert "2/3" in captured.err
    assert "steps" in captured.err
