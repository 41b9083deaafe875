"""The Jensen weights r of noisy-OR factors: their updates, and the edge weights that follow.

Equations T25 and T27 to T32 of docs/theory.md. For one child the weights maximize the concave
``F(r) = sum_k q_k r_k phi(theta_k / r_k)`` on the simplex, phi as in `edge_terms`; the gradient
``G_k = dF/dr_k`` depends on its own weight alone.

Children are worked on in groups. A group is an array of slots of eight lanes. Children with few
parents share a group, one lane each, so that eight sums and divisions are one; a child with many
parents has a group of its own and its edges fill the lanes one after the other. The code is the
same for both: what is summed over slots is in the second case summed over lanes too. Slots without
an edge have q = 0 and are skipped where that does not suffice.

Several groups go through an iteration together: they are independent, so the arithmetic of one
hides the latency of another, and they stay in the first-level cache for all iterations.

Two schedules of the same step. The published one makes a fixed number of steps. The other stops
when a child is solved: when no other weights could raise its part of the bound by more than a
tolerance (equation T32). Children that are not solved yet are moved into common groups, so that
a group of eight does not wait for its slowest member.
"""

import numpy as np
from numba import int64

from noisyor.engines.numba.arguments import Workspace, arrays
from noisyor.engines.numba.cache import inner
from noisyor.engines.numba.simd import (
    LANES,
    absolute,
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

BATCH, BATCH_SOLVING = np.int64(256), np.int64(1024)
"""Edges that go through an iteration together; a group with more goes alone."""

R_FLOOR = 1e-5
"""Smallest Jensen weight: a smaller weight could not grow back within a few iterations."""

_TINY = 1e-280
"""A sum of scores below this is zero: dividing by it would overflow."""

_MAX_PASSES = 100
"""Largest number of passes that raise weights to the floor, in case rounding causes a cycle."""


_SMALL_CHANGE = 1e-4
"""Relative change of q that r need not follow."""


class Edges(Workspace, floats=1.0):
    """Edges into the nodes of a row that may be on, slot by slot.

    ``theta`` parameter; ``r`` Jensen weight; ``weight`` = theta + r phi(theta / r), what an active
    parent adds to the child's log-odds; ``link`` number of the parent within the row, ``q`` its
    probability when r was last updated.
    """

    per_edge = arrays(float64="theta r weight q", int32="link")


class Groups(Workspace, floats=1.0):
    """Groups of a row. Group g has the edges ``begin[g]:begin[g + 1]``.

    By lane: ``used`` slots, ``size`` number of parents of the child, ``floor`` of its weights,
    ``slope`` f'(leak) of the child, ``importance`` probability that it is on; ``active`` whether
    it is not solved yet; ``total`` of the scores; ``member`` number of the child, or -1.
    """

    bounds = arrays(int64="begin")
    # Whether a group is one child; whether r suits ``Edges.q``.
    per_group = arrays(uint8="wide solved")
    per_lane = arrays(float64="used size floor slope importance active total", int64="member")


class Children(Workspace):
    """Children of a row: hidden nodes in the order of a sweep, then the visibles that are on.

    ``node`` number; its edges are ``start + stride * j`` for the parents j in the graph's order.
    ``lane`` its first lane in `Groups`; it has that one, or eight if the stride is 1. ``ordered``
    and ``bucket`` serve to group children by the number of their parents.
    """

    per_child = arrays(int32="node", int64="start stride lane ordered")
    per_size = arrays(int64="bucket")


class Scratch(Workspace, floats=1.0):
    """Edges of one batch, ``value`` their gradient G or new weight; ``todo`` unsolved groups."""

    per_edge = arrays(float64="value", int64="todo")


@inner()
def floor_of(n_parents):
    """Return the smallest weight of a child with this many parents, equation T31.

    With thousands of parents, floors of 1e-5 would add up to a large part of the total.
    """
    return min(R_FLOOR, 0.1 / n_parents)


@inner(forceinline=True)
def by_child(lanes, wide):
    """Return sums by child from sums by lane; a wide group is one child."""
    return splat(reduce_sum(lanes)) if wide else lanes


@inner(forceinline=True)
def largest_by_child(lanes, wide):
    """Return maxima by child from maxima by lane."""
    return splat(reduce_max(lanes)) if wide else lanes


@inner(forceinline=True)
def _min(lanes, wide):
    return splat(reduce_min(lanes)) if wide else lanes


@inner()
def normalize(values, shift, r, groups, index, active, total):
    """Set r of a group proportional to ``values[shift:] >= 0``, floored, sum one, where active.

    Weights below the floor are raised to it and only the others are scaled, until none falls below:
    then the published fixed-point step with this floor cannot lower the bound. The sum must not
    exceed one, because the result would then not be a bound. A child whose values all vanish keeps
    its weights. ``active`` is 1 or 0, ``total`` the sum of the values.
    """
    zero, one, half, tiny, huge = splat(0.0), splat(1.0), splat(0.5), splat(_TINY), splat(1e300)
    begin, end, wide = groups.begin[index], groups.begin[index + 1], groups.wide[index]
    used, floor = load(groups.used, 8 * index), load(groups.floor, 8 * index)
    active = where_less(tiny, total, active, zero)
    # A value is low if its share would be below the floor. Raising the low ones leaves less room
    # for the others, which may make some of them low: repeat until the set of low ones stands
    # still.
    limit, room, rest = floor * total, one, total
    for _ in range(_MAX_PASSES):
        n_low, rest, least, slot = zero, zero, huge, zero
        for offset in range(0, end - begin, LANES):
            value = load(values, shift + offset)
            # Empty slots have value 0 and would count as low; ``used`` tells them apart.
            inside = where_less(slot, used, one, zero)
            n_low = n_low + where_less(value, limit, inside, zero)
            rest = rest + where_less(value, limit, zero, value)
            least = smallest(least, where_less(value, limit, huge, value))
            slot = slot + one
        n_low, least = by_child(n_low, wide), _min(least, wide)
        rest = largest(by_child(rest, wide), tiny)
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
    """Compute the edge weights of groups ``first`` to ``last`` from their r, equation T27."""
    for index in range(first, last):
        slope = load(groups.slope, 8 * index)
        for edge in range(groups.begin[index], groups.begin[index + 1], LANES):
            parameter, share = load(edges.theta, edge), load(edges.r, edge)
            phi, _ = edge_terms(parameter / share, slope)
            store(edges.weight, edge, fma(share, phi, parameter))


@inner()
def end_of_batch(groups, first, n_groups, most_edges):
    """Return the index one past the last group of the batch that starts at ``first``."""
    # A batch has at least one group, however large.
    last = first + 1
    while last < n_groups and groups.begin[last + 1] - groups.begin[first] <= most_edges:
        last += 1
    return last


# ---- the published schedule


@inner()
def iterate(edges, groups, n_groups, q, scratch, iterations):
    """Take the published steps ``r_k <- r_k G_k / sum_j r_j G_j`` in all groups, equation T30."""
    first, zero, one = int64(0), splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups, BATCH)
        # q is gathered once per batch, not once per iteration: it does not change in here.
        begin = groups.begin[first]
        for edge in range(begin, groups.begin[last]):
            edges.q[edge] = q[edges.link[edge]]
        for _ in range(iterations):
            for index in range(first, last):
                slope, total = load(groups.slope, 8 * index), zero
                for edge in range(groups.begin[index], groups.begin[index + 1], LANES):
                    parameter, share = load(edges.theta, edge), load(edges.r, edge)
                    phi, derivative = edge_terms(parameter / share, slope)
                    # r G without dividing by r and multiplying again; rounding may leave it a
                    # little negative.
                    value = share * phi - parameter * derivative
                    value = largest(load(edges.q, edge) * value, zero)
                    store(scratch.value, edge - begin, value)
                    total = total + value
                store(groups.total, 8 * index, by_child(total, groups.wide[index]))
            for index in range(first, last):
                shift, total = groups.begin[index] - begin, load(groups.total, 8 * index)
                normalize(scratch.value, shift, edges.r, groups, index, one, total)
        first = last
    weigh(edges, groups, int64(0), n_groups)


# ---- to convergence


@inner()
def solve(edges, groups, children, first, n_groups, q, scratch, iterations, tolerance):
    """Take at most ``iterations`` steps for the children of groups ``first`` to ``n_groups``.

    A child is solved when no weights with the same floor could raise ``q_i F`` by ``tolerance``: F
    is concave, so its linearization at r bounds the remaining gain (equation T32).
    """
    zero, one = splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups, BATCH_SOLVING)
        begin = groups.begin[first]
        n_todo = int64(0)
        for index in range(first, last):
            # Most q hardly move between rounds: a child whose parents stood still keeps its
            # weights.
            if not _still_solved(edges, groups, index, q):
                scratch.todo[n_todo] = index
                n_todo += 1
                groups.solved[index] = 0
                lanes = where_less(zero, load(groups.used, 8 * index), one, zero)
                store(groups.active, 8 * index, lanes)
        for _ in range(iterations):
            for position in range(n_todo):
                _evaluate(edges, groups, scratch.todo[position], begin, scratch)
            n_left = int64(0)
            for position in range(n_todo):
                index = scratch.todo[position]
                if _improve(edges, groups, index, begin, scratch, tolerance):
                    scratch.todo[n_left] = index
                    n_left += 1
                else:
                    groups.solved[index] = 1
            n_todo = _compact_active(edges, groups, children, scratch, n_left)
            if n_todo == 0:
                break
        for position in range(n_todo):  # steps have run out
            weigh(edges, groups, scratch.todo[position], scratch.todo[position] + 1)
        first = last


@inner()
def _still_solved(edges, groups, index, q):
    """Return whether a group was solved and no q of a parent changed; adopt the present q."""
    small, largest_change = splat(_SMALL_CHANGE), splat(-1.0)
    begin, end = groups.begin[index], groups.begin[index + 1]
    for edge in range(begin, end, LANES):
        old = load(edges.q, edge)
        for lane in range(edge, edge + LANES):
            edges.q[lane] = q[edges.link[lane]]
        new = load(edges.q, edge)
        largest_change = largest(largest_change, absolute(new - old) - small * new)
    return groups.solved[index] == 1 and reduce_max(largest_change) <= 0.0


@inner()
def _compact_active(edges, groups, children, scratch, n_todo):
    """Swap unsolved children of the last groups with solved ones of the first.

    Groups without an unsolved child are removed from the list. Returns the new length.
    """
    n_active = 0.0
    for position in range(n_todo):
        n_active += reduce_sum(load(groups.active, 8 * scratch.todo[position]))
    # With more than half of the lanes busy there is little to gain from moving them.
    if n_active > 4.0 * n_todo:
        return n_todo
    # Fill gaps of the first groups from the last ones. Only groups of equal shape can swap lanes; a
    # wide group is one child and stays where it is.
    here, last = 0, n_todo - 1
    while here < last:
        to, source = scratch.todo[here], scratch.todo[last]
        slots = groups.begin[source + 1] - groups.begin[source]
        if (
            groups.wide[to]
            or groups.wide[source]
            or groups.begin[to + 1] - groups.begin[to] != slots
        ):
            if groups.wide[source]:
                last -= 1
            else:
                here += 1
            continue
        to_lane, lane = 8 * to, 8 * source
        while to_lane < 8 * to + 8 and lane < 8 * source + 8:
            if groups.active[lane] == 0.0:
                lane += 1
            elif groups.active[to_lane] == 1.0:
                to_lane += 1
            else:
                _swap(edges, groups, children, to_lane, lane)
        if lane == 8 * source + 8:
            groups.solved[source] = 1
            n_todo -= 1
            scratch.todo[last] = scratch.todo[n_todo]
            last -= 1
        else:
            here += 1
    return n_todo


@inner()
def _swap(edges, groups, children, one, other):
    """Exchange the children in two lanes of groups with equally many slots."""
    for values in (
        groups.used,
        groups.size,
        groups.floor,
        groups.slope,
        groups.importance,
        groups.active,
    ):
        values[one], values[other] = values[other], values[one]
    first, second = groups.begin[one // 8] + one % 8, groups.begin[other // 8] + other % 8
    for offset in range(0, groups.begin[one // 8 + 1] - groups.begin[one // 8], LANES):
        a, b = first + offset, second + offset
        for values in (edges.theta, edges.r, edges.weight, edges.q):
            values[a], values[b] = values[b], values[a]
        edges.link[a], edges.link[b] = edges.link[b], edges.link[a]
    groups.member[one], groups.member[other] = groups.member[other], groups.member[one]
    if groups.member[one] >= 0:
        children.start[groups.member[one]] = first
        children.lane[groups.member[one]] = one
    if groups.member[other] >= 0:
        children.start[groups.member[other]] = second
        children.lane[groups.member[other]] = other


@inner()
def _evaluate(edges, groups, index, base, scratch):
    """Compute G, equation T29, and the edge weights of a group."""
    zero, slope = splat(0.0), load(groups.slope, 8 * index)
    for edge in range(groups.begin[index], groups.begin[index + 1], LANES):
        parameter, share = load(edges.theta, edge), load(edges.r, edge)
        s = parameter / share
        phi, derivative = edge_terms(s, slope)
        gradient = largest(load(edges.q, edge) * (phi - s * derivative), zero)
        store(scratch.value, edge - base, gradient)
        store(edges.weight, edge, fma(share, phi, parameter))


@inner()
def _improve(edges, groups, index, base, scratch, tolerance):
    """Take a step for the unsolved children of a group; return whether there are any."""
    active = load(groups.active, 8 * index)
    gap, total = _gap(edges, groups, index, base, scratch)
    # A child that is hardly ever on contributes hardly anything: its weights need less care.
    gap = load(groups.importance, 8 * index) * gap
    active = active * where_less(splat(tolerance), gap, splat(1.0), splat(0.0))
    store(groups.active, 8 * index, active)
    if reduce_max(active) == 0.0:
        return False
    for edge in range(groups.begin[index], groups.begin[index + 1], LANES):
        product = load(scratch.value, edge - base) * load(edges.r, edge)
        store(scratch.value, edge - base, product)
    normalize(scratch.value, groups.begin[index] - base, edges.r, groups, index, active, total)
    return True


@inner()
def _gap(edges, groups, index, base, scratch):
    """Bound, for each child, the gain in F from other weights; also return the sum of r G.

    Equation T32: the best vertex of the simplex with floors puts all free weight on the largest G.
    """
    wide, peak, total, products = groups.wide[index], splat(0.0), splat(0.0), splat(0.0)
    for edge in range(groups.begin[index], groups.begin[index + 1], LANES):
        value = load(scratch.value, edge - base)
        peak = largest(peak, value)
        total = total + value
        products = fma(value, load(edges.r, edge), products)
    peak, total = largest_by_child(peak, wide), by_child(total, wide)
    products = by_child(products, wide)
    floor, size = load(groups.floor, 8 * index), load(groups.size, 8 * index)
    return peak - floor * (size * peak - total) - products, products
