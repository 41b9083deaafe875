"""Max-product by the collapsed schedule, one thread for each row and sample.

Equations T5, T8 to T14, T17 and T18 of docs/theory.md. Every message is a log-odds number. The
message from the factor of child i to parent k is kept as ``excess = v + theta >= 0``, so that a
child that is off (v = -theta) has excess zero and need not be visited: its effect is part of the
parent's total. With B the belief of the parent, ``a = log(exp(theta) - 1)`` and b the log-odds that
the child receives from elsewhere,

    t_e      = a_e + min(B_k - excess_e, 0)
    excess_e = max(0, a_e + min(b + P - [t_e]_+, [-M_{-e}]_+)),    P = sum [t]_+ , leak included

where M_{-e} is the largest t of the other edges and the leak. A child that is on has infinite b.

A *draw* is one sample of one row.
"""

import warp as wp

from noisyor.engines.contract import FREE as FREE_STATE
from noisyor.engines.contract import NEVER as LOWEST
from noisyor.engines.contract import TIE as LARGEST_TIE

NEVER = wp.constant(wp.float32(LOWEST))
"""Log-odds of an impossible event; finite, so that differences stay finite."""

_GOLDEN = wp.constant(wp.uint64(0x9E3779B97F4A7C15))
_FIRST = wp.constant(wp.uint64(0xBF58476D1CE4E5B9))
_SECOND = wp.constant(wp.uint64(0x94D049BB133111EB))
_ONE = wp.constant(wp.uint64(1))
_HALF_BITS = wp.constant(wp.float64(0.5))
_SCALE = wp.constant(wp.float64(1.0 / 9007199254740992.0))
_UNIT = wp.constant(wp.float64(1.0))


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return slot * draws + draw;
#else
    return draw * slots + slot;
#endif
"""
)
def offset(slot: int, slots: int, draw: int, draws: int) -> int:
    """Return where entry ``slot`` of a draw lies in memory of ``slots`` times ``draws`` entries.

    The threads of a GPU take neighboring draws at once, so there the draw is the fastest index. A
    CPU core takes one draw after another, so there the entries of a draw are contiguous.
    """
    ...


@wp.func_native("return values.data[index];")
def single_at(values: wp.array(dtype=wp.float32), index: int) -> wp.float32:
    """Return ``values[index]`` without support for strides and negative indices, for speed."""
    ...


@wp.func_native("return values.data[index];")
def int_at(values: wp.array(dtype=wp.int32), index: int) -> wp.int32:
    """Return ``values[index]``, as `single_at`."""
    ...


@wp.func_native("values.data[index] = value;")
def put(values: wp.array(dtype=wp.float32), index: int, value: wp.float32):
    """Set ``values[index]``, as `single_at`."""
    ...


@wp.func_native("return left > right ? left : right;")
def larger(left: wp.float32, right: wp.float32) -> wp.float32:
    """Return the larger of two numbers that are never NaN, so that the compiler need not check."""
    ...


@wp.func_native("return left < right ? left : right;")
def smaller(left: wp.float32, right: wp.float32) -> wp.float32:
    """Return the smaller of two numbers that are never NaN."""
    ...


@wp.func
def mix(key: wp.uint64) -> wp.uint64:
    """Scramble 64 bits bijectively: ``mix`` of equation T18, the finalizer of splitmix64."""
    a = (key ^ (key >> wp.uint64(30))) * _FIRST
    b = (a ^ (a >> wp.uint64(27))) * _SECOND
    return b ^ (b >> wp.uint64(31))


@wp.func
def combine(key: wp.uint64, value: wp.uint64) -> wp.uint64:
    """Return the key of a parent key and one more number: ``combine`` of equation T18."""
    return mix(key + _GOLDEN * (value + _ONE))


@wp.func
def uniform(key: wp.uint64) -> wp.float64:
    """Return a uniform variate, strictly between 0 and 1."""
    return (wp.float64(mix(key) >> wp.uint64(11)) + _HALF_BITS) * _SCALE


@wp.func
def logistic(key: wp.uint64) -> wp.float64:
    """Return a standard logistic variate: the difference of two standard Gumbels."""
    u = uniform(key)
    return wp.log(u / (_UNIT - u))


# ---- a network, a batch of rows and the memory of a launch


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
    """Memory of a launch: entries for ``draws`` draws, laid out by `offset`.

    Entries by hidden node: ``belief``, ``incoming`` (sum of excesses), ``unary``, ``to_child``,
    ``known`` (0, 1, or 2 if free) and the list ``hidden`` of those that take part; with missing
    entries ``total``. ``children``: a list of the ``most_children`` that send messages. ``excess``
    and ``down``: messages by edge into those, ``most_edges``, to the parent and from it.
    """

    draws: int
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
    """Results by draw: ``states`` and ``beliefs`` by hidden node, if wanted."""

    with_beliefs: int
    states: wp.array(dtype=wp.uint8)
    beliefs: wp.array(dtype=wp.float32)
    iterations: wp.array(dtype=wp.int32)
    residual: wp.array(dtype=wp.float32)


# ---- the nodes of a row that take part


ZERO = wp.constant(wp.float32(0.0))
TIE = wp.constant(wp.float32(LARGEST_TIE))
OFF = wp.constant(wp.uint8(0))
ON = wp.constant(wp.uint8(1))
FREE = wp.constant(wp.uint8(FREE_STATE))
_UNSEEN = wp.constant(wp.uint8(3))


@wp.struct
class Selection:
    """Numbers of nodes that take part: hidden ones, children that are on, and all children.

    ``first`` and ``end`` of the row's ones, ``first_missing`` and ``end_missing`` of its unobserved
    visibles.
    """

    hidden: int
    on: int
    children: int
    first: int
    end: int
    first_missing: int
    end_missing: int


@wp.func
def select(graph: Graph, rows: Rows, options: Options, work: Work, row: int, draw: int):
    """Fill the lists of ``work`` for one draw; nodes that take no part are off."""
    found = Selection()
    found.first = rows.ptr[row]
    found.end = rows.ptr[row + 1]
    found.first_missing = rows.missing_ptr[row]
    found.end_missing = rows.missing_ptr[row + 1]
    n_hidden = graph.n_hidden
    draws = work.draws
    clamp_row = wp.min(row, rows.clamps - 1) * n_hidden
    found.hidden = n_hidden
    for k in range(n_hidden):
        state = FREE
        if rows.clamps > 0:
            state = rows.clamp[clamp_row + k]
        at = offset(k, n_hidden, draw, draws)
        work.known[at] = state
        work.belief[at] = NEVER
        work.hidden[at] = k
    if options.ancestors_only != 0:
        found.hidden = _ancestors(graph, rows, options, work, found, clamp_row, draw)

    count = int(0)
    for entry in range(found.first, found.end):
        work.children[offset(count, work.most_children, draw, draws)] = rows.columns[entry]
        count += 1
    count = _add_hidden(graph, work, found.hidden, draw, ON, count)
    # Children that are on come first: their update is the simpler one.
    found.on = count
    count = _add_hidden(graph, work, found.hidden, draw, FREE, count)
    found.children = count
    return found


@wp.func
def _add_hidden(graph: Graph, work: Work, n_hidden: int, draw: int, state: wp.uint8, count: int):
    """Append the hidden children that are in a state; return the new length of the list."""
    total = count
    for j in range(n_hidden):
        k = work.hidden[offset(j, graph.n_hidden, draw, work.draws)]
        node = graph.n_visible + k
        known = work.known[offset(k, graph.n_hidden, draw, work.draws)]
        if known == state and graph.ptr[node + 1] > graph.ptr[node]:
            work.children[offset(total, work.most_children, draw, work.draws)] = node
            total += 1
    return total


@wp.func
def _ancestors(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    entries: Selection,
    clamp_row: int,
    draw: int,
):
    """List the ancestors of the active visibles and of hidden nodes that are known to be on.

    All other hidden nodes are taken as off.
    """
    n_hidden = graph.n_hidden
    count = int(0)
    for k in range(n_hidden):
        work.known[offset(k, n_hidden, draw, work.draws)] = _UNSEEN
    for entry in range(entries.first, entries.end):
        count = _add_parents(graph, rows, work, rows.columns[entry], clamp_row, draw, count)
    if rows.clamps > 0:
        for k in range(n_hidden):
            if rows.clamp[clamp_row + k] == ON:
                count = _add(graph, rows, work, k, clamp_row, draw, count)
    done = int(0)
    while done < count:  # breadth first: the list is its own queue
        k = work.hidden[offset(done, n_hidden, draw, work.draws)]
        count = _add_parents(graph, rows, work, graph.n_visible + k, clamp_row, draw, count)
        done += 1
    for k in range(n_hidden):
        at = offset(k, n_hidden, draw, work.draws)
        if work.known[at] == _UNSEEN:
            work.known[at] = OFF
    return count


@wp.func
def _add_parents(
    graph: Graph, rows: Rows, work: Work, node: int, clamp_row: int, draw: int, count: int
):
    """Append the parents of a node that are not in the list yet; return its new length."""
    total = count
    for edge in range(graph.ptr[node], graph.ptr[node + 1]):
        total = _add(graph, rows, work, graph.parent[edge], clamp_row, draw, total)
    return total


@wp.func
def _add(graph: Graph, rows: Rows, work: Work, k: int, clamp_row: int, draw: int, count: int):
    """Append a hidden node to the list unless it is already listed, as ``known`` marks."""
    at = offset(k, graph.n_hidden, draw, work.draws)
    if work.known[at] != _UNSEEN:
        return count
    state = FREE
    if rows.clamps > 0:
        state = rows.clamp[clamp_row + k]
    work.known[at] = state
    work.hidden[offset(count, graph.n_hidden, draw, work.draws)] = k
    return count + 1


# ---- costs, noise and decoding


@wp.func
def key_of(rows: Rows, options: Options, row: int, sample: int) -> wp.uint64:
    """Return the key of a draw, equation T18: by row id, so that no batch changes the noise."""
    return combine(combine(options.key, wp.uint64(rows.ids[row])), wp.uint64(sample))


@wp.func
def noise_of(options: Options, key: wp.uint64, k: int) -> wp.float64:
    """Return the perturbation of a hidden node: equations T17 and T18."""
    noise = wp.float64(0.0)
    if options.temperature > noise:
        noise = options.temperature * logistic(combine(key, wp.uint64(k)))
    return noise


@wp.func
def observed_totals(
    graph: Graph, rows: Rows, options: Options, work: Work, found: Selection, draw: int
):
    """Compute T_k of equation T5: the totals of all children that are not missing."""
    for k in range(graph.n_hidden):
        work.total[offset(k, graph.n_hidden, draw, work.draws)] = graph.total[k]
    for entry in range(found.first_missing, found.end_missing):
        node = rows.missing_columns[entry]
        for edge in range(graph.ptr[node], graph.ptr[node + 1]):
            at = offset(graph.parent[edge], graph.n_hidden, draw, work.draws)
            work.total[at] = work.total[at] - graph.theta[edge]


@wp.func
def unless_known(known: wp.uint8, belief: wp.float32) -> wp.float32:
    """Return the belief, or that of a node that is known to be on or off."""
    result = belief
    if known == ON:
        result = -NEVER
    elif known != FREE:
        result = NEVER
    return result


@wp.func
def decode(graph: Graph, work: Work, output: Output, draw: int):
    """Switch nodes on where the belief exceeds ``TIE``: equation T11."""
    for k in range(graph.n_hidden):
        at = offset(k, graph.n_hidden, draw, work.draws)
        belief = work.belief[at]
        output.states[at] = wp.uint8(belief > TIE)
        if output.with_beliefs != 0:
            output.beliefs[at] = belief


# ---- messages


@wp.kernel(enable_backward=False)
def infer(graph: Graph, rows: Rows, options: Options, work: Work, output: Output, first: int):
    """Pass messages until they converge, and decode; ``first`` is the first draw."""
    draw = wp.tid()
    row = (first + draw) // options.n_samples
    sample = (first + draw) % options.n_samples
    found = select(graph, rows, options, work, row, draw)
    _start(graph, rows, options, work, found, key_of(rows, options, row, sample), draw)
    residual = wp.float32(0.0)
    iterations = int(0)
    running = bool(True)
    while running and iterations < options.max_iterations:
        residual = _update(graph, options, work, found, draw)
        _collect(graph, work, found, draw)
        iterations += 1
        running = residual >= options.tolerance
    output.iterations[draw] = iterations
    output.residual[draw] = residual
    decode(graph, work, output, draw)


@wp.func
def _start(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    found: Selection,
    key: wp.uint64,
    draw: int,
):
    """Set messages to zero (excess = theta), with prior log-odds and noise."""
    observed_totals(graph, rows, options, work, found, draw)
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, draw, work.draws)]
        at = offset(k, graph.n_hidden, draw, work.draws)
        node = graph.n_visible + k
        work.unary[at] = wp.float32(noise_of(options, key, k) - work.total[at])
        work.incoming[at] = ZERO
        prior = ZERO
        if graph.ptr[node + 1] == graph.ptr[node]:
            prior = graph.leak[node]
        work.to_child[at] = prior
    slot = int(0)
    for index in range(found.children):
        node = work.children[offset(index, work.most_children, draw, work.draws)]
        for edge in range(graph.ptr[node], graph.ptr[node + 1]):
            at = offset(graph.parent[edge], graph.n_hidden, draw, work.draws)
            theta = wp.float32(graph.theta[edge])
            work.excess[offset(slot, work.most_edges, draw, work.draws)] = theta
            work.incoming[at] = work.incoming[at] + theta
            slot += 1
    _collect(graph, work, found, draw)


@wp.func
def _collect(graph: Graph, work: Work, found: Selection, draw: int):
    """Compute beliefs from the incoming messages, and clear these: equation T12."""
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, draw, work.draws)]
        at = offset(k, graph.n_hidden, draw, work.draws)
        belief = work.unary[at] + work.to_child[at] + work.incoming[at]
        work.belief[at] = unless_known(work.known[at], belief)
        work.incoming[at] = ZERO


@wp.func
def _update(graph: Graph, options: Options, work: Work, found: Selection, draw: int):
    """Update all messages of all children; return the largest residual."""
    residual = wp.float32(0.0)
    slot = int(0)
    for index in range(found.children):
        node = work.children[offset(index, work.most_children, draw, work.draws)]
        begin = graph.ptr[node]
        end = graph.ptr[node + 1]
        change = _update_child(
            graph.parent,
            graph.log_odds,
            work.belief,
            work.incoming,
            work.to_child,
            work.excess,
            work.down,
            begin,
            end,
            slot,
            graph.leak[node],
            index < found.on,
            node - graph.n_visible,
            graph.n_hidden,
            work.most_edges,
            options.step,
            draw,
            work.draws,
        )
        residual = larger(residual, change)
        slot += end - begin
    return residual


@wp.func
def _update_child(
    parents: wp.array(dtype=wp.int32),
    log_odds: wp.array(dtype=wp.float32),
    beliefs: wp.array(dtype=wp.float32),
    incoming: wp.array(dtype=wp.float32),
    to_child: wp.array(dtype=wp.float32),
    excess: wp.array(dtype=wp.float32),
    down: wp.array(dtype=wp.float32),
    begin: int,
    end: int,
    slot: int,
    leak: wp.float32,
    is_on: bool,
    k: int,
    n_hidden: int,
    most_edges: int,
    step: wp.float32,
    draw: int,
    draws: int,
):
    """Update the messages of one child's factor; return the largest residual.

    Its edges are ``begin`` to ``end``, its messages begin at ``slot``; ``k`` is the number of a
    hidden child, negative for a visible one. Arrays are arguments, not fields of a structure, which
    would be read from memory in every access.
    """
    best = leak
    second = NEVER
    edge = int(begin)
    while edge < end:
        belief = single_at(beliefs, offset(int_at(parents, edge), n_hidden, draw, draws))
        at = offset(slot + edge - begin, most_edges, draw, draws)
        t = single_at(log_odds, edge) + smaller(belief - single_at(excess, at), ZERO)
        put(down, at, t)
        second = larger(second, smaller(best, t))
        best = larger(best, t)
        edge += 1
    need = larger(-best, ZERO)
    need_of_best = larger(-second, ZERO)

    # A child that is on supports its edges without limit; large and finite, so nothing is NaN.
    support = -NEVER
    residual = wp.float32(0.0)
    if not is_on:
        positive = larger(leak, ZERO)
        edge = int(begin)
        while edge < end:
            at = offset(slot + edge - begin, most_edges, draw, draws)
            positive += larger(single_at(down, at), ZERO)
            edge += 1
        support = positive
        if k >= 0:
            child = offset(k, n_hidden, draw, draws)
            support = beliefs[child] - to_child[child] + positive
            asked = positive + smaller(best, ZERO) - to_child[child]
            to_child[child] = to_child[child] + step * asked
            residual = wp.abs(asked)

    # The edge that holds the maximum sees the runner-up; with a tie both are the same number.
    edge = int(begin)
    while edge < end:
        at = offset(slot + edge - begin, most_edges, draw, draws)
        t = single_at(down, at)
        missing = wp.where(t == best, need_of_best, need)
        missing = smaller(missing, support - larger(t, ZERO))
        old = single_at(excess, at)
        asked = larger(single_at(log_odds, edge) + missing, ZERO) - old
        residual = larger(residual, wp.abs(asked))
        new = old + step * asked
        put(excess, at, new)
        parent = offset(int_at(parents, edge), n_hidden, draw, draws)
        put(incoming, parent, single_at(incoming, parent) + new)
        edge += 1
    return residual
