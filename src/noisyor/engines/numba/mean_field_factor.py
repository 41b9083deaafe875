"""The Jensen weights r of noisy-OR factors: their updates, and what the edges are worth under them.

For one child the weights maximise the concave ``F(r) = sum_k q_k r_k phi(theta_k / r_k)`` on the
simplex, phi as in `edge_terms`; the gradient ``G_k = dF/dr_k`` depends on its own weight alone.

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

from noisyor.engines.numba.mean_field_vector import (
    WIDTH,
    absolute,
    edge_terms,
    fma,
    inner,
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

BATCH = 256
"""Edges that go through an iteration together; a group with more goes alone."""

R_FLOOR = 1e-5
"""Smallest Jensen weight: what is smaller could not grow back within a few iterations."""

_TINY = 1e-280
_MOST_PASSES = 100
_ROUNDING = 1e-14
_SHRINK, _GROW = -0.9, 4.0
"""Relative change of a weight in one Newton step at most."""


class Edges(NamedTuple):
    """Edges into the nodes of a row that may be on, slot by slot, each (8 * slots,).

    ``theta`` parameter; ``r`` Jensen weight; ``weight`` = theta + r phi(theta / r), what an active
    parent adds to the child's log-odds; ``link`` number of the parent within the row.
    """

    theta: npt.NDArray[np.float64]
    r: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    link: npt.NDArray[np.int32]


class Groups(NamedTuple):
    """Groups of a row. Group g has the edges ``begin[g]:begin[g + 1]``.

    ``wide[g]`` whether it is one child. By lane, each (8 * groups,): ``used`` slots, ``size``
    number of parents of the child, ``floor`` of its weights, ``slope`` f'(leak) of the child,
    ``importance`` probability that it is on; while r is solved for, ``active`` whether it is not
    solved yet and ``best`` F before the last step; ``total`` of the scores.
    """

    begin: npt.NDArray[np.int64]
    wide: npt.NDArray[np.uint8]
    used: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]
    floor: npt.NDArray[np.float64]
    slope: npt.NDArray[np.float64]
    importance: npt.NDArray[np.float64]
    active: npt.NDArray[np.float64]
    best: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]


class Scratch(NamedTuple):
    """Edges of one batch, and the list of its groups that are not solved.

    ``q`` of the parent, ``value`` gradient G or a new weight, ``worth`` term of F, ``step``
    relative Newton step per unit of G, ``before`` the weights before the step.
    """

    q: npt.NDArray[np.float64]
    value: npt.NDArray[np.float64]
    worth: npt.NDArray[np.float64]
    step: npt.NDArray[np.float64]
    before: npt.NDArray[np.float64]
    todo: npt.NDArray[np.int64]


@inner()
def floor_of(n_parents):
    """Smallest weight of a child with this many parents: the floors never add up to a tenth."""
    return min(R_FLOOR, 0.1 / n_parents)


@inner(forceinline=True)
def _sum(lanes, wide):
    """Sums by child from sums by lane."""
    return splat(reduce_sum(lanes)) if wide else lanes


@inner(forceinline=True)
def _max(lanes, wide):
    return splat(reduce_max(lanes)) if wide else lanes


@inner(forceinline=True)
def _min(lanes, wide):
    return splat(reduce_min(lanes)) if wide else lanes


@inner()
def normalise(values, shift, r, groups, number, active, total):
    """Set r of a group proportional to ``values[shift:] >= 0``, floored, sum one, where active.

    Weights below the floor are raised to it and only the others are scaled, until none falls below:
    then the published fixed-point step with this floor cannot lower the bound. A child whose
    values all vanish keeps its weights. ``active`` is 1 or 0, ``total`` the sum of the values.
    """
    zero, one, half, tiny, huge = splat(0.0), splat(1.0), splat(0.5), splat(_TINY), splat(1e300)
    begin, end, wide = groups.begin[number], groups.begin[number + 1], groups.wide[number]
    used, floor = load(groups.used, 8 * number), load(groups.floor, 8 * number)
    active = where_less(tiny, total, active, zero)
    limit, room, rest = floor * total, one, total
    for _ in range(_MOST_PASSES):
        n_low, rest, least, slot = zero, zero, huge, zero
        for offset in range(0, end - begin, WIDTH):
            value = load(values, shift + offset)
            inside = where_less(slot, used, one, zero)
            n_low = n_low + where_less(value, limit, inside, zero)
            rest = rest + where_less(value, limit, zero, value)
            least = smallest(least, where_less(value, limit, huge, value))
            slot = slot + one
        n_low, rest, least = _sum(n_low, wide), largest(_sum(rest, wide), tiny), _min(least, wide)
        room = one - floor * n_low
        limit = floor * rest / room
        if reduce_max(active * where_less(least, limit, one, zero)) == 0.0:
            break
    scale = room / rest
    for offset in range(0, end - begin, WIDTH):
        new = largest(load(values, shift + offset) * scale, floor)
        store(r, begin + offset, where_less(half, active, new, load(r, begin + offset)))


@inner()
def weigh(edges, groups, first, last):
    """Weights of the edges of groups ``first`` to ``last`` from their present r."""
    for number in range(first, last):
        slope = load(groups.slope, 8 * number)
        for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
            parameter, share = load(edges.theta, edge), load(edges.r, edge)
            phi, _ = edge_terms(parameter / share, slope)
            store(edges.weight, edge, fma(share, phi, parameter))


@inner()
def end_of_batch(groups, first, n_groups):
    """Number of the group behind the batch that begins with group ``first``."""
    last = first + 1
    while last < n_groups and groups.begin[last + 1] - groups.begin[first] <= BATCH:
        last += 1
    return last


@inner()
def _gather(edges, groups, first, last, q, scratch):
    begin = groups.begin[first]
    for edge in range(begin, groups.begin[last]):
        scratch.q[edge - begin] = q[edges.link[edge]]


# ---- the published schedule


@inner()
def iterate(edges, groups, n_groups, q, scratch, iterations):
    """Published steps ``r_k <- r_k G_k / sum_j r_j G_j`` of all groups."""
    first, zero, one = 0, splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups)
        begin = groups.begin[first]
        _gather(edges, groups, first, last, q, scratch)
        for _ in range(iterations):
            for number in range(first, last):
                slope, total = load(groups.slope, 8 * number), zero
                for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
                    parameter, share = load(edges.theta, edge), load(edges.r, edge)
                    phi, derivative = edge_terms(parameter / share, slope)
                    value = share * phi - parameter * derivative
                    value = largest(load(scratch.q, edge - begin) * value, zero)
                    store(scratch.value, edge - begin, value)
                    total = total + value
                store(groups.total, 8 * number, _sum(total, groups.wide[number]))
            for number in range(first, last):
                shift, total = groups.begin[number] - begin, load(groups.total, 8 * number)
                normalise(scratch.value, shift, edges.r, groups, number, one, total)
        first = last
    weigh(edges, groups, 0, n_groups)


# ---- until converged


@inner()
def settle(edges, groups, n_groups, q, scratch, iterations, tolerance, newton):
    """Steps for all children until each is solved, at most ``iterations``.

    A child is solved when no weights with the same floor could raise ``q_i F`` by ``tolerance``:
    F is concave, so its linearisation at r bounds what is left. Newton's steps are halved until
    they raise F; the published ones always do.
    """
    first, zero, one = 0, splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups)
        begin = groups.begin[first]
        _gather(edges, groups, first, last, q, scratch)
        n_todo = last - first
        for number in range(first, last):
            scratch.todo[number - first] = number
            store(groups.best, 8 * number, splat(-1.0))
            lanes = where_less(zero, load(groups.used, 8 * number), one, zero)
            store(groups.active, 8 * number, lanes)
        for _ in range(iterations):
            for position in range(n_todo):
                _evaluate(edges, groups, scratch.todo[position], begin, scratch, newton)
            n_left = 0
            for position in range(n_todo):
                number = scratch.todo[position]
                if _improve(edges, groups, number, begin, scratch, tolerance, newton):
                    scratch.todo[n_left] = number
                    n_left += 1
            n_todo = n_left
            if n_todo == 0:
                break
        for position in range(n_todo):
            number = scratch.todo[position]
            if newton:  # the last step has not been checked
                _evaluate(edges, groups, number, begin, scratch, newton)
                _undo_if_worse(edges, groups, number, begin, scratch)
            weigh(edges, groups, number, number + 1)
        first = last


@inner()
def _evaluate(edges, groups, number, base, scratch, newton):
    """G and weights of the edges of a group, and for Newton's method terms of F and steps."""
    zero, one, slope = splat(0.0), splat(1.0), load(groups.slope, 8 * number)
    for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
        parameter, share = load(edges.theta, edge), load(edges.r, edge)
        q = load(scratch.q, edge - base)
        s = parameter / share
        phi, derivative = edge_terms(s, slope)
        gradient = largest(q * (phi - s * derivative), zero)
        store(scratch.value, edge - base, gradient)
        store(edges.weight, edge, fma(share, phi, parameter))
        if newton:
            store(scratch.worth, edge - base, q * share * phi)
            bend = q * (s * s) * (derivative * (one + derivative))  # - r dG/dr
            bend = largest(bend, fma(gradient, splat(1e-3), splat(1e-200)))
            store(scratch.step, edge - base, one / bend)


@inner()
def _improve(edges, groups, number, base, scratch, tolerance, newton):
    """One step for the children of a group that are not solved; return whether there are any."""
    zero, one, half = splat(0.0), splat(1.0), splat(0.5)
    active = load(groups.active, 8 * number)
    step = active
    if newton:
        total, best = _worth(groups, number, base, scratch), load(groups.best, 8 * number)
        step = active * where_less(total, best - splat(_ROUNDING), zero, one)
        _retreat(edges, groups, number, base, scratch, active - step, step)
        store(groups.best, 8 * number, where_less(half, step, total, best))
    gap, total = _gap(edges, groups, number, base, scratch)
    gap = load(groups.importance, 8 * number) * gap
    solved = step * where_less(splat(tolerance), gap, zero, one)
    active, step = active - solved, step - solved
    store(groups.active, 8 * number, active)
    if reduce_max(active) == 0.0:
        return False
    if newton:
        total = _newton_step(edges, groups, number, base, scratch, step)
    else:
        for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
            product = load(scratch.value, edge - base) * load(edges.r, edge)
            store(scratch.value, edge - base, product)
    normalise(scratch.value, groups.begin[number] - base, edges.r, groups, number, step, total)
    return True


@inner()
def _gap(edges, groups, number, base, scratch):
    """By child, an upper bound on what other weights could add to F, and the sum of r G."""
    wide, peak, total, products = groups.wide[number], splat(0.0), splat(0.0), splat(0.0)
    for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
        value = load(scratch.value, edge - base)
        peak = largest(peak, value)
        total = total + value
        products = fma(value, load(edges.r, edge), products)
    peak, total, products = _max(peak, wide), _sum(total, wide), _sum(products, wide)
    floor, size = load(groups.floor, 8 * number), load(groups.size, 8 * number)
    return peak - floor * (size * peak - total) - products, products


@inner()
def _worth(groups, number, base, scratch):
    """F by child."""
    total = splat(0.0)
    for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
        total = total + load(scratch.worth, edge - base)
    return _sum(total, groups.wide[number])


@inner()
def _retreat(edges, groups, number, base, scratch, worse, better):
    """Go half a step back in lanes that got worse, remember the weights in those that did not."""
    half = splat(0.5)
    for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
        now, old = load(edges.r, edge), load(scratch.before, edge - base)
        store(edges.r, edge, where_less(half, worse, half * (now + old), now))
        store(scratch.before, edge - base, where_less(half, better, now, old))


@inner()
def _undo_if_worse(edges, groups, number, base, scratch):
    """Take a step that lowered F back."""
    limit = load(groups.best, 8 * number) - splat(_ROUNDING)
    worse = where_less(_worth(groups, number, base, scratch), limit, splat(1.0), splat(0.0))
    worse = worse * load(groups.active, 8 * number)
    for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
        now, old = load(edges.r, edge), load(scratch.before, edge - base)
        store(edges.r, edge, where_less(splat(0.5), worse, old, now))


@inner()
def _newton_step(edges, groups, number, base, scratch, active):
    """New weights in ``scratch.value``: ``r_k (1 + (G_k - lambda) step_k)``, changes limited.

    lambda makes them sum to one, floors included: the root of a falling, piecewise linear function
    of each child. Returns the sum without floors.
    """
    zero, one, half, low, high = splat(0.0), splat(1.0), splat(0.5), splat(_SHRINK), splat(_GROW)
    used, floor = load(groups.used, 8 * number), load(groups.floor, 8 * number)
    begin, end, wide = groups.begin[number], groups.begin[number + 1], groups.wide[number]
    top, level, bottom = zero, zero, zero
    for edge in range(begin, end, WIDTH):
        value = load(scratch.value, edge - base)
        top = largest(top, value)
        level = fma(value, load(edges.r, edge), level)
    top, level = _max(top, wide), _sum(level, wide)
    for _ in range(40):
        total, rates, slot = zero, zero, zero
        for edge in range(begin, end, WIDTH):
            share, rate = load(edges.r, edge), load(scratch.step, edge - base)
            wanted = (load(scratch.value, edge - base) - level) * rate
            change = largest(smallest(wanted, high), low)
            inside = where_less(slot, used, one, zero)
            total = fma(inside, largest(fma(share, change, share), floor), total)
            free = where_less(low, wanted, where_less(wanted, high, inside, zero), zero)
            rates = fma(free * share, rate, rates)
            slot = slot + one
        excess, rates = _sum(total, wide) - one, _sum(rates, wide)
        if reduce_max(active * absolute(excess)) < 1e-9:
            break
        bottom = where_less(zero, excess, level, bottom)
        top = where_less(zero, excess, top, level)
        level = level + excess / largest(rates, splat(1e-200))
        inside = where_less(bottom, level, where_less(level, top, one, zero), zero)
        level = where_less(half, inside, level, half * (bottom + top))
    slot, total = zero, zero
    for edge in range(begin, end, WIDTH):
        share = load(edges.r, edge)
        change = (load(scratch.value, edge - base) - level) * load(scratch.step, edge - base)
        new = fma(share, largest(smallest(change, high), low), share)
        new = where_less(slot, used, new, zero)
        store(scratch.value, edge - base, new)
        total = total + new
        slot = slot + one
    return _sum(total, wide)
