"""Messages of sets of alternatives to their nodes: equation T51 of docs/theory.md.

With u_j the log-odds of node j from everything but its set, the set tells node k

    -max(0, largest u_j of the others)

Nodes that are known to be off, or take no part in a row, have the belief ``NEVER`` and keep it.
"""

from numba import float32

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.graph import NEVER


@njit(cache=True, nogil=True, forceinline=True)
def leave_out(belief, set_member):
    """Before a row: alternatives that take no part must not stand in the way of others."""
    for k in set_member:
        belief[k] = NEVER


@njit(cache=True, nogil=True, forceinline=True)
def exclude(belief, set_ptr, set_member):
    """Add the message of its set to the belief of every alternative, computed from the others."""
    for number in range(len(set_ptr) - 1):
        best, second, leader = _top_two(belief, set_member, set_ptr[number], set_ptr[number + 1])
        for position in range(set_ptr[number], set_ptr[number + 1]):
            k = set_member[position]
            if belief[k] > NEVER:
                belief[k] -= second if k == leader else best


@njit(cache=True, nogil=True, forceinline=True)
def send_to_members(belief, from_set, scratch, set_ptr, set_member, step):
    """Damped messages ``from_set`` (n_hidden,) of the sets; return the largest change asked for.

    ``belief`` includes the messages of the iteration before; ``scratch`` (n_hidden,) holds it
    without them.
    """
    change = float32(0.0)
    for k in set_member:
        scratch[k] = belief[k] - from_set[k] if belief[k] > NEVER else NEVER
    for number in range(len(set_ptr) - 1):
        best, second, leader = _top_two(scratch, set_member, set_ptr[number], set_ptr[number + 1])
        for position in range(set_ptr[number], set_ptr[number + 1]):
            k = set_member[position]
            if belief[k] > NEVER:
                difference = -(second if k == leader else best) - from_set[k]
                from_set[k] += step * difference
                change = max(change, abs(difference))
    return change


@njit(cache=True, nogil=True, forceinline=True)
def _top_two(value, set_member, begin, end):
    """Largest and second largest of zero and the values of a set, and the node of the largest."""
    best, second, leader = float32(0.0), float32(0.0), -1
    for position in range(begin, end):
        k = set_member[position]
        if value[k] > best:
            best, second, leader = value[k], best, k
        elif value[k] > second:
            second = value[k]
    return best, second, leader
