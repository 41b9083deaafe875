"""The paper's order of messages: every message inside a noisy-OR factor is stored and damped.

Equations T15 and T16 of docs/theory.md. The collapsed schedule (`rows`) computes the messages of a
factor from one another and damps only what leaves it. Here, as in the authors' software, a factor
is one small factor per edge and an OR: all of their messages change at once, each from the messages
of the iteration before, and all start at zero log-odds, those of leaks included. Same fixed points,
three times the memory and more iterations; on a graph with loops it often ends at another fixed
point. Per edge, with the names of `messages`,

    down    t <- a + min(B - excess, 0)          OR      s <- min(b + P - [t]_+, [-M]_+)
    up      excess <- max(0, a + s)

Children that are off still need no visit: after n iterations their excess is a known multiple of
``rest = (1 - step) theta + step [a]_+``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba import float32x8 as simd
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.graph import NEVER, Graph, Parameters
from noisyor.engines.numba.max_product.messages import send, with_leak
from noisyor.engines.numba.scalar import combine, logistic_noise


class Stages(NamedTuple):
    """Memory of one thread; empty unless the schedule is wanted.

    Per padded edge: the messages ``down``, ``to_edge`` (from the OR to the edge) and ``excess``.
    Per node: ``top`` and ``second`` largest of its downs, the sum of their ``positive`` parts, and
    ``children``, those of the row, first the ones that are on. Per hidden node: ``noise``, and
    ``rest`` of all its children and of those that are off in the row, (2, n_hidden).
    """

    down: npt.NDArray[np.float32]
    to_edge: npt.NDArray[np.float32]
    excess: npt.NDArray[np.float32]
    top: npt.NDArray[np.float32]
    second: npt.NDArray[np.float32]
    positive: npt.NDArray[np.float32]
    children: npt.NDArray[np.int32]
    noise: npt.NDArray[np.float32]
    rest: npt.NDArray[np.float64]


def allocate_stages(graph: Graph, parameters: Parameters, step: float) -> Stages:
    """Memory for any row; ``step`` is one minus the damping."""
    stages = _zeros(len(graph.parent), graph.n_visible + graph.n_hidden, graph.n_hidden)
    of_edge = (1.0 - step) * parameters.theta + step * np.maximum(parameters.log_odds, 0.0)
    of_parent = np.bincount(graph.parent, of_edge, minlength=graph.n_hidden + 1)
    stages.rest[0] = of_parent[: graph.n_hidden]
    return stages


def _zeros(edges: int, nodes: int, hidden: int) -> Stages:
    return Stages(
        down=np.zeros(edges, dtype=np.float32),
        to_edge=np.zeros(edges, dtype=np.float32),
        excess=np.zeros(edges, dtype=np.float32),
        top=np.zeros(nodes, dtype=np.float32),
        second=np.zeros(nodes, dtype=np.float32),
        positive=np.zeros(nodes, dtype=np.float32),
        children=np.zeros(nodes, dtype=np.int32),
        noise=np.zeros(hidden, dtype=np.float32),
        rest=np.zeros((2, hidden)),
    )


NO_STAGES = _zeros(0, 0, 0)
"""For the other schedule, which needs none."""


@njit(cache=True, nogil=True)
def run_two_stage(graph, parameters, work, stages, missing, selection, options, key):
    """Leave the beliefs of one row in ``work.belief``; return iterations and the last change."""
    n_visible, step = graph.n_visible, float32(options.step)
    hidden = work.hidden[: selection.hidden]
    n_on, n_children = _list_children(work.narrow, work.wide, selection, stages.children)
    _start(graph, parameters, work, stages, hidden, missing, n_children, options, key)

    belief, incoming, to_child, clamp = work.belief, work.incoming, work.to_child, work.clamp
    down, to_edge, excess = stages.down, stages.to_edge, stages.excess
    top, second, positive = stages.top, stages.second, stages.positive
    children, noise, rest = stages.children, stages.noise, stages.rest[1]
    total = parameters.total if options.maximize_missing else work.total
    ptr, first, parent, n_parents = graph.ptr, graph.first, graph.parent, graph.n_parents
    log_odds, leaks = parameters.log_odds, parameters.leak_log_odds
    way = 1.0  # delta^n of equation T16: what the message of a leak still lacks
    residual = float32(0.0)
    for iteration in range(options.max_iterations):
        # Share of its final value that the message of every leak has reached, equation T16.
        grown = float32(1.0 - way)
        residual = float32(0.0)
        for number in range(n_children):
            node = children[number]
            k = node - n_visible
            is_on = number < n_on
            back = float32(0.0)
            if not is_on and k >= 0:
                back = belief[k] - to_child[k]
            change, message = _update_child(
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
                node,
                first[node],
                ptr[node],
                ptr[node + 1],
                grown * leaks[node],
                back,
                is_on,
                step,
            )
            residual = max(residual, change)
            if k >= 0:
                residual = max(residual, send(to_child, k, message, step))
        for k in hidden:
            node = n_visible + k
            # Nodes without parents are no children of the row; their prior arrives damped all the
            # same.
            if n_parents[node] == 0:
                residual = max(residual, send(to_child, k, grown * leaks[node], step))
        # Children that are off: delta^(n-1) rest of equation T16, summed over the children of k.
        fading = float32((1.0 - options.step) ** iteration)
        for k in hidden:
            arrived = incoming[k] + (fading * rest[k] - total[k])
            belief[k] = _clamped(clamp[k], noise[k] + to_child[k] + arrived)
            incoming[k] = 0.0
        way *= 1.0 - options.step
        # Constant messages also need time to arrive; without ``way`` a row could stop before they
        # do.
        if max(residual, way) < options.tolerance:
            return iteration + 1, residual
    return options.max_iterations, residual


@njit(cache=True, nogil=True, forceinline=True)
def _clamped(evidence, belief):
    """The belief, or that of a node that is known to be on or off."""
    if evidence == FREE:
        return float32(belief)
    return -NEVER if evidence == 1 else NEVER


@njit(cache=True, nogil=True, forceinline=True)
def _list_children(narrow, wide, selection, children):
    """Children that take part, the ones that are on first; return how many are on, and all."""
    count = 0
    for place in range(selection.narrow_on):
        children[count] = narrow[place]
        count += 1
    for place in range(selection.wide_on):
        children[count] = wide[place]
        count += 1
    n_on = count
    for place in range(selection.narrow_on, selection.narrow):
        children[count] = narrow[place]
        count += 1
    for place in range(selection.wide_on, selection.wide):
        children[count] = wide[place]
        count += 1
    return n_on, count


@njit(cache=True, nogil=True, forceinline=True)
def _start(graph, parameters, work, stages, hidden, missing, n_children, options, key):
    """All messages zero, so that the belief is the noise; ``rest`` of the children that are off."""
    ptr, parent, n_parents = graph.ptr, graph.parent, graph.n_parents
    theta, log_odds, keep = parameters.theta, parameters.log_odds, 1.0 - options.step
    rest = stages.rest
    for k in hidden:
        rest[1, k] = rest[0, k]
        stages.noise[k] = 0.0
        if options.temperature > 0.0:
            stages.noise[k] = options.temperature * logistic_noise(combine(key, uint64(k)))
        work.belief[k] = _clamped(work.clamp[k], stages.noise[k])
        work.to_child[k] = 0.0
        work.incoming[k] = 0.0
    for number in range(n_children + len(missing)):
        # A visible that is summed out has no factor; one that is inferred is among the children.
        if number >= n_children and options.maximize_missing:
            break
        node = stages.children[number] if number < n_children else missing[number - n_children]
        start, end = ptr[node], ptr[node] + n_parents[node]
        for edge in range(start, end):
            off = keep * theta[edge] + options.step * max(float32(0.0), log_odds[edge])
            # ``rest`` starts with all children of a parent; those with messages of their own come
            # off.
            rest[1, parent[edge]] -= off
            stages.down[edge] = 0.0
        # Padding must not look like a message of zero log-odds, which could hold the maximum.
        for edge in range(end, ptr[node + 1]):
            stages.down[edge] = NEVER
        for edge in range(start, ptr[node + 1]):
            stages.to_edge[edge] = 0.0
            stages.excess[edge] = theta[edge]
        stages.top[node] = 0.0 if end > start else NEVER
        stages.second[node] = 0.0 if end > start + 1 else NEVER
        stages.positive[node] = 0.0


@njit(cache=True, nogil=True, forceinline=True)
def _update_child(
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
    node,
    first,
    start,
    end,
    leak,
    back,
    is_on,
    step,
):
    """All messages of one child's factor; return the largest change, and the message to the child.

    Equation T15 in excess form. ``top``, ``second`` and ``positive`` belong to the t of the
    iteration before; those of the new t are gathered on the way for the next one.
    """
    best, runner_up = with_leak(top[node], second[node], leak)
    sum_positive = positive[node] + max(float32(0.0), leak)
    zero = simd.splat(float32(0.0))
    peak = simd.splat(best)
    need = simd.splat(max(float32(0.0), -best))
    need_of_peak = simd.splat(max(float32(0.0), -runner_up))
    # A child that is on supports its edges without limit; large and finite, so that nothing is NaN.
    support = simd.splat(-NEVER if is_on else back + sum_positive)
    rate = simd.splat(step)
    change, new_best, new_second, new_positive = zero, simd.splat(NEVER), simd.splat(NEVER), zero
    for edge in range(start, end, simd.LANES):
        if first >= 0:
            parents = simd.load(belief, first + edge - start)
        else:
            parents = simd.gather(belief, parent, edge)
        odds, old = simd.load(log_odds, edge), simd.load(down, edge)
        old_need, old_excess = simd.load(to_edge, edge), simd.load(excess, edge)
        missing = simd.where_equal(old, peak, need_of_peak, need)
        missing = simd.smallest(missing, simd.subtract(support, simd.largest(old, zero)))

        difference = simd.subtract(
            simd.add(odds, simd.smallest(simd.subtract(parents, old_excess), zero)), old
        )
        change = simd.largest(change, simd.largest(difference, simd.subtract(zero, difference)))
        new = simd.add(old, simd.multiply(rate, difference))
        simd.store(down, edge, new)
        new_second = simd.largest(new_second, simd.smallest(new_best, new))
        new_best = simd.largest(new_best, new)
        new_positive = simd.add(new_positive, simd.largest(new, zero))

        difference = simd.subtract(missing, old_need)
        change = simd.largest(change, simd.largest(difference, simd.subtract(zero, difference)))
        simd.store(to_edge, edge, simd.add(old_need, simd.multiply(rate, difference)))

        difference = simd.subtract(simd.largest(zero, simd.add(odds, old_need)), old_excess)
        change = simd.largest(change, simd.largest(difference, simd.subtract(zero, difference)))
        new = simd.add(old_excess, simd.multiply(rate, difference))
        simd.store(excess, edge, new)
        if first >= 0:
            place = first + edge - start
            simd.store(incoming, place, simd.add(simd.load(incoming, place), new))
        else:
            simd.scatter_add(incoming, parent, edge, new)
    top[node], second[node] = simd.reduce_top_two(new_best, new_second)
    positive[node] = simd.reduce_sum(new_positive)
    return simd.reduce_max(change), sum_positive + min(float32(0.0), best)
