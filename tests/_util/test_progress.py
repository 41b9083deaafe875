"""One progress bar for everything: on stderr, and only where somebody looks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import types
from contextlib import suppress

import pytest

from noisyor._util import progress
from noisyor._util.progress import Job, TimeUpError, hidden_bars, progress_bar


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (None, False):
        with progress_bar(3, "train", "steps", show) as bar:
            bar.update(3)
            assert bar.disable

    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("show", [None, True])
def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, show: bool | None) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar(3, "train", "steps", show) as bar:
        bar.update(2)
        bar.refresh()
    for text in ("train", "2/3", "steps"):
        assert text in screen.getvalue()


def test_elsewhere_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(4, "train", "steps", True) as bar:
        bar.update(1)
    assert capsys.readouterr().err == ""  # ten seconds have not gone by
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress_bar(4, "train", "steps", True) as bar:
        bar.set_postfix(causes=7)
        bar.update(1)
        bar.set_postfix({"nearly": "done"})
        bar.update(3)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "train: 1 of 4 steps, 0 s, about 0 s left, causes 7"
    assert last == "train: 4 of 4 steps, 0 s, nearly done"


class TestJob:
    def test_one_bar_for_all_phases(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
        job = Job(show=True)
        with progress_bar(2, "search", "restarts", job) as bar:
            with progress_bar(9, "joint", "iterations", job) as inner:
                inner.update(1)  # inside another phase: not shown
            bar.update(1)
        with progress_bar(None, "train", "steps", job) as bar:
            bar.update(5)
        lines = capsys.readouterr().err.splitlines()
        assert [line.partition(":")[0] for line in lines] == [
            "search",
            "train",
        ]

    def test_the_time_is_looked_at_when_a_bar_moves(self) -> None:
        job = Job(show=False, time_limit=1e-9)
        assert job.is_limited
        assert job.is_over
        with pytest.raises(TimeUpError), progress_bar(2, "train", "steps", job) as bar:
            bar.update(1)
        with progress_bar(2, "train", "steps", job):
            pass  # the phase before was closed, although it ended early

    def test_a_share_of_the_time(self) -> None:
        job = Job(show=False, time_limit=1000.0)
        with job.until(1e-9):
            assert job.is_over
            with job.until(1.0):
                assert job.is_over  # never more than around it
        assert not job.is_over
        with Job(show=False).until(1e-9):
            pass  # without a limit there is nothing to share

    def test_a_job_is_taken_over(self) -> None:
        job = Job()
        assert Job.of(job, time_limit=3.0) is job
        assert Job.of(None, time_limit=3.0).is_limited


def test_a_notebook_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stderr is no terminal; without widgets the bar is text."""
    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    fake = types.SimpleNamespace(get_ipython=lambda: kernel)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    with progress_bar(3, "train", "steps", None) as bar:
        assert not bar.disable


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


def test_bars_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisyor._util.progress._is_interactive", lambda: True)
    with hidden_bars(), progress_bar(3, "read", "rows", None) as bar:
        assert bar.disable
    with progress_bar(3, "read", "rows", None) as bar:
        assert not bar.disable


def test_a_job_knows_that_a_share_of_its_limit_has_ended_something():
    job = Job(show=False, time_limit=1000.0)
    with job.until(0.0), suppress(TimeUpError):
        job.check()
    assert job.is_cut_short
    assert not job.is_over
