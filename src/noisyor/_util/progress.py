"""One way to show progress, everywhere the same, and safe where processes are forked."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Self

__all__ = ["progress_bar"]


def progress_bar(total: int | None, description: str, unit: str, show: bool | None) -> Any:
    """A progress bar on stderr; ``show=None`` shows it on a terminal only.

    Where nothing is shown there is no lock either: tqdm's is shared with all forked processes, and
    one that is killed while it holds it would stop them all.
    """
    if show is None:
        show = bool(sys.stderr) and sys.stderr.isatty()
    return _shown(total, description, unit) if show else _NoBar()


class _NoBar:
    """What a progress bar is asked for, without any effect."""

    disable = True
    initial = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: float = 1) -> None:
        """Nothing is shown."""

    def refresh(self) -> None:
        """Nothing is shown."""

    def set_postfix(self, *values: object, **named: object) -> None:
        """Nothing is shown."""

    def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        """Nothing is shown."""


def _shown(total: int | None, description: str, unit: str) -> Any:
    """A tqdm with a lock of this process alone and without its monitoring thread."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # a thread that might hold the lock at the moment of a fork

    Bar.set_lock(_LOCKS[0])
    return Bar(total=total, desc=description, unit=f" {unit}", disable=False, leave=False)


_LOCKS = [threading.RLock()]  # the one in use


def _new_lock() -> None:
    _LOCKS[0] = threading.RLock()


if hasattr(os, "register_at_fork"):  # the lock may have been held by another thread
    os.register_at_fork(after_in_child=_new_lock)
