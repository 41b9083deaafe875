"""Kernel of Boolean covers: switch the memberships of rows on or off while that pays."""

from __future__ import annotations

from numba import njit

_SWEEPS = 20
_ROUNDING = 1e-9


@njit(cache=True, nogil=True)
def improve_rows(weight, counts, states, column_ptr, column, price, begin, end):
    """Coordinate ascent on the memberships of rows ``begin:end``; returns how many were switched.

    ``weight`` (rows, columns) gain from covering an entry; ``counts`` (rows, columns) how many
    causes cover it, kept up to date; ``states`` (rows, causes) memberships, changed in place;
    ``column[column_ptr[k]:column_ptr[k + 1]]`` columns of cause k; ``price`` (causes,) of one
    membership.
    """
    switched = 0
    n_causes = len(price)
    for row in range(begin, end):
        for _ in range(_SWEEPS):
            changed = 0
            for k in range(n_causes):
                on = states[row, k]
                gain = -price[k]
                for position in range(column_ptr[k], column_ptr[k + 1]):
                    j = column[position]
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
