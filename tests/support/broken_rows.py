"""Rows that workers of a cluster have trouble with."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

import noisyor as nor


class Broken(nor.data.RowSource):
    """Rows of which one chunk cannot be read, kills whoever reads it, or takes time or memory."""

    n_visible = 12

    def __init__(self, what: str, number: int = 1, n_rows: int = 3000) -> None:
        self.what, self.number, self.sizes = what, number, (n_rows,) * 3

    def read(self, number: int):
        if number == self.number:
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "memory":
                raise MemoryError
            if self.what == "hungry":
                taken = np.ones(10**9, dtype=np.uint8)
                time.sleep(30.0)  # a worker is looked at every half second or so
                del taken
            if self.what == "disk":
                raise OSError(5, "Input/output error")
        if self.what == "slow":
            time.sleep(0.3)
        return np.random.default_rng(number).random((self.sizes[number], 12)) < 0.3


def limit_files(size):
    """No file of this process may be larger: a disk that is full from there on."""
    import resource  # not on every system

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
