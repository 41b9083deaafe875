"""Compiled kernels on disk belong to the sources they were compiled from.

The compiler's cache looks at the file of each kernel alone, not at what the kernel calls, and reads
old entries before it compares dates. After an upgrade in place that can load code for another
layout, or fail. So all entries are dropped when any source of the engine has changed.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from noisyor._util.atomic import write_atomically

_STAMP = "noisyor-kernels.stamp"


def forget_stale_kernels(kernel: Any) -> None:
    """Empty the folder in which a kernel is cached unless it was filled from these sources."""
    path = getattr(getattr(kernel, "_cache", None), "cache_path", None)
    if path is None:
        return
    folder, wanted = Path(path), _digest(Path(__file__).parent)
    stamp = folder / _STAMP
    with suppress(OSError):  # a folder that cannot be written holds nothing of ours
        if stamp.exists() and stamp.read_text() == wanted:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for entry in folder.glob(pattern):
                entry.unlink(missing_ok=True)
        write_atomically(stamp, wanted.encode())


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        digest.update(str(source.relative_to(folder)).encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
