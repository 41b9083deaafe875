"""Progress bars and time limits, safe where processes are forked.

A long-running function takes ``progress``: True, False, None (shown on a terminal or in a notebook)
or a `Job`. A job is work in several phases with one bar, which names the phase, and perhaps a time
limit. Progress, compilation and warnings also go to the logger ``noisyor``, whether or not a bar is
shown.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import Any, Self

LOG = logging.getLogger("noisyor")
LOG.addHandler(logging.NullHandler())  # silent unless the user configures logging

SECONDS_BETWEEN_LINES = 10.0
"""Where there is no terminal, and in a log, a line is written this often."""


def warn(message: str, category: type[Warning] = RuntimeWarning, stacklevel: int = 2) -> None:
    """Issue a warning, and log it."""
    LOG.warning(message)
    warnings.warn(message, category, stacklevel=stacklevel + 1)


class TimeUpError(Exception):
    """The time limit of a job has passed; a caller that has a result by then returns it."""


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
    def phase(self, total: int | None, description: str, unit: str) -> Iterator[Any]:
        """Open the bar of the next phase; see `progress_bar`."""
        if self._open:
            yield _Clock(self, _NoBar())
            return
        self._open = True
        try:
            with progress_bar(total, description, unit, self._show) as bar:
                yield _Clock(self, bar)
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

    ``show=None`` shows it on a terminal or in a notebook only. Where nothing is shown there is no
    lock either: tqdm's is shared with all forked processes, and one that is killed while it holds
    the lock would stop them all.
    """
    if isinstance(show, Job):
        return show.phase(total, description, unit)
    bar: Any = _NoBar()
    if _is_shown(show):
        terminal = _is_interactive()
        bar = (
            _shown(total, description, unit, delay)
            if terminal
            else _Lines(total, description, unit, partial(print, file=sys.stderr, flush=True))
        )
    if LOG.isEnabledFor(logging.INFO):
        return _Logged(bar, _Lines(total, description, unit, LOG.info))
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
    """Tell whether this is a Jupyter kernel, whose stderr is not a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


class _NoBar:
    """A progress bar that shows nothing."""

    disable = True
    initial = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: float = 1) -> None:
        """Do nothing."""

    def refresh(self) -> None:
        """Do nothing."""

    def set_postfix(
        self, ordered: Mapping[str, object] | None = None, refresh: bool = True, **named: object
    ) -> None:
        """Do nothing."""


class _Lines(_NoBar):
    """A progress bar that writes a line every ten seconds, for a log."""

    disable = False

    def __init__(
        self, total: int | None, description: str, unit: str, write: Callable[[str], object]
    ) -> None:
        self._total, self._description, self._unit = total, description, unit
        self._write = write
        self._began = self._printed = time.monotonic()
        self._done, self._postfix = 0.0, ""

    def update(self, n: float = 1) -> None:
        """Count, and write a line every ten seconds."""
        self._done += n
        now = time.monotonic()
        if now - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = now
        spent = now - self._began
        line = f"{self._description}: {self._done:,.0f}"
        if self._total is not None:
            line += f" of {self._total:,}"
        line += f" {self._unit}, {spent:.0f} s"
        if self._total and 0 < self._done < self._total:
            line += f", about {spent * (self._total / self._done - 1):.0f} s left"
        self._write(f"{line}{self._postfix}")

    def finish(self) -> None:
        """Write how much was done, and how long it took."""
        spent = time.monotonic() - self._began
        done = f"{self._done:,.0f} {self._unit}"
        self._write(f"{self._description}: finished {done} in {spent:.1f} s{self._postfix}")

    def set_postfix(
        self, ordered: Mapping[str, object] | None = None, refresh: bool = True, **named: object
    ) -> None:
        """Set the numbers at the end of the line."""
        numbers = {**(ordered or {}), **named}
        self._postfix = "".join(f", {name} {value}" for name, value in numbers.items())


class _Logged:
    """A bar whose progress is logged too."""

    def __init__(self, bar: Any, lines: _Lines) -> None:
        self._bar, self._lines = bar, lines

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lines.finish()
        self._bar.__exit__(*error)

    def update(self, n: float = 1) -> None:
        """Move both on."""
        self._bar.update(n)
        self._lines.update(n)

    def set_postfix(
        self, ordered: Mapping[str, object] | None = None, refresh: bool = True, **named: object
    ) -> None:
        """Numbers for the end of both."""
        self._bar.set_postfix(ordered, refresh, **named)
        self._lines.set_postfix(ordered, refresh, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)


class _Clock:
    """A bar that checks the time limit of its job when it moves."""

    def __init__(self, job: Job, bar: Any) -> None:
        self._job, self._bar = job, bar

    def update(self, n: float = 1) -> None:
        """Move on; raise `TimeUpError` if the time limit has passed."""
        self._bar.update(n)
        self._job.check()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)


def _shown(total: int | None, description: str, unit: str, delay: float) -> Any:
    """Return a tqdm bar with a lock of this process alone and without its monitoring thread."""
    options: dict[str, Any] = {"total": total, "desc": description, "unit": f" {unit}"}
    options |= {"leave": False, "delay": delay}
    if _is_notebook() and find_spec("ipywidgets") is not None:  # without widgets, text will do
        from tqdm.notebook import tqdm as notebook_tqdm

        return notebook_tqdm(disable=False, **options)
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # a thread that might hold the lock at the moment of a fork

    Bar.set_lock(_LOCKS[0])
    return Bar(disable=False, **options)


_LOCKS = [threading.RLock()]  # the one in use


def _new_lock() -> None:
    _LOCKS[0] = threading.RLock()


if hasattr(os, "register_at_fork"):  # the lock may have been held by another thread
    os.register_at_fork(after_in_child=_new_lock)
