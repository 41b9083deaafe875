"""Messages in the paper's order: of eight edges of a child at a time, or of eight children.

Equations T15 and T16 of docs/theory.md; `two_stage` says what the messages are. As in `blocks`, a
lane is a child where children have few parents, so that largest and second largest need no
reduction across lanes; where they have many, a lane is an edge.

An inert cell of a block is known by its log-odds, which are ``NEVER``. A lane is inert, without a
child or a parent, if its first cell is.
"""

from numba import float32

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import (
    LANES,
    add,
    gather,
    largest,
    largest_magnitude,
    load,
    multiply,
    reduce_max,
    reduce_sum,
    reduce_top_two,
    scatter_add,
    smallest,
    splat,
    store,
    subtract,
    where_equal,
)
from noisyor.engines.numba.graph import NEVER
from noisyor.engines.numba.max_product.messages import with_leak


@njit(cache=True, nogil=True, forceinline=True)
def _edges(
    parents,
    odds,
    down,
    to_edge,
    excess,
    at,
    best,
    need_of_peak,
    need,
    support,
    all_on,
    rate,
    change,
):
    """Update three messages of eight edges, ``at`` this place of their arrays.

    Equation T15 in excess form, each message from those of the iteration before. ``parents`` are
    their beliefs, ``best`` the largest down of each child, ``need_of_peak`` what the edge that has
    it is asked for, ``need`` what the others are. ``all_on``, a constant of the call: every child
    is on or inert, so that ``support`` is the limit whatever the edge itself gives. Returns the new
    down and excess, and the largest change asked for.
    """
    zero = splat(float32(0.0))
    old, old_need, old_excess = load(down, at), load(to_edge, at), load(excess, at)
    # Padding may lie beside a parent that is known to be off: its message must stay as it is.
    wanted = add(odds, smallest(subtract(parents, old_excess), zero))
    difference = subtract(largest(wanted, splat(NEVER)), old)
    change = largest_magnitude(change, difference)
    new = add(old, multiply(rate, difference))
    store(down, at, new)

    missing = where_equal(old, best, need_of_peak, need)
    limit = support if all_on else subtract(support, largest(old, zero))
    missing = smallest(missing, limit)
    difference = subtract(missing, old_need)
    change = largest_magnitude(change, difference)
    store(to_edge, at, add(old_need, multiply(rate, difference)))

    difference = subtract(largest(zero, add(odds, old_need)), old_excess)
    change = largest_magnitude(change, difference)
    new_excess = add(old_excess, multiply(rate, difference))
    store(excess, at, new_excess)
    return new, new_excess, change


@njit(cache=True, nogil=True, forceinline=True)
def start_blocks(starts, log_odds, weight, down, to_edge, excess, top, second, positive, n_blocks):
    """All messages of zero log-odds, excess = theta: the start of equation T16."""
    zero, never = splat(float32(0.0)), splat(NEVER)
    for number in range(n_blocks):
        start, end, place = starts[number], starts[number + 1], number * LANES
        store(top, place, never)
        store(second, place, never)
        store(positive, place, zero)
        for cell in range(start, end, LANES):
            # An inert cell must not look like a message of zero log-odds, which could be largest.
            value = where_equal(load(log_odds, cell), never, never, zero)
            store(down, cell, value)
            store(to_edge, cell, zero)
            store(excess, cell, load(weight, cell))
            if cell == start:
                store(top, place, value)
            elif cell == start + LANES:
                store(second, place, value)


@njit(cache=True, nogil=True, forceinline=True)
def support_of_on(log_odds, start):
    """A child that is on supports its edges without limit; large and finite, so never NaN.

    Inert lanes have no support: their messages stay at zero.
    """
    return where_equal(load(log_odds, start), splat(NEVER), splat(float32(0.0)), splat(-NEVER))


@njit(cache=True, nogil=True, forceinline=True)
def update_block(
    belief,
    incoming,
    first,
    parent,
    down,
    to_edge,
    excess,
    log_odds,
    start,
    end,
    top,
    second,
    positive,
    place,
    leak,
    support,
    all_on,
    step,
):
    """All messages of a block; return the largest change asked for.

    ``leak`` and ``support`` are vectors. ``top``, ``second`` and ``positive`` belong to the t of
    the iteration before; those of the new t take their place. If ``first`` is not negative, the
    parents are ``first``, ``first + 1``, and so on in all lanes, and ``incoming`` has eight sums
    for each hidden node, one per lane, as in `blocks.update_aligned_block`. ``all_on`` as in
    `_edges`: then nobody asks for ``positive``.
    """
    zero, never, rate = splat(float32(0.0)), splat(NEVER), splat(step)
    old_top = load(top, place)
    best = largest(old_top, leak)
    runner_up = largest(load(second, place), smallest(old_top, leak))
    need = largest(zero, subtract(zero, best))
    need_of_peak = largest(zero, subtract(zero, runner_up))
    change, new_best, new_second, new_positive = zero, never, never, zero
    k = first
    for cell in range(start, end, LANES):
        if first >= 0:
            parents = splat(belief[k])
        else:
            parents = gather(belief, parent, cell)
        odds = load(log_odds, cell)
        new, new_excess, change = _edges(
            parents, odds, down, to_edge, excess, cell, best, need_of_peak, need, support, all_on,
            rate, change,
        )  # fmt: skip
        new_second = largest(new_second, smallest(new_best, new))
        new_best = largest(new_best, new)
        if not all_on:
            new_positive = add(new_positive, largest(new, zero))
        if first >= 0:
            store(incoming, LANES * k, add(load(incoming, LANES * k), new_excess))
            k += 1
        else:
            scatter_add(incoming, parent, cell, new_excess)
    store(top, place, new_best)
    store(second, place, new_second)
    store(positive, place, new_positive)
    return reduce_max(change)


@njit(cache=True, nogil=True, forceinline=True)
def message_to_children(top, positive, place, leak):
    """What the factor of each child tells it, from the t of the iteration before: eight numbers."""
    zero = splat(float32(0.0))
    total = add(load(positive, place), largest(zero, leak))
    return add(total, smallest(zero, largest(load(top, place), leak)))


@njit(cache=True, nogil=True, forceinline=True)
def support_of_free(back, positive, place, leak):
    """Support of children that are not observed; ``back`` (8,) is what each has from elsewhere."""
    total = add(load(positive, place), largest(splat(float32(0.0)), leak))
    return add(load(back, 0), total)


@njit(cache=True, nogil=True, forceinline=True)
def update_child(
    belief,
    incoming,
    down,
    to_edge,
    excess,
    log_odds,
    parent,
    top,
    second,
    positive,
    number,
    first,
    start,
    size,
    place,
    leak,
    back,
    is_on,
    step,
):
    """All messages of a wide child; return the largest change, and what its factor tells it.

    Equation T15 in excess form; ``number`` of the child, whose edges begin at ``start`` and whose
    messages begin at ``place``. ``top``, ``second`` and ``positive`` belong to the t of the
    iteration before; those of the new t are gathered on the way for the next one.
    """
    best, runner_up = with_leak(top[number], second[number], leak)
    sum_positive = positive[number] + max(float32(0.0), leak)
    zero = splat(float32(0.0))
    peak = splat(best)
    need = splat(max(float32(0.0), -best))
    need_of_peak = splat(max(float32(0.0), -runner_up))
    # A child that is on supports its edges without limit; large and finite, so that nothing is NaN.
    support = splat(-NEVER if is_on else back + sum_positive)
    rate, never = splat(step), splat(NEVER)
    change, new_best, new_second, new_positive = zero, never, never, zero
    for offset in range(0, size, LANES):
        edge, message = start + offset, place + offset
        if first >= 0:
            parents = load(belief, first + offset)
        else:
            parents = gather(belief, parent, edge)
        odds = load(log_odds, edge)
        new, new_excess, change = _edges(
            parents, odds, down, to_edge, excess, message, peak, need_of_peak, need, support, False,
            rate, change,
        )  # fmt: skip
        new_second = largest(new_second, smallest(new_best, new))
        new_best = largest(new_best, new)
        new_positive = add(new_positive, largest(new, zero))
        if first >= 0:
            spot = first + offset
            store(incoming, spot, add(load(incoming, spot), new_excess))
        else:
            scatter_add(incoming, parent, edge, new_excess)
    top[number], second[number] = reduce_top_two(new_best, new_second)
    positive[number] = reduce_sum(new_positive)
    return reduce_max(change), sum_positive + min(float32(0.0), best)
