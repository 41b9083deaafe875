"""Eight float64 at a time, with the two functions that mean-field inference spends its time in.

The compiler vectorizes neither ``math.exp`` nor ``math.log``, so both are written out here as
polynomials on a value type of eight lanes. One exponential and one logarithm serve all that a
noisy-OR edge needs, see `edge_terms`. The lanes compile to one AVX-512 register, two AVX or four
SSE or NEON ones; the code is the same on every machine.
"""

import math
import operator

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.typing import signature
from numba.extending import intrinsic, overload

WIDTH = 8


def inner(**options):
    """Decorator of functions that only kernels call: compiled without an entry from Python."""
    return njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


_FLOAT = ir.DoubleType()
_INT = ir.IntType(64)
_INDEX = ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, WIDTH)
_INT_VECTOR = ir.VectorType(_INT, WIDTH)


class Float64x8Type(types.Type):
    """Numba type of eight float64 in registers."""

    def __init__(self):
        super().__init__(name="Float64x8")


float64x8 = Float64x8Type()


@register_default(Float64x8Type)
class _Float64x8Model(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


# ---- memory


def _pointer_type(kind):
    if isinstance(kind, types.Array):
        return types.CPointer(kind.dtype)
    if isinstance(kind, types.BaseNamedTuple):
        members = [_pointer_type(member) for member in kind]
        if len(set(members)) == 1:
            return types.NamedUniTuple(members[0], len(members), kind.instance_class)
        return types.NamedTuple(members, kind.instance_class)
    return kind


def _to_pointers(context, builder, kind, wanted, value):
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value).data
    if isinstance(kind, types.BaseNamedTuple):
        members = [
            _to_pointers(context, builder, old, new, builder.extract_value(value, position))
            for position, (old, new) in enumerate(zip(kind, wanted, strict=True))
        ]
        return context.make_tuple(builder, wanted, members)
    return value


@intrinsic
def pointers(typingctx, value):
    """A named tuple with pointers to the first elements in place of its arrays.

    Arrays are counted references, and reading one from a tuple costs more than a vector of
    arithmetic. The arrays must be contiguous and outlive the pointers: arguments of the kernel.
    """

    def codegen(context, builder, sig, arguments):
        return _to_pointers(context, builder, sig.args[0], sig.return_type, arguments[0])

    return signature(_pointer_type(value), value), codegen


def _place(builder, pointer, index):
    return builder.bitcast(builder.gep(pointer, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, pointer, index):
    """``pointer[index:index + 8]``, float64."""

    def codegen(context, builder, sig, arguments):
        return builder.load(_place(builder, *arguments), align=8)

    return signature(float64x8, pointer, types.intp), codegen


@intrinsic
def store(typingctx, pointer, index, value):
    """``pointer[index:index + 8] = value``."""

    def codegen(context, builder, sig, arguments):
        target, position, vector = arguments
        builder.store(vector, _place(builder, target, position), align=8)
        return context.get_dummy_value()

    return signature(types.void, pointer, types.intp, float64x8), codegen


def _constant(value):
    return ir.Constant(_VECTOR, [ir.Constant(_FLOAT, float(value))] * WIDTH)


def _int_constant(value):
    return ir.Constant(_INT_VECTOR, [ir.Constant(_INT, value)] * WIDTH)


def _shuffled(builder, vector, order):
    mask = ir.Constant(ir.VectorType(_INDEX, WIDTH), [ir.Constant(_INDEX, lane) for lane in order])
    return builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), mask)


@intrinsic
def splat(typingctx, value):
    """The same float64 in all eight lanes."""

    def codegen(context, builder, sig, arguments):
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(_INDEX, 0))
        return _shuffled(builder, first, [0] * WIDTH)

    return signature(float64x8, types.float64), codegen


# ---- arithmetic


def _call(builder, name, arguments, flags=()):
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v8f64")
    return builder.call(function, arguments, fastmath=flags)


def _lanewise(n_arguments, build):
    """An operation that ``build(builder, *vectors)`` emits lane by lane."""

    def emit(context, builder, sig, arguments):
        return build(builder, *arguments)

    operation = signature(float64x8, *[float64x8] * n_arguments), emit
    if n_arguments == 1:
        return intrinsic(lambda typingctx, a: operation)
    if n_arguments == 2:
        return intrinsic(lambda typingctx, a, b: operation)
    if n_arguments == 3:
        return intrinsic(lambda typingctx, a, b, c: operation)
    return intrinsic(lambda typingctx, a, b, c, d: operation)


_add = _lanewise(2, lambda builder, a, b: builder.fadd(a, b))
_subtract = _lanewise(2, lambda builder, a, b: builder.fsub(a, b))
_multiply = _lanewise(2, lambda builder, a, b: builder.fmul(a, b))
_divide = _lanewise(2, lambda builder, a, b: builder.fdiv(a, b))
fma = _lanewise(3, lambda builder, a, b, c: _call(builder, "fmuladd", [a, b, c]))
largest = _lanewise(2, lambda b, x, y: _call(b, "maxnum", [x, y], ("nnan", "nsz")))
smallest = _lanewise(2, lambda b, x, y: _call(b, "minnum", [x, y], ("nnan", "nsz")))
absolute = _lanewise(1, lambda builder, a: _call(builder, "fabs", [a]))
where_less = _lanewise(
    4, lambda builder, a, b, yes, no: builder.select(builder.fcmp_ordered("<", a, b), yes, no)
)
"""``where_less(a, b, yes, no)``: lane by lane ``yes`` if ``a < b``, else ``no``."""


def _overload(symbol, implementation):
    @overload(symbol)
    def _(left, right):
        if isinstance(left, Float64x8Type) and isinstance(right, Float64x8Type):
            return lambda left, right: implementation(left, right)
        return None


_overload(operator.add, _add)
_overload(operator.sub, _subtract)
_overload(operator.mul, _multiply)
_overload(operator.truediv, _divide)


def _reduction(combine):
    @intrinsic
    def operation(typingctx, vector):
        def codegen(context, builder, sig, arguments):
            value = arguments[0]
            for shift in (4, 2, 1):
                order = [lane ^ shift for lane in range(WIDTH)]
                value = combine(builder, value, _shuffled(builder, value, order))
            return builder.extract_element(value, ir.Constant(_INDEX, 0))

        return signature(types.float64, float64x8), codegen

    return operation


reduce_sum = _reduction(lambda builder, a, b: builder.fadd(a, b))
reduce_max = _reduction(lambda builder, a, b: _call(builder, "maxnum", [a, b], ("nnan", "nsz")))
reduce_min = _reduction(lambda builder, a, b: _call(builder, "minnum", [a, b], ("nnan", "nsz")))


# ---- exponential and logarithm

_MAGIC = 1.5 * 2.0**52
"""Added to a small number it leaves the nearest integer in the low bits: rounding for free."""
_MAGIC_BITS = 0x4338000000000000
_EXPONENT_OF_ONE = 1023
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

LARGEST_EXPONENT = 256.0
"""``exp(-s)`` is the same for all larger s, which keeps products with it out of the denormals."""
_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = 0.6931471803691238  # so few bits that its products with small integers are exact
_LN2_LOW = 1.9082149292705877e-10


def _power_of_two(builder, magic):
    """``2 ** n`` for the integer n that ``magic = n + _MAGIC`` holds."""
    bits = builder.bitcast(magic, _INT_VECTOR)
    # What is left is n plus the bias of the exponent; 52 bits up it is the exponent of a float.
    bits = builder.sub(bits, _int_constant(_MAGIC_BITS - _EXPONENT_OF_ONE))
    return builder.bitcast(builder.shl(bits, _int_constant(52)), _VECTOR)


def _exponent(builder, value):
    """The integer k, as float, for which ``value / 2 ** k`` lies in [sqrt(1/2), sqrt(2))."""
    bits = builder.bitcast(value, _INT_VECTOR)
    # Floats are ordered like their bits, so the difference to sqrt(1/2) counts powers of two.
    k = builder.lshr(builder.sub(bits, _int_constant(_SQRT_HALF_BITS)), _int_constant(52))
    magic = builder.bitcast(builder.add(k, _int_constant(_MAGIC_BITS)), _VECTOR)
    return builder.fsub(magic, _constant(_MAGIC))


def _mantissa(builder, value):
    bits = builder.bitcast(value, _INT_VECTOR)
    k = builder.lshr(builder.sub(bits, _int_constant(_SQRT_HALF_BITS)), _int_constant(52))
    return builder.bitcast(builder.sub(bits, builder.shl(k, _int_constant(52))), _VECTOR)


power_of_two = _lanewise(1, _power_of_two)
exponent = _lanewise(1, _exponent)
mantissa = _lanewise(1, _mantissa)


@inner(forceinline=True)
def exp_minus(s):
    """``exp(-s)`` and ``1 - exp(-s)`` of lanes ``s >= 0``, both to rounding.

    With n the integer nearest to ``-s / log 2`` and g the rest, |g| <= log(2) / 2,
    ``exp(-s) = 2**n (1 + p)`` where ``p = exp(g) - 1`` is a polynomial without constant term, so
    that nothing cancels for small s. Coefficients: interpolation at Chebyshev points.
    """
    s = smallest(s, splat(LARGEST_EXPONENT))
    shifted = fma(s, splat(-_LOG2_E), splat(_MAGIC))
    n = shifted - splat(_MAGIC)
    # log 2 in two parts: the product with the first is exact, so g has no error from the
    # subtraction of two large numbers.
    g = splat(0.0) - fma(n, splat(_LN2_HIGH), s)
    g = fma(n, splat(-_LN2_LOW), g)
    # Estrin's scheme: powers of the square in parallel, shorter chains than Horner's.
    square = g * g
    fourth = square * square
    low = fma(
        fma(g, splat(0.008333333333229376), splat(0.041666666666632164)),
        square,
        fma(g, splat(0.16666666666666746), splat(0.5)),
    )
    high = fma(
        fma(g, splat(2.7556837815990328e-06), splat(2.4801527317728415e-05)),
        square,
        fma(g, splat(0.00019841270208637693), splat(0.001388888891327119)),
    )
    high = fma(fma(g, splat(2.5276571798281242e-08), splat(2.761727135487715e-07)), fourth, high)
    p = fma(fma(high, fourth, low), square, g)
    scale = power_of_two(shifted)
    # 1 - exp(-s) from the same pieces; 1 - scale is exact, so small s lose no digits.
    return fma(scale, p, scale), (splat(1.0) - scale) - scale * p


@inner(forceinline=True)
def log_one_plus(x):
    """``log(1 + x)`` and ``1 / (1 + x)`` of lanes ``x >= 0``, both to rounding.

    One division serves both: ``log m = 2 atanh((m - 1) / (m + 1))`` for the mantissa m of 1 + x.
    Coefficients: interpolation at Chebyshev points.
    """
    one = splat(1.0)
    z = one + x
    k = exponent(z)
    m = mantissa(z)
    # For small x, 1 + x has rounded x away; x itself is the exact m - 1 there.
    numerator = where_less(k, splat(0.5), x, m - one)
    denominator = m + one
    inverse = one / (denominator * z)
    t = numerator * (inverse * z)
    square = t * t
    fourth = square * square
    low = fma(
        fma(square, splat(0.22222212487032925), splat(0.28571428614613)),
        fourth,
        fma(square, splat(0.3999999999993969), splat(0.6666666666666666)),
    )
    high = fma(square, splat(0.15333849113273545), splat(0.1818281153561245))
    high = fma(fourth, splat(0.14594072230477986), high)
    tail = fma(high, fourth * fourth, low)
    log = fma(k, splat(_LN2_HIGH), fma(square * t, tail, fma(k, splat(_LN2_LOW), t + t)))
    return log, inverse * denominator


@inner(forceinline=True)
def edge_terms(s, slope):
    """What a noisy-OR edge needs: ``phi(s)`` and its derivative, in lanes.

    Equation T25 of docs/theory.md.
    ``phi(s) = f(leak + s) - f(leak)`` with ``f(b) = log(1 - exp(-b))``. In terms of
    ``slope = f'(leak) = 1 / (exp(leak) - 1)`` and ``y = 1 - exp(-s)`` it is
    ``log(1 + slope y)``, free of cancellation, and ``phi'(s) = slope (1 - y) / (1 + slope y)``.
    """
    rest, y = exp_minus(s)
    phi, inverse = log_one_plus(slope * y)
    return phi, slope * rest * inverse


@inner(forceinline=True)
def logistic(a):
    """``1 / (1 + exp(-a))`` in lanes."""
    # exp of a negative number only: no overflow, and both branches share the division.
    rest, _ = exp_minus(absolute(a))
    one = splat(1.0)
    inverse = one / (one + rest)
    return where_less(a, splat(0.0), rest * inverse, inverse)


@inner(forceinline=True)
def entropy(q):
    """``-q log q - (1 - q) log(1 - q)`` in lanes, 0 at both ends."""
    one, least = splat(1.0), splat(1e-100)
    other = one - q
    # -log q = log(1 + (1 - q) / q); at q = 0 the floor keeps the quotient finite and q makes it 0.
    first, _ = log_one_plus(other / largest(q, least))
    second, _ = log_one_plus(q / largest(other, least))
    return q * first + other * second
