"""Scalar building blocks of the kernels: stable functions, vectorizable max/min, keyed noise.

Equations T3, T17 and T18 of docs/theory.md.
"""

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from noisyor.engines.numba.cache import njit

LOG_2 = math.log(2.0)


def _float_minmax(name):
    """An LLVM float max/min that the vectorizer accepts as a reduction.

    Python's ``max(a, b)`` and a conditional compile to a select that has to respect NaN, and loops
    over it stay scalar. Messages are never NaN, so the flags below are safe.
    """

    @intrinsic
    def operation(typingctx, left, right):
        if left != right or left not in (types.float32, types.float64):
            raise TypingError(f"{name} takes two floats of one type, got {left} and {right}")

        def codegen(context, builder, signature, arguments):
            kind = arguments[0].type
            suffix = "f32" if isinstance(kind, ir.FloatType) else "f64"
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(kind, [kind, kind]), f"llvm.{name}.{suffix}"
            )
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return left(left, right), codegen

    return operation


maximum = _float_minmax("maxnum")
minimum = _float_minmax("minnum")


@njit(cache=True, nogil=True)
def log_one_minus_exp(b):
    """``f(b) = log(1 - exp(-b))`` for b > 0, without cancellation at either end."""
    # expm1 is exact where exp(-b) is close to 1, log1p where it is close to 0.
    if b <= LOG_2:
        return math.log(-math.expm1(-b))
    return math.log1p(-math.exp(-b))


@njit(cache=True, nogil=True)
def log_expm1(b):
    """``b + f(b) = log(exp(b) - 1)``: log-odds of a node whose total parameter is b."""
    return b + log_one_minus_exp(b)


@njit(cache=True, nogil=True)
def mix(key):
    """Bijective scrambling of 64 bits: ``mix`` of equation T18, the finalizer of splitmix64."""
    key = types.uint64(key)
    key = (key ^ (key >> types.uint64(30))) * types.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> types.uint64(27))) * types.uint64(0x94D049BB133111EB)
    return key ^ (key >> types.uint64(31))


@njit(cache=True, nogil=True)
def combine(key, value):
    """Key that is identified by a parent key and one more number: ``combine`` of equation T18."""
    # value + 1, so that a value of 0 changes the key too.
    return mix(
        types.uint64(key)
        + types.uint64(0x9E3779B97F4A7C15) * (types.uint64(value) + types.uint64(1))
    )


@njit(cache=True, nogil=True)
def logistic_noise(key):
    """Standard logistic variate: the difference of two independent standard Gumbels.

    Equations T17 and T18.
    """
    # 53 bits plus a half: never 0 and never 1, so the logarithm is finite.
    uniform = (types.float64(mix(key) >> types.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)
    return math.log(uniform / (1.0 - uniform))
