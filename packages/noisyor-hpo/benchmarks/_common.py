"""The measuring tools of the repository's benchmarks, and the folder of the data files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))

from _measure import Machine, arguments, earlier, significant, write

__all__ = ["Machine", "arguments", "data_directory", "earlier", "significant", "write"]


def data_directory(given: Path | None) -> Path | None:
    """Return the folder given, else that of ``NOISYOR_DATA``, else None."""
    named = os.environ.get("NOISYOR_DATA")
    return Path(named) if given is None and named else given
