"""Eight float32 at a time: a value type for the inner loops of the kernels.

Left to itself the compiler does not vectorize the message updates: a running largest and second
largest is not a reduction it knows, and gathers could alias its stores. Eight lanes written out
compile to one AVX register, two SSE or NEON ones; the code is the same on every machine.

Nothing here checks bounds: arrays that kernels read past their last real entry have spare ones.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.typing import signature
from numba.extending import intrinsic

LANES = 8

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)


class Float32x8Type(types.Type):
    """Numba type of eight float32 in a register."""

    def __init__(self):
        super().__init__(name="Float32x8")


float32x8 = Float32x8Type()


@register_default(Float32x8Type)
class _Float32x8Model(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def _element_pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _permuted(builder, vector, order):
    mask = ir.Constant(ir.VectorType(_INT, LANES), [ir.Constant(_INT, lane) for lane in order])
    return builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), mask)


def _llvm_binary(builder, name, left, right):
    """A maximum or minimum as one instruction: without NaN and signed zeros it needs no branch."""
    suffix = "v8f32" if left.type == _VECTOR else "f32"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(left.type, [left.type] * 2), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, [left, right], fastmath=("nnan", "nsz"))


@intrinsic
def load(typingctx, array, index):
    """``array[index:index + 8]``."""

    def codegen(context, builder, sig, arguments):
        pointer = _element_pointer(context, builder, sig.args[0], *arguments)
        # Alignment of a float, not of a vector: rows start anywhere.
        return builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    return signature(float32x8, array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, value):
    """``array[index:index + 8] = value``."""

    def codegen(context, builder, sig, arguments):
        array_value, position, vector = arguments
        pointer = _element_pointer(context, builder, sig.args[0], array_value, position)
        builder.store(vector, builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature(types.void, array, types.intp, float32x8), codegen


@intrinsic
def gather(typingctx, array, indices, start):
    """``array[indices[start:start + 8]]``, indices of type int32."""

    def codegen(context, builder, sig, arguments):
        array_value, index_value, position = arguments
        # Eight scalar loads, because not every machine has a gather instruction.
        vector = ir.Constant(_VECTOR, ir.Undefined)
        first = _element_pointer(context, builder, sig.args[1], index_value, position)
        for lane in range(LANES):
            index = builder.load(builder.gep(first, [ir.Constant(_INT, lane)]))
            wide = builder.sext(index, ir.IntType(64))
            element = builder.load(
                _element_pointer(context, builder, sig.args[0], array_value, wide)
            )
            vector = builder.insert_element(vector, element, ir.Constant(_INT, lane))
        return vector

    return signature(float32x8, array, indices, types.intp), codegen


@intrinsic
def scatter_add(typingctx, array, indices, start, value):
    """``array[indices[start:start + 8]] += value``, lane after lane: an index may repeat."""

    def codegen(context, builder, sig, arguments):
        array_value, index_value, position, vector = arguments
        first = _element_pointer(context, builder, sig.args[1], index_value, position)
        for lane in range(LANES):
            index = builder.load(builder.gep(first, [ir.Constant(_INT, lane)]))
            wide = builder.sext(index, ir.IntType(64))
            place = _element_pointer(context, builder, sig.args[0], array_value, wide)
            element = builder.extract_element(vector, ir.Constant(_INT, lane))
            builder.store(builder.fadd(builder.load(place), element), place)
        return context.get_dummy_value()

    return signature(types.void, array, indices, types.intp, float32x8), codegen


@intrinsic
def splat(typingctx, value):
    """The same float32 in all eight lanes."""

    def codegen(context, builder, sig, arguments):
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(_INT, 0))
        return _permuted(builder, first, [0] * LANES)

    return signature(float32x8, types.float32), codegen


def _elementwise(build):
    @intrinsic
    def operation(typingctx, left, right):
        def codegen(context, builder, sig, arguments):
            return build(builder, *arguments)

        return signature(float32x8, float32x8, float32x8), codegen

    return operation


add = _elementwise(lambda builder, left, right: builder.fadd(left, right))
subtract = _elementwise(lambda builder, left, right: builder.fsub(left, right))
multiply = _elementwise(lambda builder, left, right: builder.fmul(left, right))
largest = _elementwise(lambda builder, left, right: _llvm_binary(builder, "maxnum", left, right))
smallest = _elementwise(lambda builder, left, right: _llvm_binary(builder, "minnum", left, right))


@intrinsic
def largest_magnitude(typingctx, largest_so_far, value):
    """``max(largest_so_far, |value|)``, lane by lane."""

    def codegen(context, builder, sig, arguments):
        so_far, vector = arguments
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), "llvm.fabs.v8f32"
        )
        return _llvm_binary(builder, "maxnum", so_far, builder.call(function, [vector]))

    return signature(float32x8, float32x8, float32x8), codegen


@intrinsic
def where_equal(typingctx, left, right, if_equal, otherwise):
    """Lane by lane: ``if_equal`` where ``left == right``, else ``otherwise``."""

    def codegen(context, builder, sig, arguments):
        left_value, right_value, yes, no = arguments
        return builder.select(builder.fcmp_ordered("==", left_value, right_value), yes, no)

    return signature(float32x8, float32x8, float32x8, float32x8, float32x8), codegen


def _reduction(combine):
    @intrinsic
    def operation(typingctx, vector):
        def codegen(context, builder, sig, arguments):
            value = arguments[0]
            # Pairs of lanes four apart, then two, then one: a fixed tree, three steps for eight.
            for shift in (4, 2, 1):
                other = _permuted(builder, value, [lane ^ shift for lane in range(LANES)])
                value = combine(builder, value, other)
            return builder.extract_element(value, ir.Constant(_INT, 0))

        return signature(types.float32, float32x8), codegen

    return operation


reduce_max = _reduction(lambda builder, left, right: _llvm_binary(builder, "maxnum", left, right))
reduce_sum = _reduction(lambda builder, left, right: builder.fadd(left, right))


@intrinsic
def reduce_top_two(typingctx, first, second):
    """Largest and second largest of 16 numbers, given lane-wise sorted: ``first >= second``."""

    def codegen(context, builder, sig, arguments):
        best, next_best = arguments
        for shift in (4, 2, 1):
            order = [lane ^ shift for lane in range(LANES)]
            other, next_other = (_permuted(builder, v, order) for v in (best, next_best))
            # The smaller of the two largest competes for second place.
            loser = _llvm_binary(builder, "minnum", best, other)
            best = _llvm_binary(builder, "maxnum", best, other)
            next_best = _llvm_binary(builder, "maxnum", next_best, next_other)
            next_best = _llvm_binary(builder, "maxnum", next_best, loser)
        zero = ir.Constant(_INT, 0)
        pair = [builder.extract_element(v, zero) for v in (best, next_best)]
        return context.make_tuple(builder, sig.return_type, pair)

    return signature(types.UniTuple(types.float32, 2), float32x8, float32x8), codegen
