"""Messages of sets of alternatives to their nodes: equation T51 of docs/theory.md.

With u_j the log-odds of node j from everything but its set, the set tells node k

    -max(0, largest u_j of the others)

Nodes that are known to be off, or take no part in a line, have the belief ``NEVER`` and keep it.
"""

import warp as wp

from noisyor.engines.warp.graph import Graph
from noisyor.engines.warp.scalar import NEVER, place


@wp.struct
class TopTwo:
    """Largest and second largest of zero and the values of a set, and the node of the largest."""

    best: wp.float32
    second: wp.float32
    leader: int


@wp.func
def top_two(graph: Graph, value: wp.array(dtype=wp.float32), number: int, line: int, lines: int):
    """The largest of a set, of values by hidden node."""
    found = TopTwo()
    found.leader = -1
    for position in range(graph.set_ptr[number], graph.set_ptr[number + 1]):
        k = graph.set_member[position]
        here = value[place(k, graph.n_hidden, line, lines)]
        if here > found.best:
            found.second = found.best
            found.best = here
            found.leader = k
        elif here > found.second:
            found.second = here
    return found


@wp.func
def exclude(graph: Graph, belief: wp.array(dtype=wp.float32), line: int, lines: int):
    """Add the message of its set to the belief of every alternative, computed from the others."""
    for number in range(graph.n_sets):
        found = top_two(graph, belief, number, line, lines)
        for position in range(graph.set_ptr[number], graph.set_ptr[number + 1]):
            k = graph.set_member[position]
            at = place(k, graph.n_hidden, line, lines)
            if belief[at] > NEVER:
                rival = found.best
                if k == found.leader:
                    rival = found.second
                belief[at] = belief[at] - rival


@wp.func
def send_to_members(
    graph: Graph,
    belief: wp.array(dtype=wp.float32),
    from_set: wp.array(dtype=wp.float32),
    without_set: wp.array(dtype=wp.float32),
    step: wp.float32,
    line: int,
    lines: int,
):
    """Damped messages ``from_set`` of the sets; return the largest change asked for.

    ``belief`` includes the messages of the iteration before; ``without_set`` is filled with it
    without them.
    """
    change = wp.float32(0.0)
    for number in range(graph.n_sets):
        for position in range(graph.set_ptr[number], graph.set_ptr[number + 1]):
            at = place(graph.set_member[position], graph.n_hidden, line, lines)
            heard = NEVER
            if belief[at] > NEVER:
                heard = belief[at] - from_set[at]
            without_set[at] = heard
        found = top_two(graph, without_set, number, line, lines)
        for position in range(graph.set_ptr[number], graph.set_ptr[number + 1]):
            k = graph.set_member[position]
            at = place(k, graph.n_hidden, line, lines)
            if belief[at] > NEVER:
                rival = found.best
                if k == found.leader:
                    rival = found.second
                asked = -rival - from_set[at]
                from_set[at] = from_set[at] + step * asked
                change = wp.max(change, wp.abs(asked))
    return change
