"""Hand named tuples and workspaces of arrays to kernels as one address each.

The compiler passes an array as seven values and a counted reference. A kernel with sixty array
arguments spends most of its compile time on unpacking them, and so does every function that it
calls with them. So `pack` writes the fields of a named tuple into a row of 64-bit words: the
address of an array, or a number. Inside a kernel `unpack` reads these words as pointers and
numbers. The annotations of the named tuple say what each word holds, and `pack` checks the arrays
against them. A kernel thus has one signature for all flags of the arrays and is compiled once.

A `Workspace` is memory that kernels write to: a table of names by length and element type, from
which the arrays are allocated. It is packed like a named tuple.

An address does not keep an array alive, so `launch` holds the packed objects while a kernel runs.

A small minibatch takes a few microseconds, and reading the address of the data from NumPy takes one
microsecond per array. So a word holds the address of the array object itself, and kernels read the
address of the data from there, as C extensions do: it is the first field of the object.
"""

from __future__ import annotations

import inspect
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.core.typing import signature
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_getattr_generic
from numba.np.numpy_support import from_dtype

_WORD = ir.IntType(64)
_MASK = 2**64 - 1

_FLOAT64 = np.dtype(np.float64)

_LINE = 64
"""Bytes of a cache line, and of the longest vectors."""

_DATA_OF_ARRAY = object.__basicsize__
"""Bytes before the address of the data in an array object, part of NumPy's binary interface."""

_DATA_OF_BYTES = bytes.__basicsize__ - 1
"""Bytes before the first byte of a ``bytes`` object: its size counts one that ends the string."""


def aligned_zeros(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Allocate zeros (size,) from a cache line on, so that no vector of a kernel crosses two."""
    length = size * np.dtype(dtype).itemsize
    room = np.zeros(length + _LINE, dtype=np.uint8)
    shift = -room.ctypes.data % _LINE
    return room[shift : shift + length].view(dtype)


class _Group(NamedTuple):
    """Arrays of one length: that length, if it is fixed, and the element type of each array."""

    length: int | None
    dtypes: dict[str, np.dtype[Any]]


def arrays(length: int | None = None, /, **names: str) -> Any:
    """Declare arrays of one length in a `Workspace`: names by element type.

    A length that is not given here is given when the workspace is allocated.
    """
    groups = ((np.dtype(kind), group.split()) for kind, group in names.items())
    return _Group(length, {name: dtype for dtype, group in groups for name in group})


class Workspace(tuple[Any, ...]):
    """Memory for kernels: groups of arrays, and annotated numbers and other workspaces.

    ``floats`` of a subclass is the initial value of its float64 arrays; other arrays are zero.

    >>> class Path(Workspace):
    ...     per_point = arrays(float64="x y", int32="color")
    ...     ends = arrays(2, float64="end")
    ...     closed: bool
    >>> path = Path(per_point=3, closed=False)
    >>> path.x, path.color.dtype, path.end, path.closed
    (array([0., 0., 0.]), dtype('int32'), array([0., 0.]), False)
    """

    _dtypes: ClassVar[dict[str, np.dtype[Any]]]
    _fields: ClassVar[tuple[str, ...]]
    _beside: ClassVar[tuple[str, ...]]
    _given: ClassVar[frozenset[str]]
    _lengths: ClassVar[list[tuple[str, int | None, np.dtype[Any]]]]
    _floats: ClassVar[float]

    def __init_subclass__(cls, floats: float = 0.0) -> None:
        groups = {name: group for name, group in vars(cls).items() if type(group) is _Group}
        cls._dtypes, cls._lengths = {}, []
        for name, group in groups.items():
            cls._dtypes.update(group.dtypes)
            cls._lengths += [(name, group.length, dtype) for dtype in group.dtypes.values()]
        cls._beside = tuple(inspect.get_annotations(cls))
        cls._fields = (*cls._dtypes, *cls._beside)
        open_groups = (name for name, group in groups.items() if group.length is None)
        cls._given = frozenset([*open_groups, *cls._beside])
        cls._floats = floats
        for index, name in enumerate(cls._fields):
            setattr(cls, name, property(itemgetter(index)))

    def __new__(cls, **given: Any) -> Self:
        """Allocate arrays for the lengths of the groups, and store the annotated fields."""
        if given.keys() != cls._given:
            raise TypeError(f"{cls.__name__} takes {sorted(cls._given)}, got {sorted(given)}")
        # A small minibatch takes a few microseconds, so this is as short as it can be.
        plan: list[tuple[Any, np.dtype[Any]]]
        plan = [(given.get(name, length), dtype) for name, length, dtype in cls._lengths]
        values: list[Any] = [np.zeros(length, dtype) for length, dtype in plan]
        if cls._floats:
            for (_, dtype), array in zip(plan, values, strict=True):
                if dtype is _FLOAT64:
                    array.fill(cls._floats)
        values += [given[name] for name in cls._beside]
        return super().__new__(cls, values)

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name; numba recognizes named tuples by this method."""
        return dict(zip(self._fields, self, strict=True))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


Values = TypeVar("Values", bound=tuple[Any, ...])


class Packed(Generic[Values]):
    """A named tuple or workspace, kept alive, and the ``address`` of its packed fields."""

    __slots__ = ("_words", "address", "values")

    def __init__(self, values: Values) -> None:
        numbers: list[int | float] = []
        _append(values, numbers)
        self.values = values
        self._words = struct.pack(_layout(type(values)), *numbers)
        self.address = id(self._words) + _DATA_OF_BYTES


def pack(values: Values) -> Packed[Values]:
    """Pack C-contiguous arrays, numbers, and named tuples and workspaces of these.

    >>> import numpy.typing as npt
    >>> class Line(NamedTuple):
    ...     x: npt.NDArray[np.float64]
    ...     length: int
    >>> pack(Line(np.zeros(3, dtype=np.float32), 3))
    Traceback (most recent call last):
        ...
    TypeError: Line.x must be a C-contiguous array of float64, got float32
    """
    return Packed(values)


def launch(kernel: Any, packed: tuple[Packed[Any], ...], begin: int, end: int) -> Any:
    """Call a kernel for the rows ``begin`` to ``end``; packed objects stay alive meanwhile."""
    return kernel(*[each.address for each in packed], begin, end)


class _Field(NamedTuple):
    """One field: the type of its elements, if an array, or its type."""

    name: str
    dtype: Any
    kind: Any


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints, dtypes, found = get_type_hints(cls), getattr(cls, "_dtypes", {}), []
    for name in cls._fields:  # type: ignore[attr-defined]
        kind, dtype = hints.get(name), dtypes.get(name)
        found.append(_Field(name, _element_type(kind) or dtype, kind))
    return tuple(found)


def _element_type(kind: Any) -> Any:
    """Return the element type of an annotation such as ``NDArray[np.int64]``, or None."""
    if get_origin(kind) is np.ndarray:
        return np.dtype(get_args(get_args(kind)[1])[0])
    if get_origin(kind) is npt.NDArray:  # since NumPy 2.5 a type alias of its own
        return np.dtype(get_args(kind)[0])
    return None


@cache
def _layout(cls: type) -> str:
    """Return the format of the words for `struct`: floats as floats, other fields as integers."""
    codes = ""
    for _, dtype, kind in _fields(cls):
        if dtype is None and hasattr(kind, "_fields"):
            codes += _layout(kind)
        else:
            codes += "d" if kind is float else "Q"
    return codes


def _append(values: Any, numbers: list[int | float]) -> None:
    cls: type = type(values)
    for (name, dtype, kind), value in zip(_fields(cls), values, strict=True):
        if dtype is not None:
            if value.dtype != dtype or not value.flags.c_contiguous:
                raise TypeError(
                    f"{cls.__name__}.{name} must be a C-contiguous array of {dtype}, "
                    f"got {value.dtype}"
                )
            numbers.append(id(value))
        elif hasattr(kind, "_fields"):
            _append(value, numbers)
        elif kind is float:
            numbers.append(value)
        else:
            numbers.append(int(value) & _MASK)  # seeds may be negative, or need all 64 bits


# ---- memory that is kept between calls, so that small minibatches do not allocate it

Kept = TypeVar("Kept")


@contextmanager
def borrowed(
    idle: deque[Kept], fits: Callable[[Kept], bool], make: Callable[[], Kept]
) -> Iterator[Kept]:
    """Lend the first idle object if it fits, else a new one; it is idle again afterwards.

    No object is lent to two threads at once. An object that does not fit is dropped.

    >>> idle = deque([bytearray(2)])
    >>> with borrowed(idle, lambda memory: len(memory) >= 3, lambda: bytearray(3)) as memory:
    ...     len(memory), len(idle)
    (3, 0)
    >>> len(idle)
    1
    """
    try:
        found = idle.popleft()
    except IndexError:
        found = make()
    else:
        if not fits(found):
            found = make()
    try:
        yield found
    finally:
        idle.append(found)


# ---- inside a kernel


class ViewType(types.Type):
    """Numba type of packed fields: a pointer to their words."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        super().__init__(name=f"View({cls.__module__}.{cls.__qualname__})")


@register_default(ViewType)
class _ViewModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@cache
def _members(cls: type) -> dict[str, tuple[int, Any]]:
    """Return the first word and the numba type of each field."""
    members, position = {}, 0
    for name, dtype, kind in _fields(cls):
        if dtype is not None:
            found = types.CPointer(from_dtype(dtype))
        elif hasattr(kind, "_fields"):
            found = ViewType(kind)
        else:
            found = {int: types.int64, float: types.float64, bool: types.boolean}[kind]
        members[name] = position, found
        position += len(_layout(kind)) if isinstance(found, ViewType) else 1
    return members


@infer_getattr
class _ViewAttributes(AttributeTemplate):
    key = ViewType

    def generic_resolve(self, view: Any, name: str) -> Any:
        return _members(view.cls).get(name, (0, None))[1]


def _load_once(builder: Any, pointer: Any) -> Any:
    """Load a value that does not change while a kernel runs, so that a loop loads it once."""
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@lower_getattr_generic(ViewType)
def _read_field(context: Any, builder: Any, view: Any, words: Any, name: str) -> Any:
    position, kind = _members(view.cls)[name]
    pointer = builder.gep(words, [ir.Constant(ir.IntType(32), position)])
    if isinstance(kind, ViewType):
        return pointer
    word = _load_once(builder, pointer)
    if isinstance(kind, types.CPointer):
        data = builder.add(word, ir.Constant(_WORD, _DATA_OF_ARRAY))
        data = _load_once(builder, builder.inttoptr(data, _WORD.as_pointer()))
        return builder.inttoptr(data, context.get_value_type(kind))
    if kind == types.float64:
        return builder.bitcast(word, ir.DoubleType())
    if kind == types.boolean:
        return builder.icmp_signed("!=", word, ir.Constant(_WORD, 0))
    return word


@intrinsic
def unpack(typingctx: Any, address: Any, cls: Any) -> Any:
    """Return a view of the fields that `pack` wrote: ``unpack(address, Graph).ptr[3]``."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], _WORD.as_pointer())

    return signature(ViewType(cls.instance_class), types.int64, cls), codegen


@intrinsic
def advance(typingctx: Any, pointer: Any, count: Any) -> Any:
    """Return the pointer to element ``count``: ``advance(p, n)[i]`` is ``p[n + i]``."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return signature(pointer, pointer, types.intp), codegen
