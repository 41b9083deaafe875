"""Documents of known topics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["WORDS", "topic_documents"]

WORDS = [f"{kind}{k}" for kind in ("sea", "war", "tax") for k in range(5)] + ["the"]
"""Five words of each of three topics, and one that most documents have."""


def topic_documents() -> npt.NDArray[np.uint8]:
    """Documents (400, 16) of none, some or all of the three topics."""
    random = np.random.default_rng(0)
    topic = random.random((400, 3)) < 0.4
    own = np.kron(np.eye(3), np.full((1, 5), 0.6))
    well = np.prod(1 - topic[:, :, None] * own, axis=1) * 0.98
    rows = (random.random(well.shape) > well).astype(np.uint8)
    return np.hstack([rows, (random.random((400, 1)) < 0.7).astype(np.uint8)])
