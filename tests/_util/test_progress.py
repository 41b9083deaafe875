"""One progress bar for everything: on stderr, and only where somebody looks."""

from __future__ import annotations

import os
import subprocess
import sys

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize("show", [False, True])
def test_a_killed_sibling_stops_nobody(show: bool) -> None:
    """What a service does: fork after the first use, kill a worker at the worst moment."""
    program = f"""
import os, signal, tqdm
from noisyor._util.progress import progress_bar

def use():
    with progress_bar(3, "train", "steps", {show}) as bar:
        bar.update(3)
        return bar

use()
worker = os.fork()
if worker == 0:
    lock = getattr(type(use()), "_lock", None)
    if lock is not None:
        lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(worker, 0)
signal.alarm(5)
use()
sibling = os.fork()
if sibling == 0:
    signal.alarm(5)
    use()
    os._exit(0)
assert os.waitpid(sibling, 0)[1] == 0
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
