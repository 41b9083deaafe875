"""Stable functions in plain NumPy, kept apart from the compiled ones: an oracle needs its own."""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import FloatArray


def log_one_minus_exp(b: FloatArray) -> FloatArray:
    """``f(b) = log(1 - exp(-b))`` for ``b >= 0`` of any shape; minus infinity at zero."""
    small = np.minimum(b, np.log(2))
    large = np.maximum(b, np.log(2))
    return np.where(b <= np.log(2), np.log(-np.expm1(-small)), np.log1p(-np.exp(-large)))
