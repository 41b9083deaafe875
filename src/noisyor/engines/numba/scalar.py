"""Scalar building blocks of the kernels: stable functions, and counter-based random numbers.

Equations T3, T17 and T18 of docs/theory.md.
"""

import math

from llvmlite import ir
from numba import float64, types, uint64
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from noisyor.engines.numba.cache import inner

LOG_2 = math.log(2.0)


def _float_minmax(name):
    """Return a maximum or minimum of two floats that compiles to one instruction.

    Python's ``max(a, b)`` has to respect NaN, and is a function that is compiled for every pair of
    types. Messages and sums are never NaN, so the flags below are safe.
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


@inner()
def log_expm1(b):
    """Return ``log(exp(b) - 1)`` for b > 0: the log-odds of a node with total parameter b.

    It is ``b + log(1 - exp(-b))``, without cancellation at either end.
    """
    # expm1 is exact where exp(-b) is close to 1, log1p where it is close to 0.
    if b <= LOG_2:
        return b + math.log(-math.expm1(-b))
    return b + math.log1p(-math.exp(-b))


@inner()
def logistic_of(odds):
    """Return the probability of log-odds, without overflow."""
    return 1.0 / (1.0 + math.exp(-minimum(maximum(odds, -700.0), 700.0)))


@inner(forceinline=True)
def mix(key):
    """Scramble 64 bits bijectively: ``mix`` of equation T18, the finalizer of splitmix64."""
    key = uint64(key)
    key = (key ^ (key >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> uint64(27))) * uint64(0x94D049BB133111EB)
    return key ^ (key >> uint64(31))


@inner()
def combine(key, value):
    """Return the key of a parent key and one more number: ``combine`` of equation T18."""
    # value + 1, so that a value of 0 changes the key too.
    return mix(uint64(key) + uint64(0x9E3779B97F4A7C15) * (uint64(value) + uint64(1)))


@inner()
def uniform_of(key):
    """Return a number strictly between 0 and 1: U of equation T18."""
    # 53 bits plus a half: never 0 and never 1, so the logarithm of neither U nor 1 - U is infinite.
    return (float64(mix(key) >> uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@inner()
def logistic_noise(key):
    """Return a standard logistic variate, the difference of two standard Gumbels: T17."""
    uniform = uniform_of(key)
    return math.log(uniform / (1.0 - uniform))
