"""Eight floats at a time: a value type for the inner loops of the kernels, float32 or float64.

The compiler does not vectorize these loops by itself: it has no reduction for the running largest
and second largest value, gathers could alias its stores, and it vectorizes neither ``math.exp`` nor
``math.log``. Eight lanes written out compile to one AVX register of float32, two SSE or NEON ones,
or twice as many of float64; the code is the same on every machine.

Nothing here checks bounds: arrays that kernels read past their last real entry have spare ones.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.typing import signature
from numba.extending import intrinsic, lower_builtin, type_callable

from noisyor.engines.numba.cache import inner

LANES = 8

_INT = ir.IntType(64)
_INDEX = ir.IntType(32)
_INT_VECTOR = ir.VectorType(_INT, LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


class VectorType(types.Type):
    """Numba type of eight floats of one element type in registers."""

    def __init__(self, element):
        self.element = element
        super().__init__(name=f"{element}x{LANES}")


float32x8 = VectorType(types.float32)
float64x8 = VectorType(types.float64)
_OF_ELEMENT = {types.float32: float32x8, types.float64: float64x8}


@register_default(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        element = ir.FloatType() if kind == float32x8 else ir.DoubleType()
        super().__init__(manager, kind, ir.VectorType(element, LANES))


# ---- memory: of arrays or of pointers to their first elements


def _element_pointer(context, builder, kind, memory, index):
    if isinstance(kind, types.Array):
        memory = context.make_array(kind)(context, builder, memory).data
    return builder.gep(memory, [index])


def _vector_pointer(context, builder, kind, memory, index):
    """Return the address of a vector, and its alignment: one element, as rows start anywhere."""
    vector = context.get_value_type(_OF_ELEMENT[kind.dtype])
    pointer = _element_pointer(context, builder, kind, memory, index)
    return builder.bitcast(pointer, vector.as_pointer()), kind.dtype.bitwidth // 8


@intrinsic
def load(typingctx, memory, index):
    """Load ``memory[index:index + 8]``."""

    def codegen(context, builder, sig, arguments):
        pointer, align = _vector_pointer(context, builder, sig.args[0], *arguments)
        return builder.load(pointer, align=align)

    return signature(_OF_ELEMENT[memory.dtype], memory, types.intp), codegen


@intrinsic
def store(typingctx, memory, index, value):
    """Store ``memory[index:index + 8] = value``."""

    def codegen(context, builder, sig, arguments):
        pointer, align = _vector_pointer(context, builder, sig.args[0], *arguments[:2])
        builder.store(arguments[2], pointer, align=align)
        return context.get_dummy_value()

    return signature(types.void, memory, types.intp, _OF_ELEMENT[memory.dtype]), codegen


def _indexed(context, builder, sig, memory, indices, start):
    """Yield pointers to ``memory[indices[start + lane]]``, lane after lane."""
    first = _element_pointer(context, builder, sig.args[1], indices, start)
    for lane in range(LANES):
        index = builder.load(builder.gep(first, [ir.Constant(_INDEX, lane)]))
        index = builder.sext(index, _INT)
        yield lane, _element_pointer(context, builder, sig.args[0], memory, index)


@intrinsic
def gather(typingctx, memory, indices, start):
    """Load ``memory[indices[start:start + 8]]``; indices are of type int32."""

    def codegen(context, builder, sig, arguments):
        # Eight scalar loads, because not every machine has a gather instruction.
        vector = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
        for lane, pointer in _indexed(context, builder, sig, *arguments):
            vector = builder.insert_element(
                vector, builder.load(pointer), ir.Constant(_INDEX, lane)
            )
        return vector

    return signature(_OF_ELEMENT[memory.dtype], memory, indices, types.intp), codegen


@intrinsic
def scatter_add(typingctx, memory, indices, start, value):
    """Add to ``memory[indices[start:start + 8]]``, lane after lane: an index may repeat."""

    def codegen(context, builder, sig, arguments):
        for lane, pointer in _indexed(context, builder, sig, *arguments[:3]):
            element = builder.extract_element(arguments[3], ir.Constant(_INDEX, lane))
            builder.store(builder.fadd(builder.load(pointer), element), pointer)
        return context.get_dummy_value()

    kind = _OF_ELEMENT[memory.dtype]
    return signature(types.void, memory, indices, types.intp, kind), codegen


def _shuffled(builder, vector, order):
    mask = ir.Constant(ir.VectorType(_INDEX, LANES), [ir.Constant(_INDEX, lane) for lane in order])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


@intrinsic
def splat(typingctx, value):
    """Return the same number in all eight lanes."""

    def codegen(context, builder, sig, arguments):
        undefined = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(_INDEX, 0))
        return _shuffled(builder, first, [0] * LANES)

    return signature(_OF_ELEMENT[value], value), codegen


# ---- arithmetic


def _call(builder, name, arguments, flags=()):
    """Call an LLVM function of vectors, such as ``llvm.fabs.v8f32``."""
    kind = arguments[0].type
    suffix = "v8f32" if kind.element == ir.FloatType() else "v8f64"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(arguments)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, arguments, fastmath=flags)


def _largest(builder, a, b):
    # Without NaN and signed zeros a maximum is one instruction.
    return _call(builder, "maxnum", [a, b], ("nnan", "nsz"))


def _smallest(builder, a, b):
    return _call(builder, "minnum", [a, b], ("nnan", "nsz"))


def _lanewise(n_arguments, build):
    """Return an operation that ``build(builder, *vectors)`` emits lane by lane."""

    def emit(context, builder, sig, arguments):
        return build(builder, *arguments)

    def typed(kind):
        return signature(kind, *[kind] * n_arguments), emit

    if n_arguments == 1:
        return intrinsic(lambda typingctx, a: typed(a))
    if n_arguments == 2:
        return intrinsic(lambda typingctx, a, b: typed(a))
    if n_arguments == 3:
        return intrinsic(lambda typingctx, a, b, c: typed(a))
    return intrinsic(lambda typingctx, a, b, c, d: typed(a))


fma = _lanewise(3, lambda builder, a, b, c: _call(builder, "fmuladd", [a, b, c]))
largest = _lanewise(2, _largest)
smallest = _lanewise(2, _smallest)
absolute = _lanewise(1, lambda builder, a: _call(builder, "fabs", [a]))
where_less = _lanewise(
    4, lambda builder, a, b, yes, no: builder.select(builder.fcmp_ordered("<", a, b), yes, no)
)
"""``where_less(a, b, yes, no)``: lane by lane ``yes`` if ``a < b``, else ``no``."""
where_equal = _lanewise(
    4, lambda builder, a, b, yes, no: builder.select(builder.fcmp_ordered("==", a, b), yes, no)
)
"""``where_equal(a, b, yes, no)``: lane by lane ``yes`` if ``a == b``, else ``no``."""


def _operator(symbol, build):
    """Define a Python operator for vectors as a builtin, which compiles to no separate function."""

    @type_callable(symbol)
    def _(context):
        def typer(left, right):
            if isinstance(left, VectorType) and left == right:
                return left
            return None

        return typer

    @lower_builtin(symbol, VectorType, VectorType)
    def _(context, builder, sig, arguments):
        return build(builder, *arguments)


_operator(operator.add, lambda builder, a, b: builder.fadd(a, b))
_operator(operator.sub, lambda builder, a, b: builder.fsub(a, b))
_operator(operator.mul, lambda builder, a, b: builder.fmul(a, b))
_operator(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))


def _reduction(combine):
    @intrinsic
    def operation(typingctx, vector):
        def codegen(context, builder, sig, arguments):
            value = arguments[0]
            # Pairs of lanes four apart, then two, then one: a fixed tree, three steps for eight.
            for shift in (4, 2, 1):
                order = [lane ^ shift for lane in range(LANES)]
                value = combine(builder, value, _shuffled(builder, value, order))
            return builder.extract_element(value, ir.Constant(_INDEX, 0))

        return signature(vector.element, vector), codegen

    return operation


reduce_sum = _reduction(lambda builder, a, b: builder.fadd(a, b))
reduce_max = _reduction(_largest)
reduce_min = _reduction(_smallest)


@intrinsic
def reduce_top_two(typingctx, first, second):
    """Return the two largest of 16 numbers that are sorted lane by lane: ``first >= second``."""

    def codegen(context, builder, sig, arguments):
        best, next_best = arguments
        for shift in (4, 2, 1):
            order = [lane ^ shift for lane in range(LANES)]
            other, next_other = (_shuffled(builder, v, order) for v in (best, next_best))
            # The smaller of the two largest is a candidate for the second largest.
            loser = _smallest(builder, best, other)
            best = _largest(builder, best, other)
            next_best = _largest(builder, _largest(builder, next_best, next_other), loser)
        pair = [builder.extract_element(v, ir.Constant(_INDEX, 0)) for v in (best, next_best)]
        return context.make_tuple(builder, sig.return_type, pair)

    return signature(types.UniTuple(first.element, 2), first, second), codegen


# ---- exponential and logarithm of float64 lanes

_MAGIC = 1.5 * 2.0**52
"""Added to a small number, it leaves the nearest integer in the low bits: a fast way to round."""
_MAGIC_BITS = 0x4338000000000000
_EXPONENT_OF_ONE = 1023
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

MAX_EXPONENT = 256.0
"""``exp(-s)`` is the same for all larger s, which keeps products with it out of the denormals."""
_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = 0.6931471803691238  # so few bits that its products with small integers are exact
_LN2_LOW = 1.9082149292705877e-10


def _int_constant(value):
    return ir.Constant(_INT_VECTOR, [ir.Constant(_INT, value)] * LANES)


def _power_of_two(builder, magic):
    """Return ``2 ** n`` for the integer n that ``magic = n + _MAGIC`` holds."""
    bits = builder.bitcast(magic, _INT_VECTOR)
    # What is left is n plus the bias of the exponent; 52 bits up it is the exponent of a float.
    bits = builder.sub(bits, _int_constant(_MAGIC_BITS - _EXPONENT_OF_ONE))
    return builder.bitcast(builder.shl(bits, _int_constant(52)), _DOUBLES)


def _exponent(builder, value):
    """Return the integer k, as float, with ``value / 2 ** k`` in [sqrt(1/2), sqrt(2))."""
    bits = builder.bitcast(value, _INT_VECTOR)
    # Floats are ordered like their bits, so the difference to sqrt(1/2) counts powers of two.
    k = builder.lshr(builder.sub(bits, _int_constant(_SQRT_HALF_BITS)), _int_constant(52))
    magic = builder.bitcast(builder.add(k, _int_constant(_MAGIC_BITS)), _DOUBLES)
    return builder.fsub(
        magic, ir.Constant(_DOUBLES, [ir.Constant(ir.DoubleType(), _MAGIC)] * LANES)
    )


def _mantissa(builder, value):
    bits = builder.bitcast(value, _INT_VECTOR)
    k = builder.lshr(builder.sub(bits, _int_constant(_SQRT_HALF_BITS)), _int_constant(52))
    return builder.bitcast(builder.sub(bits, builder.shl(k, _int_constant(52))), _DOUBLES)


power_of_two = _lanewise(1, _power_of_two)
exponent = _lanewise(1, _exponent)
mantissa = _lanewise(1, _mantissa)


@inner(forceinline=True)
def exp_minus(s):
    """Return ``exp(-s)`` and ``1 - exp(-s)`` of lanes ``s >= 0``, both to rounding.

    With n the integer nearest to ``-s / log 2`` and g the rest, |g| <= log(2) / 2,
    ``exp(-s) = 2**n (1 + p)`` where ``p = exp(g) - 1`` is a polynomial without constant term, so
    that nothing cancels for small s. Coefficients: interpolation at Chebyshev points.
    """
    s = smallest(s, splat(MAX_EXPONENT))
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
    """Return ``log(1 + x)`` and ``1 / (1 + x)`` of lanes ``x >= 0``, both to rounding.

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
    """Return ``phi(s)`` of noisy-OR edges and its derivative, in lanes.

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
    """Return ``1 / (1 + exp(-a))`` in lanes."""
    # exp of a negative number only: no overflow, and both branches share the division.
    rest, _ = exp_minus(absolute(a))
    one = splat(1.0)
    inverse = one / (one + rest)
    return where_less(a, splat(0.0), rest * inverse, inverse)


@inner(forceinline=True)
def entropy(q):
    """Return ``-q log q - (1 - q) log(1 - q)`` in lanes, 0 at both ends."""
    one, least = splat(1.0), splat(1e-100)
    other = one - q
    # -log q = log(1 + (1 - q) / q); at q = 0 the floor keeps the quotient finite and q makes it 0.
    first, _ = log_one_plus(other / largest(q, least))
    second, _ = log_one_plus(q / largest(other, least))
    return q * first + other * second
