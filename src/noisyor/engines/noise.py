"""Counter-based random numbers: the same for a row in any batch, order or engine.

Every random number is a hash of integers (equation T18 of docs/theory.md). With all arithmetic
modulo 2**64 and ``mix`` the finalizer of splitmix64,

    combine(key, value) = mix(key + 0x9E3779B97F4A7C15 * (value + 1))
    uniform(key)        = (floor(mix(key) / 2**11) + 1/2) / 2**53, strictly between 0 and 1
    logistic(key)       = log(u / (1 - u)) with u = uniform(key)

Max-product perturbs node k of sample s of a row by ``logistic(combine(combine(combine(combine(seed,
step), row id), sample), k))``. The logistic variate is the difference of two standard Gumbels. This
module is the definition; tests compare the copies in the engines with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray

KeyArray = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)


def mix(key: npt.ArrayLike) -> KeyArray:
    """Scramble 64 bits bijectively, in any shape."""
    bits = _bits(key)
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def combine(key: npt.ArrayLike, value: npt.ArrayLike) -> KeyArray:
    """Return the key of a parent key and one more number."""
    with np.errstate(over="ignore"):
        return mix(_bits(key) + _GOLDEN * (_bits(value) + _ONE))


def uniform(key: npt.ArrayLike) -> FloatArray:
    """Return uniform variates, strictly between 0 and 1, in the shape of ``key``."""
    return ((mix(key) >> np.uint64(11)).astype(np.float64) + 0.5) * (1.0 / 9007199254740992.0)


def logistic(key: npt.ArrayLike) -> FloatArray:
    """Return standard logistic variates in the shape of ``key``."""
    u = uniform(key)
    return np.asarray(np.log(u / (1.0 - u)))


def _bits(value: npt.ArrayLike) -> KeyArray:
    """Return integers modulo 2**64, so that negative row ids are valid."""
    array = np.asarray(value)
    if array.dtype.kind == "i":
        return array.astype(np.int64).view(np.uint64)
    return array.astype(np.uint64)
