"""The Jensen weights r of noisy-OR factors: their updates, and the edge weights that follow.

Equations T25 and T27 to T30 of docs/theory.md. For one child the weights maximize the concave
``F(r) = sum_k q_k r_k phi(theta_k / r_k)`` on the simplex, phi as in `edge_terms`; the gradient
``G_k = dF/dr_k`` depends on its own weight alone.

Children are worked on in groups. A group is an array of slots of eight lanes. Children with few
parents share a group, one lane each, so that eight sums and divisions are one; a child with many
parents has a group of its own and its edges fill the lanes one after the other. The code is the
same for both: what is summed over slots is in the second case summed over lanes too. Slots that
hold no edge have q = 0, are left out where that does not suffice, and nothing reads them.

Several groups go through an iteration together: they are independent, so one's arithmetic hides
the latency of another's, and the first-level cache holds them for all iterations.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, LongArray
from noisyor.engines.numba.cache import inner
from noisyor.engines.numba.simd import (
    LANES,
    edge_terms,
    fma,
    largest,
    load,
    reduce_max,
    reduce_min,
    reduce_sum,
    smallest,
    splat,
    store,
    where_less,
)

BATCH, BATCH_SETTLING = 256, 1024
"""Edges that go through an iteration together; a group with more goes alone."""

R_FLOOR = 1e-5
"""Smallest Jensen weight: what is smaller could not grow back within a few iterations."""

_TINY = 1e-280
"""A sum of scores below this is zero: dividing by it would overflow."""

_MOST_PASSES = 100
"""Ends the search for weights below the floor if rounding should keep it going."""


class Edges(NamedTuple):
    """Edges into the nodes of a row that may be on, slot by slot, each (8 * slots,).

    ``theta`` parameter; ``r`` Jensen weight; ``weight`` = theta + r phi(theta / r), what an active
    parent adds to the child's log-odds; ``link`` number of the parent within the row, ``q`` its
    probability when r was last updated.
    """

    theta: npt.NDArray[np.float64]
    r: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    q: npt.NDArray[np.float64]
    link: npt.NDArray[np.int32]


class Groups(NamedTuple):
    """Groups of a row. Group g has the edges ``begin[g]:begin[g + 1]``.

    ``wide[g]`` whether it is one child, ``solved[g]`` whether r suits ``Edges.q``. By lane, each
    (8 * groups,): ``used`` slots, ``size`` number of parents of the child, ``floor`` of its
    weights, ``slope`` f'(leak) of the child, ``importance`` probability that it is on; while r is
    solved for, ``active`` whether it is not solved yet and ``best`` F before the last step;
    ``total`` of the scores; ``member`` number of the child, or -1.
    """

    begin: LongArray
    wide: BinaryArray
    solved: BinaryArray
    used: FloatArray
    size: FloatArray
    floor: FloatArray
    slope: FloatArray
    importance: FloatArray
    active: FloatArray
    best: FloatArray
    total: FloatArray
    member: LongArray


class Children(NamedTuple):
    """Children of a row: hidden nodes in the order of a sweep, then the visibles that are on.

    ``node`` number; its edges are ``start + stride * j`` for the parents j in the graph's order.
    ``lane`` its first lane in `Groups`; it has that one, or eight if the stride is 1. ``ordered``
    and ``bucket`` serve to group children by the number of their parents.
    """

    node: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    stride: npt.NDArray[np.int64]
    lane: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.int64]
    bucket: npt.NDArray[np.int64]


class Scratch(NamedTuple):
    """Edges of one batch, and the list of its groups that are not solved.

    ``value`` gradient G or a new weight, ``worth`` term of F, ``step`` relative Newton step per
    unit of G, ``before`` the weights before the step.
    """

    value: npt.NDArray[np.float64]
    worth: npt.NDArray[np.float64]
    step: npt.NDArray[np.float64]
    before: npt.NDArray[np.float64]
    todo: npt.NDArray[np.int64]


@inner()
def floor_of(n_parents):
    """Smallest weight of a child with this many parents: the floors never add up to a tenth.

    With thousands of parents a floor of 1e-5 would take a good part of the whole.
    """
    return min(R_FLOOR, 0.1 / n_parents)


@inner(forceinline=True)
def by_child(lanes, wide):
    """Sums by child from sums by lane: of one child over all lanes if the group is wide."""
    return splat(reduce_sum(lanes)) if wide else lanes


@inner(forceinline=True)
def largest_by_child(lanes, wide):
    """Maxima by child from maxima by lane."""
    return splat(reduce_max(lanes)) if wide else lanes


@inner(forceinline=True)
def _min(lanes, wide):
    return splat(reduce_min(lanes)) if wide else lanes


@inner()
def normalise(values, shift, r, groups, number, active, total):
    """Set r of a group proportional to ``values[shift:] >= 0``, floored, sum one, where active.

    Weights below the floor are raised to it and only the others are scaled, until none falls below:
    then the published fixed-point step with this floor cannot lower the bound. The sum is one and
    not a little more, or the bound would not be one. A child whose values all vanish keeps its
    weights. ``active`` is 1 or 0, ``total`` the sum of the values.
    """
    zero, one, half, tiny, huge = splat(0.0), splat(1.0), splat(0.5), splat(_TINY), splat(1e300)
    begin, end, wide = groups.begin[number], groups.begin[number + 1], groups.wide[number]
    used, floor = load(groups.used, 8 * number), load(groups.floor, 8 * number)
    active = where_less(tiny, total, active, zero)
    # A value is low if its share would be below the floor. Raising the low ones leaves less room
    # for the others, which may make some of them low: repeat until the set of low ones stands
    # still.
    limit, room, rest = floor * total, one, total
    for _ in range(_MOST_PASSES):
        n_low, rest, least, slot = zero, zero, huge, zero
        for offset in range(0, end - begin, LANES):
            value = load(values, shift + offset)
            # Empty slots have value 0 and would count as low; ``used`` tells them apart.
            inside = where_less(slot, used, one, zero)
            n_low = n_low + where_less(value, limit, inside, zero)
            rest = rest + where_less(value, limit, zero, value)
            least = smallest(least, where_less(value, limit, huge, value))
            slot = slot + one
        n_low, rest, least = (
            by_child(n_low, wide),
            largest(by_child(rest, wide), tiny),
            _min(least, wide),
        )
        room = one - floor * n_low
        limit = floor * rest / room
        if reduce_max(active * where_less(least, limit, one, zero)) == 0.0:
            break
    # Low values end at the floor through the maximum; all others get their share of the room.
    scale = room / rest
    for offset in range(0, end - begin, LANES):
        new = largest(load(values, shift + offset) * scale, floor)
        store(r, begin + offset, where_less(half, active, new, load(r, begin + offset)))


@inner()
def weigh(edges, groups, first, last):
    """Edge weights of groups ``first`` to ``last`` from their present r, equation T27."""
    for number in range(first, last):
        slope = load(groups.slope, 8 * number)
        for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
            parameter, share = load(edges.theta, edge), load(edges.r, edge)
            phi, _ = edge_terms(parameter / share, slope)
            store(edges.weight, edge, fma(share, phi, parameter))


@inner()
def end_of_batch(groups, first, n_groups, most_edges):
    """Number of the group behind the batch that begins with group ``first``."""
    # A batch has at least one group, however large.
    last = first + 1
    while last < n_groups and groups.begin[last + 1] - groups.begin[first] <= most_edges:
        last += 1
    return last


# ---- the published schedule


@inner()
def iterate(edges, groups, n_groups, q, scratch, iterations):
    """Published steps ``r_k <- r_k G_k / sum_j r_j G_j`` of all groups, equation T30."""
    first, zero, one = 0, splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups, BATCH)
        # q is gathered once per batch, not once per iteration: it does not change in here.
        begin = groups.begin[first]
        for edge in range(begin, groups.begin[last]):
            edges.q[edge] = q[edges.link[edge]]
        for _ in range(iterations):
            for number in range(first, last):
                slope, total = load(groups.slope, 8 * number), zero
                for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
                    parameter, share = load(edges.theta, edge), load(edges.r, edge)
                    phi, derivative = edge_terms(parameter / share, slope)
                    # r G without dividing by r and multiplying again; rounding may leave it a
                    # little negative.
                    value = share * phi - parameter * derivative
                    value = largest(load(edges.q, edge) * value, zero)
                    store(scratch.value, edge - begin, value)
                    total = total + value
                store(groups.total, 8 * number, by_child(total, groups.wide[number]))
            for number in range(first, last):
                shift, total = groups.begin[number] - begin, load(groups.total, 8 * number)
                normalise(scratch.value, shift, edges.r, groups, number, one, total)
        first = last
    weigh(edges, groups, 0, n_groups)
