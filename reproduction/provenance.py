"""Where a run was made: versions, commit, date and the kind of machine."""

from __future__ import annotations

import os
import platform
import subprocess  # nosec B404  git is asked for the commit
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._version import __version__

__all__ = ["environment"]


def environment(n_threads: int) -> dict[str, Any]:
    """Versions and hardware that a result or its time depends on, the commit and the time."""
    return {
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": np.__version__,
        "noisyor": __version__,
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": n_threads,
    }


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """Commit of the checkout that this code is imported from, with a + if the code has changed.

    None for an installed copy, even one that lies inside somebody's checkout.
    """
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        result = subprocess.run(  # nosec B603  fixed arguments, no shell
            command, capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@lru_cache(maxsize=1)
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not on every system
        pass
    return platform.processor() or platform.machine()
