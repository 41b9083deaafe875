"""Scalar building blocks of the kernels: where a number lies in memory, and the keyed noise.

Equations T17 and T18 of docs/theory.md.
"""

import warp as wp

from noisyor.engines.contract import NEVER as LOWEST

NEVER = wp.constant(wp.float32(LOWEST))
"""Log-odds of something that cannot be; finite, so that differences stay finite."""

_GOLDEN = wp.constant(wp.uint64(0x9E3779B97F4A7C15))
_FIRST = wp.constant(wp.uint64(0xBF58476D1CE4E5B9))
_SECOND = wp.constant(wp.uint64(0x94D049BB133111EB))
_ONE = wp.constant(wp.uint64(1))
_HALF_BITS = wp.constant(wp.float64(0.5))
_SCALE = wp.constant(wp.float64(1.0 / 9007199254740992.0))
_UNIT = wp.constant(wp.float64(1.0))


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return slot * lines + line;
#else
    return line * slots + slot;
#endif
"""
)
def offset(slot: int, slots: int, line: int, lines: int) -> int:
    """Where entry ``slot`` of a line lies in the memory of a launch, ``slots`` times ``lines``.

    The threads of a GPU take neighbouring lines at once, so there the line is the fastest index. A
    core takes one line after another, and reads a line in one piece.
    """
    ...


@wp.func_native("return values.data[index];")
def single_at(values: wp.array(dtype=wp.float32), index: int) -> wp.float32:
    """``values[index]``, without the care for strides and negative numbers: the inner loop."""
    ...


@wp.func_native("return values.data[index];")
def int_at(values: wp.array(dtype=wp.int32), index: int) -> wp.int32:
    """``values[index]``, as `single_at`."""
    ...


@wp.func_native("values.data[index] = value;")
def put(values: wp.array(dtype=wp.float32), index: int, value: wp.float32):
    """``values[index] = value``, as `single_at`."""
    ...


@wp.func_native("return left > right ? left : right;")
def larger(left: wp.float32, right: wp.float32) -> wp.float32:
    """The larger of two numbers that are never NaN, which the compiler need not know."""
    ...


@wp.func_native("return left < right ? left : right;")
def smaller(left: wp.float32, right: wp.float32) -> wp.float32:
    """The smaller of two numbers that are never NaN."""
    ...


@wp.func
def mix(key: wp.uint64) -> wp.uint64:
    """Bijective scrambling of 64 bits: ``mix`` of equation T18, the finalizer of splitmix64."""
    a = (key ^ (key >> wp.uint64(30))) * _FIRST
    b = (a ^ (a >> wp.uint64(27))) * _SECOND
    return b ^ (b >> wp.uint64(31))


@wp.func
def combine(key: wp.uint64, value: wp.uint64) -> wp.uint64:
    """Key that is identified by a parent key and one more number: ``combine`` of equation T18."""
    return mix(key + _GOLDEN * (value + _ONE))


@wp.func
def uniform(key: wp.uint64) -> wp.float64:
    """Uniform variate, strictly between 0 and 1."""
    return (wp.float64(mix(key) >> wp.uint64(11)) + _HALF_BITS) * _SCALE


@wp.func
def logistic(key: wp.uint64) -> wp.float64:
    """Standard logistic variate: the difference of two independent standard Gumbels."""
    u = uniform(key)
    return wp.log(u / (_UNIT - u))
