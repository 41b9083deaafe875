"""Jensen weights to convergence: the test for convergence, Newton's method, and regrouping.

Equations T29 to T32 of docs/theory.md. A child is solved when no other weights could raise its part
of the bound by more than a tolerance. Both the published steps and Newton's are here. Children that
are not solved yet are moved into common groups, so that a group of eight does not go on for the
sake of its slowest member.
"""

from noisyor.engines.numba.cache import inner
from noisyor.engines.numba.mean_field.factor import (
    BATCH_SETTLING,
    by_child,
    end_of_batch,
    largest_by_child,
    normalise,
    weigh,
)
from noisyor.engines.numba.simd import (
    LANES,
    absolute,
    edge_terms,
    fma,
    largest,
    load,
    reduce_max,
    reduce_sum,
    smallest,
    splat,
    store,
    where_less,
)

_ROUNDING, _SMALL_CHANGE = 1e-14, 1e-4
"""Differences of F that mean nothing; relative changes of q that r need not follow."""

_SHRINK, _GROW, _CLOSE = -0.9, 4.0, 1e-4
"""Relative change of a weight in one Newton step at most, and how well the new ones sum to one."""


@inner()
def settle(edges, groups, children, first, n_groups, q, scratch, iterations, tolerance, newton):
    """At most ``iterations`` steps for the children of groups ``first`` to ``n_groups``.

    A child is solved when no weights with the same floor could raise ``q_i F`` by ``tolerance``:
    F is concave, so its linearization at r bounds what is left (equation T32). Newton's steps are
    halved until they raise F; the published ones always do.
    """
    zero, one = splat(0.0), splat(1.0)
    while first < n_groups:
        last = end_of_batch(groups, first, n_groups, BATCH_SETTLING)
        begin = groups.begin[first]
        n_todo = 0
        for number in range(first, last):
            # Most q hardly move between rounds: a child whose parents stood still keeps its
            # weights.
            if not _still_solved(edges, groups, number, q):
                scratch.todo[n_todo] = number
                n_todo += 1
                groups.solved[number] = 0
                # F is never negative, so the first step counts as an improvement.
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
                else:
                    groups.solved[number] = 1
            n_todo = _close_ranks(edges, groups, children, scratch, begin, n_left)
            if n_todo == 0:
                break
        for position in range(n_todo):
            number = scratch.todo[position]
            # Steps have run out.
            if newton:  # the last step has not been checked yet
                _evaluate(edges, groups, number, begin, scratch, newton)
                _undo_if_worse(edges, groups, number, begin, scratch)
            weigh(edges, groups, number, number + 1)
        first = last


@inner()
def _still_solved(edges, groups, number, q):
    """Whether a group was solved and no q of a parent changed since; adopts the present q."""
    small, largest_change = splat(_SMALL_CHANGE), splat(-1.0)
    begin, end = groups.begin[number], groups.begin[number + 1]
    for edge in range(begin, end, LANES):
        old = load(edges.q, edge)
        for lane in range(edge, edge + LANES):
            edges.q[lane] = q[edges.link[lane]]
        new = load(edges.q, edge)
        largest_change = largest(largest_change, absolute(new - old) - small * new)
    return groups.solved[number] == 1 and reduce_max(largest_change) <= 0.0


@inner()
def _close_ranks(edges, groups, children, scratch, base, n_todo):
    """Swap unsolved children of the last groups with solved ones of the first.

    Groups that have no unsolved child left are taken off the list; returns its new length.
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
                _change_places(edges, groups, children, scratch, base, to_lane, lane)
        if lane == 8 * source + 8:
            groups.solved[source] = 1
            n_todo -= 1
            scratch.todo[last] = scratch.todo[n_todo]
            last -= 1
        else:
            here += 1
    return n_todo


@inner()
def _change_places(edges, groups, children, scratch, base, one, other):
    """Exchange the children in two lanes of groups with equally many slots."""
    for values in (
        groups.used,
        groups.size,
        groups.floor,
        groups.slope,
        groups.importance,
        groups.active,
        groups.best,
    ):
        values[one], values[other] = values[other], values[one]
    first, second = groups.begin[one // 8] + one % 8, groups.begin[other // 8] + other % 8
    for offset in range(0, groups.begin[one // 8 + 1] - groups.begin[one // 8], LANES):
        a, b = first + offset, second + offset
        for values in (edges.theta, edges.r, edges.weight, edges.q):
            values[a], values[b] = values[b], values[a]
        edges.link[a], edges.link[b] = edges.link[b], edges.link[a]
        before, a, b = scratch.before, a - base, b - base
        before[a], before[b] = before[b], before[a]
    groups.member[one], groups.member[other] = groups.member[other], groups.member[one]
    if groups.member[one] >= 0:
        children.start[groups.member[one]] = first
        children.lane[groups.member[one]] = one
    if groups.member[other] >= 0:
        children.start[groups.member[other]] = second
        children.lane[groups.member[other]] = other


@inner()
def _evaluate(edges, groups, number, base, scratch, newton):
    """G and edge weights of a group; for Newton's method also the terms of F and the steps.

    Equations T29 and T31.
    """
    zero, one, slope = splat(0.0), splat(1.0), load(groups.slope, 8 * number)
    for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
        parameter, share = load(edges.theta, edge), load(edges.r, edge)
        q = load(edges.q, edge)
        s = parameter / share
        phi, derivative = edge_terms(s, slope)
        gradient = largest(q * (phi - s * derivative), zero)
        store(scratch.value, edge - base, gradient)
        store(edges.weight, edge, fma(share, phi, parameter))
        if newton:
            store(scratch.worth, edge - base, q * share * phi)
            bend = q * (s * s) * (derivative * (one + derivative))  # - r dG/dr, equation T31
            # Where phi is straight the bend vanishes and the step would be infinite.
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
        # Lanes that got worse go half a step back and are evaluated again next time; only the
        # others take a new step. ``step`` and ``active`` are 1 or 0 by lane.
        step = active * where_less(total, best - splat(_ROUNDING), zero, one)
        _retreat(edges, groups, number, base, scratch, active - step, step)
        store(groups.best, 8 * number, where_less(half, step, total, best))
    gap, total = _gap(edges, groups, number, base, scratch)
    # A child that is hardly ever on contributes hardly anything: its weights need less care.
    gap = load(groups.importance, 8 * number) * gap
    solved = step * where_less(splat(tolerance), gap, zero, one)
    active, step = active - solved, step - solved
    store(groups.active, 8 * number, active)
    if reduce_max(active) == 0.0:
        return False
    if newton:
        total = _newton_step(edges, groups, number, base, scratch, step)
    else:
        for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
            product = load(scratch.value, edge - base) * load(edges.r, edge)
            store(scratch.value, edge - base, product)
    normalise(scratch.value, groups.begin[number] - base, edges.r, groups, number, step, total)
    return True


@inner()
def _gap(edges, groups, number, base, scratch):
    """By child, an upper bound on what other weights could add to F, and the sum of r G.

    Equation T32: the best vertex of the simplex with floors puts all that is free on the largest G.
    """
    wide, peak, total, products = groups.wide[number], splat(0.0), splat(0.0), splat(0.0)
    for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
        value = load(scratch.value, edge - base)
        peak = largest(peak, value)
        total = total + value
        products = fma(value, load(edges.r, edge), products)
    peak, total, products = (
        largest_by_child(peak, wide),
        by_child(total, wide),
        by_child(products, wide),
    )
    floor, size = load(groups.floor, 8 * number), load(groups.size, 8 * number)
    return peak - floor * (size * peak - total) - products, products


@inner()
def _worth(groups, number, base, scratch):
    """F by child."""
    total = splat(0.0)
    for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
        total = total + load(scratch.worth, edge - base)
    return by_child(total, groups.wide[number])


@inner()
def _retreat(edges, groups, number, base, scratch, worse, better):
    """Go half a step back in lanes that got worse, remember the weights in those that did not."""
    half = splat(0.5)
    for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
        now, old = load(edges.r, edge), load(scratch.before, edge - base)
        store(edges.r, edge, where_less(half, worse, half * (now + old), now))
        store(scratch.before, edge - base, where_less(half, better, now, old))


@inner()
def _undo_if_worse(edges, groups, number, base, scratch):
    """Take a step that lowered F back."""
    limit = load(groups.best, 8 * number) - splat(_ROUNDING)
    worse = where_less(_worth(groups, number, base, scratch), limit, splat(1.0), splat(0.0))
    worse = worse * load(groups.active, 8 * number)
    for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
        now, old = load(edges.r, edge), load(scratch.before, edge - base)
        store(edges.r, edge, where_less(splat(0.5), worse, old, now))


@inner()
def _newton_step(edges, groups, number, base, scratch, active):
    """New weights in ``scratch.value``: ``r_k (1 + (G_k - mu) step_k)``, changes limited.

    Equation T31. mu, here ``level``, makes them sum to one, floors included: it is the root of a
    falling, piecewise linear function, one for each child. Returns the sum without floors.
    """
    zero, one, half, low, high = splat(0.0), splat(1.0), splat(0.5), splat(_SHRINK), splat(_GROW)
    used, floor = load(groups.used, 8 * number), load(groups.floor, 8 * number)
    begin, end, wide = groups.begin[number], groups.begin[number + 1], groups.wide[number]
    top, level, bottom = zero, zero, zero
    for edge in range(begin, end, LANES):
        value = load(scratch.value, edge - base)
        top = largest(top, value)
        level = fma(value, load(edges.r, edge), level)
    top, level = largest_by_child(top, wide), by_child(level, wide)
    # Newton's method for mu, kept inside the bracket (bottom, top) by bisection where it leaves it.
    # A limit on the changes makes the function flat in places, which Newton alone would not
    # survive.
    for _ in range(40):
        total, rates, slot = zero, zero, zero
        for edge in range(begin, end, LANES):
            share, rate = load(edges.r, edge), load(scratch.step, edge - base)
            wanted = (load(scratch.value, edge - base) - level) * rate
            change = largest(smallest(wanted, high), low)
            inside = where_less(slot, used, one, zero)
            total = fma(inside, largest(fma(share, change, share), floor), total)
            free = where_less(low, wanted, where_less(wanted, high, inside, zero), zero)
            rates = fma(free * share, rate, rates)
            slot = slot + one
        excess, rates = by_child(total, wide) - one, by_child(rates, wide)
        # The sum need not be exact, because `normalise` scales the weights afterwards.
        far = active * where_less(splat(_CLOSE), absolute(excess), one, zero)
        if reduce_max(far) == 0.0:
            break
        # The sum falls with mu: too large a sum means that mu is too small.
        bottom = where_less(zero, excess, level, bottom)
        top = where_less(zero, excess, top, level)
        new = level + excess / largest(rates, splat(1e-200))
        inside = where_less(bottom, new, where_less(new, top, one, zero), zero)
        new = where_less(half, inside, new, half * (bottom + top))
        level = where_less(half, far, new, level)
    slot, total = zero, zero
    for edge in range(begin, end, LANES):
        share = load(edges.r, edge)
        change = (load(scratch.value, edge - base) - level) * load(scratch.step, edge - base)
        new = fma(share, largest(smallest(change, high), low), share)
        new = where_less(slot, used, new, zero)
        store(scratch.value, edge - base, new)
        total = total + new
        slot = slot + one
    return by_child(total, wide)
