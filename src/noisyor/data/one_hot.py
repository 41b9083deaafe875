"""Columns that answer one question: of these, exactly one is on in every row.

A table of categories becomes binary by one column for each answer. Whoever fills in such a table
should know: where all others are off, the last is on, and where one is on, the others are off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.observations import Observations

__all__ = ["OneHot", "find_one_hot"]

_MOST_ANSWERS = 64
"""Columns of one question, at most."""

_MOST_CELLS = 2**27
"""Entries of a table above which nothing is looked for."""

_SURE = -20.0
"""Log-probability below which it is no chance that independent columns look so in all rows."""


class OneHot(NamedTuple):
    """The columns of a question, and how many rows, all of it observed, say that it is one.

    Examples
    --------
    >>> from noisyor.data import OneHot
    >>> OneHot(range(3, 6), 100).columns
    range(3, 6)
    """

    columns: range
    n_rows: int


def find_one_hot(rows: Observations) -> tuple[OneHot, ...]:
    """Neighbouring columns of which exactly one is on in every row, from left to right.

    Rows with an unobserved entry among the columns of a question have one on at most. Columns that
    would look so by chance, such as one that is nearly always on beside one that never is, are no
    question.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> colour = np.eye(3)[np.arange(60) % 3]
    >>> X = np.hstack([np.random.default_rng(0).random((60, 2)) < 0.5, colour])
    >>> nor.data.find_one_hot(nor.Observations.of(X))
    (OneHot(columns=range(2, 5), n_rows=60),)
    """
    if rows.n_rows * rows.n_visible > _MOST_CELLS:
        return ()
    on, missing = rows.to_csr().tocsc(), rows.missing_csr().tocsc()
    seen = rows.n_rows - np.diff(missing.indptr)
    share = np.diff(on.indptr) / np.maximum(seen, 1)
    found, first = [], 0
    while first < rows.n_visible - 1:
        group = _from(first, on, missing, share)
        if group is None:
            first += 1
        else:
            found.append(group)
            first = group.columns.stop
    return tuple(found)


def _from(first: int, on: sp.csc_array, missing: sp.csc_array, share: FloatArray) -> OneHot | None:
    """The question whose first column is given, if there is one."""
    n_rows, n_columns = on.shape
    count = np.zeros(n_rows, dtype=np.int64)
    complete = np.ones(n_rows, dtype=np.bool_)
    for last in range(first, min(first + _MOST_ANSWERS, n_columns)):
        count[_rows_of(on, last)] += 1
        if (count > 1).any():
            return None
        complete[_rows_of(missing, last)] = False
        n_complete = int(complete.sum())
        if last > first and n_complete and (count[complete] == 1).all():
            chance = _exactly_one(share[first : last + 1])
            if n_complete * np.log(chance) < _SURE:
                return OneHot(range(first, last + 1), n_complete)
    return None


def _rows_of(matrix: sp.csc_array, column: int) -> LongArray:
    """Rows with an entry in a column."""
    found: LongArray = matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]
    return found


def _exactly_one(share: FloatArray) -> float:
    """Probability that exactly one of independent columns is on."""
    none, one = 1.0, 0.0
    for chance in share.tolist():
        none, one = none * (1.0 - chance), one * (1.0 - chance) + none * chance
    return min(max(one, 1e-300), 1.0)
