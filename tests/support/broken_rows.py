"""Rows that workers of a cluster have trouble with."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

import noisyor as nor


class Broken(nor.data.RowSource):
    """Rows of which one chunk cannot be read, kills whoever reads it, or takes its time."""

    n_visible = 12

    def __init__(self, what: str, number: int = 1, n_rows: int = 3000) -> None:
        self.what, self.number, self.sizes = what, number, (n_rows,) * 3

    def read(self, number: int):
        if number == self.number:
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "memory":
                raise MemoryError
            if self.what == "disk":
                raise OSError(5, "Input/output error")
        if self.what == "slow":
            time.sleep(0.3)
        return np.random.default_rng(number).random((self.sizes[0], 12)) < 0.3
