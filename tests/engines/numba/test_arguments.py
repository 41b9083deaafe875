"""Named tuples of arrays reach kernels as they are."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from noisyor.engines.numba.arguments import advance, pack, unpack


class Inner(NamedTuple):
    values: npt.NDArray[np.float32]
    flag: bool


class Outer(NamedTuple):
    count: int
    inner: Inner
    rate: float
    numbers: npt.NDArray[np.int32]


@njit
def read(address):
    outer = unpack(address, Outer)
    outer.inner.values[1] = 7.0
    return (
        outer.count,
        outer.inner.flag,
        outer.rate,
        outer.numbers[2],
        advance(outer.numbers, 1)[1],
    )


def test_fields_arrive_and_arrays_are_shared():
    outer = Outer(
        -3, Inner(np.zeros(4, dtype=np.float32), True), 0.25, np.arange(5, dtype=np.int32)
    )
    packed = pack(outer)
    assert read(packed.address) == (-3, True, 0.25, 2, 2)
    assert outer.inner.values[1] == 7.0


@pytest.mark.parametrize(
    "values",
    [np.zeros(4), np.zeros(4, dtype=np.int32), np.zeros((4, 4), dtype=np.float32)[:, 0]],
    ids=["wide", "integers", "strided"],
)
def test_other_arrays_are_refused(values):
    with pytest.raises(TypeError, match=r"Inner\.values"):
        pack(Inner(values, False))


def test_all_bits_of_a_seed_arrive():
    packed = pack(
        Outer(2**64 - 1, Inner(np.zeros(4, dtype=np.float32), False), 0.0, np.zeros(3, np.int32))
    )
    assert read(packed.address)[0] == -1
