"""A network, a batch of rows and the memory of a launch, as structures that kernels take."""

import warp as wp


@wp.struct
class Graph:
    """The structure and its parameters: equations T3 and T4 of docs/theory.md.

    ``ptr`` (n_nodes + 1,) offsets of the edges of each child; ``parent`` and ``theta``
    (n_edges,); ``log_odds`` (n_edges,): log(exp(theta) - 1), and ``leak`` (n_nodes,) that of the
    leaks. ``total`` (n_hidden,): sum of theta over all children of a hidden node.
    """

    n_visible: int
    n_hidden: int
    ptr: wp.array(dtype=wp.int32)
    parent: wp.array(dtype=wp.int32)
    theta: wp.array(dtype=wp.float64)
    log_odds: wp.array(dtype=wp.float32)
    leak: wp.array(dtype=wp.float32)
    total: wp.array(dtype=wp.float64)


@wp.struct
class Rows:
    """Rows of a launch, as in `noisyor.engines.contract.Evidence`, pointers from zero.

    ``clamps``: number of rows of ``clamp`` (clamps * n_hidden,): none, one for all, or one each.
    """

    clamps: int
    ptr: wp.array(dtype=wp.int32)
    columns: wp.array(dtype=wp.int32)
    missing_ptr: wp.array(dtype=wp.int32)
    missing_columns: wp.array(dtype=wp.int32)
    ids: wp.array(dtype=wp.int64)
    clamp: wp.array(dtype=wp.uint8)


@wp.struct
class Options:
    """The loop of max-product, and the key of the noise."""

    temperature: wp.float64
    max_iterations: int
    step: wp.float32
    tolerance: wp.float32
    n_samples: int
    ancestors_only: int
    key: wp.uint64


@wp.struct
class Work:
    """Memory of a launch: ``lines`` times so many entries of every kind, see `scalar.offset`.

    Entries by hidden node: ``belief``, ``incoming`` (sum of excesses), ``unary``, ``to_child``,
    ``known`` (0, 1, or 2 if free) and the list ``hidden`` of those that take part; with missing
    entries ``total``. ``children``: a list of the ``most_children`` that send messages. ``excess``
    and ``down``: messages by edge into those, ``most_edges``, to the parent and from it.
    """

    lines: int
    most_children: int
    most_edges: int
    belief: wp.array(dtype=wp.float32)
    incoming: wp.array(dtype=wp.float32)
    unary: wp.array(dtype=wp.float32)
    to_child: wp.array(dtype=wp.float32)
    known: wp.array(dtype=wp.uint8)
    hidden: wp.array(dtype=wp.int32)
    total: wp.array(dtype=wp.float64)
    children: wp.array(dtype=wp.int32)
    excess: wp.array(dtype=wp.float32)
    down: wp.array(dtype=wp.float32)


@wp.struct
class Output:
    """Results by line: ``states`` and ``beliefs`` by hidden node, if wanted."""

    with_beliefs: int
    states: wp.array(dtype=wp.uint8)
    beliefs: wp.array(dtype=wp.float32)
    iterations: wp.array(dtype=wp.int32)
    residual: wp.array(dtype=wp.float32)
