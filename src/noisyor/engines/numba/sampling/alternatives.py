"""Draws from a set of alternatives, eight at a time: log-odds to probabilities, and the choice.

Equation T52 of docs/theory.md. The nodes of a set are consecutive lanes, filled up to a multiple of
eight with lanes of log-odds `IMPOSSIBLE`.
"""

import math

from noisyor.engines.numba.float64x8 import (
    WIDTH,
    exp_minus,
    inner,
    largest,
    load,
    reduce_max,
    reduce_sum,
    splat,
    store,
    where_less,
)

IMPOSSIBLE = -1e30
"""Log-odds of what is known to be off; finite, so that differences stay finite."""

CERTAIN = 1e30
"""Log-odds of what is known to be on."""

_FAR = 250.0
"""Alternatives this far below the best one have probability zero."""


@inner()
def softmax(odds, first, last):
    """Replace log-odds against none by probabilities, lanes ``first`` to ``last``.

    ``odds``: pointer. Returns the probability of none. If one is `CERTAIN` that is zero.
    """
    top = splat(0.0)
    for c in range(first, last, WIDTH):
        top = largest(top, load(odds, c))
    best = reduce_max(top)
    total = splat(0.0)
    for c in range(first, last, WIDTH):
        behind = splat(best) - load(odds, c)
        share = where_less(behind, splat(_FAR), exp_minus(behind)[0], splat(0.0))
        store(odds, c, share)
        total = total + share
    none = math.exp(-best) if best < _FAR else 0.0
    inverse = 1.0 / (reduce_sum(total) + none)
    for c in range(first, last, WIDTH):
        store(odds, c, load(odds, c) * splat(inverse))
    return none * inverse


@inner()
def choose(probability, first, last, none, wanted):
    """Lane whose interval holds ``wanted``, or -1: none comes first, then the nodes in order."""
    if wanted < none:
        return -1
    up_to, block, chosen = none, -1, -1
    for c in range(first, last, WIDTH):
        of_eight = reduce_sum(load(probability, c))
        if of_eight > 0.0:
            block = c
            if wanted < up_to + of_eight:
                break
        up_to += of_eight
    # If rounding leaves a gap at the end it belongs to the last node that may be on.
    if block >= 0:
        for c in range(block, block + WIDTH):
            if probability[c] > 0.0:
                chosen = c
                up_to += probability[c]
                if wanted < up_to:
                    break
    return chosen
