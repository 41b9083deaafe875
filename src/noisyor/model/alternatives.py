"""What is left of sets of alternatives until nothing asks for them: there are none."""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import FloatArray


class Sets:
    """No sets over ``n_hidden`` nodes."""

    n_sets = 0

    def __init__(self, n_hidden: int) -> None:
        self.number = np.full(n_hidden, -1, dtype=np.int32)
        self.ptr, self.member = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def __bool__(self) -> bool:
        return False

    def log_all_off(self, theta: FloatArray) -> float:
        """Log-probability that every hidden node is off, from the leaks (n_hidden,)."""
        return -float(theta.sum())
