"""Kernel of Boolean covers: flip memberships of rows while the score of the cover rises.

Equation T48 of docs/theory.md.
"""

from __future__ import annotations

from noisyor.engines.numba.cache import njit

_SWEEPS = 20
"""Most passes over the causes of a row; the first one that changes nothing is the last."""

_ROUNDING = 1e-9
"""A flip has to gain more than this, or two equal choices would be flipped back and forth."""


@njit(cache=True, nogil=True)
def improve_rows(weight, counts, states, column_ptr, column, price, begin, end):
    """Coordinate ascent on the memberships of rows ``begin:end``; returns how many were switched.

    ``weight`` (rows, columns) gain from covering an entry; ``counts`` (rows, columns) how many
    causes cover it, kept up to date; ``states`` (rows, causes) memberships, changed in place;
    ``column[column_ptr[k]:column_ptr[k + 1]]`` columns of cause k; ``price`` (causes,) of one
    membership.
    """
    switched = 0
    n_factors = len(price)
    for row in range(begin, end):
        for _ in range(_SWEEPS):
            changed = 0
            for k in range(n_factors):
                on = states[row, k]
                gain = -price[k]
                for position in range(column_ptr[k], column_ptr[k + 1]):
                    j = column[position]
                    # Without this cause the count is ``counts - on``: an entry that others cover
                    # too neither gains nor loses.
                    if counts[row, j] == on:  # covered by nothing else
                        gain += weight[row, j]
                if (on == 0 and gain > _ROUNDING) or (on == 1 and gain < -_ROUNDING):
                    states[row, k] = 1 - on
                    for position in range(column_ptr[k], column_ptr[k + 1]):
                        counts[row, column[position]] += 1 - 2 * on
                    changed += 1
            switched += changed
            if changed == 0:
                break
    return switched
