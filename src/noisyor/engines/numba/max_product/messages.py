"""Max-product messages of one noisy-OR factor, all parents of a child at once.

Equations T9 and T12 of docs/theory.md. Every message is a log-odds number. The message from the
factor of child i to parent k is kept as ``excess = v + theta >= 0``, so that a child that is off
(v = -theta) has excess zero and need not be visited: its effect is the constant -theta, part of the
parent's total. With B the belief of the parent, ``a = log(exp(theta) - 1)`` and b the log-odds that
the child receives from elsewhere,

    t_e      = a_e + min(B_k - excess_e, 0)
    excess_e = max(0, a_e + min(b + P - [t_e]_+, [-M_{-e}]_+)),    P = sum [t]_+ , leak included

where M_{-e} is the largest t of the other edges and the leak. A child that is on has infinite b.

Loops run over padded edges, eight at a time. Padding is inert: its log-odds are ``NEVER``, so it
never holds the largest t, adds nothing to P and keeps an excess of zero.
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


@njit(cache=True, nogil=True, forceinline=True)
def with_leak(best, second, leak):
    """Largest and second largest t once the leak is among the candidates.

    The leak is kept out of the vectors: one number per child would take a lane of its own.
    """
    if leak > best:
        return leak, best
    return best, max(second, leak)


@njit(cache=True, nogil=True, forceinline=True)
def start_child(incoming, excess, weight, parent, first, start, place, size):
    """Set the messages of a child to zero log-odds, excess = theta; add them to ``incoming``.

    The start of equation T14.
    """
    for offset in range(0, size, LANES):
        # Padding has a weight of 0, so what it adds to the spare entries is 0 as well.
        value = load(weight, start + offset)
        store(excess, place + offset, value)
        if first >= 0:
            store(incoming, first + offset, add(load(incoming, first + offset), value))
        else:
            scatter_add(incoming, parent, start + offset, value)


@njit(cache=True, nogil=True, forceinline=True)
def update_on_child(
    belief, incoming, excess, log_odds, parent, first, start, place, size, leak, step, scratch
):
    """Update the messages of a child that is on; return the largest change asked for.

    Equation T12 with b infinite, which leaves ``s_e = [-M_{-e}]_+`` and needs no P.
    ``belief`` (n_hidden + 8,) is read, the new excesses are added to ``incoming``, same shape.
    ``excess[place:place + size]`` are this child's messages, ``log_odds[start:...]`` and
    ``parent[start:...]`` its edges; ``first`` is its first parent if they are consecutive, or -1.
    ``step`` is one minus the damping.
    """
    zero = splat(float32(0.0))
    best = splat(NEVER)
    second = best
    for offset in range(0, size, LANES):
        if first >= 0:
            # Consecutive parents: one load. It may read past the last parent into the next ones or
            # the eight spare entries; padding makes whatever is there harmless.
            parents = load(belief, first + offset)
        else:
            parents = gather(belief, parent, start + offset)
        gap = smallest(subtract(parents, load(excess, place + offset)), zero)
        down = add(load(log_odds, start + offset), gap)
        store(scratch, offset, down)
        # Largest and second largest so far, lane by lane. A conditional would not vectorize.
        second = largest(second, smallest(best, down))
        best = largest(best, down)
    top, runner_up = reduce_top_two(best, second)
    top, runner_up = with_leak(top, runner_up, leak)

    # The edge that holds the maximum sees the runner-up; with a tie both are the same number.
    # Comparing values finds that edge without remembering its place.
    peak = splat(top)
    need = splat(max(float32(0.0), -top))
    need_of_peak = splat(max(float32(0.0), -runner_up))
    rate = splat(step)
    change = zero
    for offset in range(0, size, LANES):
        missing = where_equal(load(scratch, offset), peak, need_of_peak, need)
        old = load(excess, place + offset)
        # Padding: NEVER + missing is negative, so an excess of 0 is wanted and 0 is what it has.
        wanted = largest(zero, add(load(log_odds, start + offset), missing))
        difference = subtract(wanted, old)
        change = largest_magnitude(change, difference)
        new = add(old, multiply(rate, difference))
        store(excess, place + offset, new)
        if first >= 0:
            store(incoming, first + offset, add(load(incoming, first + offset), new))
        else:
            scatter_add(incoming, parent, start + offset, new)
    return reduce_max(change)


@njit(cache=True, nogil=True, forceinline=True)
def update_free_child(
    belief, incoming, excess, log_odds, parent, first, start, place, size, leak, step, scratch, back
):
    """The same for a child that is not observed; ``back`` is the log-odds it has from elsewhere.

    Equations T9 and T12 with b finite. Returns the largest change asked for and the message d to
    the child.
    """
    zero = splat(float32(0.0))
    best = splat(NEVER)
    second = best
    positive = zero
    for offset in range(0, size, LANES):
        if first >= 0:
            parents = load(belief, first + offset)
        else:
            parents = gather(belief, parent, start + offset)
        gap = smallest(subtract(parents, load(excess, place + offset)), zero)
        down = add(load(log_odds, start + offset), gap)
        store(scratch, offset, down)
        positive = add(positive, largest(down, zero))
        second = largest(second, smallest(best, down))
        best = largest(best, down)
    top, runner_up = reduce_top_two(best, second)
    top, runner_up = with_leak(top, runner_up, leak)
    # P of all edges; that of edge e alone is taken off again below, as b + P - [t_e]_+.
    total = reduce_sum(positive) + max(float32(0.0), leak)

    peak = splat(top)
    need = splat(max(float32(0.0), -top))
    need_of_peak = splat(max(float32(0.0), -runner_up))
    support = splat(back + total)
    rate = splat(step)
    change = zero
    for offset in range(0, size, LANES):
        down = load(scratch, offset)
        missing = where_equal(down, peak, need_of_peak, need)
        missing = smallest(missing, subtract(support, largest(down, zero)))
        old = load(excess, place + offset)
        wanted = largest(zero, add(load(log_odds, start + offset), missing))
        difference = subtract(wanted, old)
        change = largest_magnitude(change, difference)
        new = add(old, multiply(rate, difference))
        store(excess, place + offset, new)
        if first >= 0:
            store(incoming, first + offset, add(load(incoming, first + offset), new))
        else:
            scatter_add(incoming, parent, start + offset, new)
    return reduce_max(change), total + min(float32(0.0), top)


@njit(cache=True, nogil=True, forceinline=True)
def send(to_child, k, message, step):
    """Damped message to a hidden child, equation T13; return the change it asked for."""
    difference = message - to_child[k]
    to_child[k] += step * difference
    return abs(difference)
