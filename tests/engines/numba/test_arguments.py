"""Named tuples and workspaces of arrays reach kernels as they are."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from noisyor.engines.numba.arguments import Workspace, advance, arrays, launch, pack, unpack


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


class Part(Workspace, floats=1.0):
    per_node = arrays(float64="value", int32="index")


class Space(Workspace):
    per_row = arrays(uint8="state", float64="total")
    pair = arrays(2, float32="ends")
    part: Part
    size: int


@njit
def fill(address, begin, end):
    space = unpack(address, Space)
    for row in range(begin, end):
        space.state[row] = 1
        space.total[row] = space.part.value[row]
        space.part.index[row] = space.size
    space.ends[1] = end
    return space.size


def test_workspaces_are_allocated_and_filled():
    space = Space(per_row=5, part=Part(per_node=5), size=3)
    assert launch(fill, (pack(space),), 1, 4) == 3
    assert space.state.tolist() == space.total.tolist() == [0, 1, 1, 1, 0]
    assert space.part.index.tolist() == [0, 3, 3, 3, 0]
    assert space.ends.tolist() == [0, 4]


@pytest.mark.parametrize("given", [{"per_node": 3, "other": 1}, {}], ids=["unknown", "missing"])
def test_a_workspace_takes_its_own_lengths_alone(given):
    with pytest.raises(TypeError, match="Part"):
        Part(**given)
