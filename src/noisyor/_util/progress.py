"""Progress bars and time limits, safe where processes are forked.

A long-running function takes ``progress``: True, False, None (shown on a terminal or in a notebook)
or a `Job`. A job is work in several phases with one bar, which names the phase, and perhaps a time
limit. Progress, compilation and warnings also go to the logger ``noisyor``, whether or not a bar is
shown.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Self

LOG = logging.getLogger("noisyor")
LOG.addHandler(logging.NullHandler())  # silent unless the user configures logging

SECONDS_BETWEEN_LINES = 10.0
"""Seconds between two lines of progress, if there is no terminal, and in a log."""


def warn(message: str, category: type[Warning] = RuntimeWarning, stacklevel: int = 2) -> None:
    """Issue a warning, and log it."""
    LOG.warning(message)
    warnings.warn(message, category, stacklevel=stacklevel + 1)


class TimeUpError(Exception):
    """The time limit of a job has passed; a caller that has a result returns it."""


class Job:
    """Work in phases, with one bar at a time and perhaps a time limit.

    A bar that is opened while another is open is not shown; it only checks the time limit.

    Parameters
    ----------
    show : True, False, or None for a terminal or notebook only.
    time_limit : seconds from now; None for no limit.
    """

    def __init__(self, show: bool | None = None, time_limit: float | None = None) -> None:
        self._show, self._open = show, False
        self.is_cut_short = False
        """Whether the time limit, or a share of it, has ended a part of the work early."""
        self._began, self._limit = time.monotonic(), time_limit
        self._deadline = float("inf") if time_limit is None else self._began + time_limit

    @classmethod
    def of(cls, progress: Progress, time_limit: float | None = None) -> Job:
        """Return ``progress`` if it is a job, else a new job."""
        return progress if isinstance(progress, Job) else cls(progress, time_limit)

    @property
    def is_limited(self) -> bool:
        """Whether there is a time limit."""
        return self._limit is not None

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._deadline

    def check(self) -> None:
        """Raise `TimeUpError` if the time limit has passed."""
        if self.is_over:
            self.is_cut_short = True
            raise TimeUpError

    @contextmanager
    def until(self, share: float) -> Iterator[None]:
        """Lower the time limit to a share of it inside the context, so that some time is left."""
        before = self._deadline
        if self._limit is not None:
            self._deadline = min(before, self._began + share * self._limit)
        try:
            yield
        finally:
            self._deadline = before

    @contextmanager
    def phase(self, total: int | None, description: str, unit: str) -> Iterator[ProgressBar]:
        """Open the bar of the next phase; see `progress_bar`."""
        if self._open:
            yield ProgressBar(total, description, unit, job=self)
            return
        self._open = True
        try:
            with progress_bar(total, description, unit, self._show) as bar:
                bar.job = self
                yield bar
        finally:
            self._open = False

    def note(self, text: str) -> None:
        """Log a line, and print it above the bar where progress is shown."""
        LOG.info(text)
        if _is_shown(self._show):
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)


Progress = bool | Job | None
"""Type of ``progress=``."""


def progress_bar(
    total: int | None, description: str, unit: str, show: Progress, delay: float = 0.0
) -> Any:
    """Return a progress bar on stderr, which is shown after ``delay`` seconds.

    ``show=None`` shows it on a terminal or in a notebook only. Without a visible bar there is no
    lock: tqdm shares its lock with all forked processes, and a process that is killed while holding
    it would block all others.
    """
    if isinstance(show, Job):
        return show.phase(total, description, unit)
    bar = ProgressBar(total, description, unit, is_logged=LOG.isEnabledFor(logging.INFO))
    if _is_shown(show):
        if _is_interactive():
            bar.screen = _screen_bar(total, description, unit, delay)
        else:
            bar.is_printed = True
    return bar


@contextmanager
def hidden_bars() -> Iterator[None]:
    """Show no bars with ``show=None`` inside the context, not even on a terminal."""
    token = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(token)


_HIDDEN: ContextVar[bool] = ContextVar("hidden", default=False)


def _is_shown(show: bool | None) -> bool:
    return _is_interactive() and not _HIDDEN.get() if show is None else show


def _is_interactive() -> bool:
    return _is_notebook() or (bool(sys.stderr) and sys.stderr.isatty())


def _is_notebook() -> bool:
    """Return whether this is a Jupyter kernel, whose stderr is not a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


class ProgressBar:
    """Progress of one phase: a bar on the screen, lines of text, or nothing.

    A line is written every ten seconds, to stderr, to the log, or to both.

    Attributes
    ----------
    screen : a tqdm bar, or None.
    is_printed, is_logged : whether lines go to stderr and to the log.
    job : its time limit is checked when the bar moves, if there is a job.
    """

    def __init__(
        self,
        total: int | None,
        description: str,
        unit: str,
        *,
        is_logged: bool = False,
        job: Job | None = None,
    ) -> None:
        self.screen: Any = None
        self.is_printed, self.is_logged, self.job = False, is_logged, job
        self._total, self._description, self._unit = total, description, unit
        self._began = self._written = time.monotonic()
        self._done, self._postfix = 0.0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_logged:
            done, spent = f"{self._done:,.0f} {self._unit}", time.monotonic() - self._began
            LOG.info(f"{self._description}: finished {done} in {spent:.1f} s{self._postfix}")
        if self.screen is not None:
            self.screen.close()

    @property
    def disable(self) -> bool:
        """Whether nothing is shown."""
        return self.screen is None and not self.is_printed

    def update(self, n: float = 1) -> None:
        """Move on; raise `TimeUpError` if the time limit of the job has passed."""
        if self.screen is not None:
            self.screen.update(n)
        if self.is_printed or self.is_logged:
            self._done += n
            if time.monotonic() - self._written >= SECONDS_BETWEEN_LINES:
                self._write_line()
        if self.job is not None:
            self.job.check()

    def skip(self, n: float) -> None:
        """Count work that was done earlier, without effect on the estimated speed."""
        if self.screen is not None:
            self.screen.initial += n
        self.update(n)

    def refresh(self) -> None:
        """Draw the bar again to update its clock."""
        if self.screen is not None:
            self.screen.refresh()

    def set_postfix(
        self, ordered: Mapping[str, object] | None = None, refresh: bool = True, **named: object
    ) -> None:
        """Set the numbers at the end of the bar or line."""
        numbers = {**(ordered or {}), **named}
        if self.screen is not None:
            self.screen.set_postfix(numbers, refresh=refresh)
        self._postfix = "".join(f", {name} {value}" for name, value in numbers.items())

    def _write_line(self) -> None:
        self._written = time.monotonic()
        spent = self._written - self._began
        line = f"{self._description}: {self._done:,.0f}"
        if self._total is not None:
            line += f" of {self._total:,}"
        line += f" {self._unit}, {spent:.0f} s"
        if self._total and 0 < self._done < self._total:
            line += f", about {spent * (self._total / self._done - 1):.0f} s left"
        line += self._postfix
        if self.is_printed:
            print(line, file=sys.stderr, flush=True)
        if self.is_logged:
            LOG.info(line)


def _screen_bar(total: int | None, description: str, unit: str, delay: float) -> Any:
    """Return a tqdm bar with a lock of this process alone and without its monitoring thread."""
    options: dict[str, Any] = {"total": total, "desc": description, "unit": f" {unit}"}
    options |= {"leave": False, "delay": delay}
    if _is_notebook() and find_spec("ipywidgets") is not None:  # without widgets, text will do
        from tqdm.notebook import tqdm as notebook_tqdm

        return notebook_tqdm(disable=False, **options)
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # a thread that might hold the lock at the moment of a fork

    Bar.set_lock(threading.RLock())
    return Bar(disable=False, **options)
