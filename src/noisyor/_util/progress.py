"""One way to show progress, everywhere the same."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


def progress_bar(total: int | None, description: str, unit: str, show: bool | None) -> Any:
    """A progress bar on stderr; ``show=None`` shows it on a terminal only."""
    disable = None if show is None else not show
    return tqdm(total=total, desc=description, unit=f" {unit}", disable=disable, leave=False)
