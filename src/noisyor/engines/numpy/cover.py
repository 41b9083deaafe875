"""Boolean covers: switch the memberships of rows in factors on or off while that pays."""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray, SingleArray
from noisyor.engines.contract import CoverResult, Factors

_SWEEPS = 20
_ROUNDING = 1e-9


def cover_memberships(
    weights: SingleArray,
    factors: Factors,
    states: BinaryArray,
    counts: IntArray,
    price: FloatArray,
) -> CoverResult:
    """Flip memberships of rows in factors, one factor after another, while the cover gains.

    A membership is worth the weights of the columns that nothing else covers, less its price.
    Rows do not influence each other, so all rows flip at once.
    """
    states, counts, flips = states.copy(), counts.copy(), 0
    for _ in range(_SWEEPS):
        changed = 0
        for k, cost in enumerate(price):
            columns = factors.columns[factors.ptr[k] : factors.ptr[k + 1]]
            on = states[:, k].astype(np.int32)
            alone = counts[:, columns] == on[:, None]
            gain = np.where(alone, weights[:, columns], 0.0).sum(axis=1, dtype=np.float64) - cost
            flip = np.flatnonzero(np.where(on == 1, gain < -_ROUNDING, gain > _ROUNDING))
            states[flip, k] ^= 1
            counts[np.ix_(flip, columns)] += (1 - 2 * on[flip])[:, None]
            changed += len(flip)
        flips += changed
        if changed == 0:
            break
    return CoverResult(states, counts, flips)
