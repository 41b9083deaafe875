"""Columns of `Observations`: select them, align them with a model, find one-hot groups.

A table of categories becomes binary by one column for each category. Imputation needs to know these
groups, because exactly one column of a group is on in every row.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError


def select_columns(data: Observations, columns: npt.ArrayLike | range) -> Observations:
    """Return some columns, in the order given; rows keep their ids."""
    chosen = np.asarray(columns, dtype=np.int64)
    names = data.column_names
    missing = data.missing_csr()[:, chosen].astype(np.bool_) if data.n_missing else None
    return Observations.of(
        data.to_csr()[:, chosen],
        missing=missing,
        row_ids=data.row_ids,
        column_names=None if names is None else [names[k] for k in chosen],
    ).with_weights(data.weights)


def align(
    data: Observations,
    names: Sequence[str] | None,
    n_columns: int,
    shape: tuple[int, ...],
    where: object,
) -> tuple[Observations, int]:
    """Bring data into the columns of a model, by name where both have names, else by position.

    Returns the rows in the model's columns, and how many columns of the data it does not have.
    """
    if names is None or data.column_names is None:
        if data.n_visible != n_columns:
            raise InvalidDataError(
                f"{where} has {data.n_visible} columns, the model was learned from {n_columns}"
            )
        if len(data.shape) == len(shape) == 2 and data.shape != shape:
            raise InvalidDataError(
                f"{where} has images of {data.shape[0]} x {data.shape[1]}, "
                f"the model was learned from {shape[0]} x {shape[1]}"
            )
        return data, 0
    require(data.column_names, names, where)
    index_of = {name: k for k, name in enumerate(data.column_names)}
    extra = data.n_visible - len(names)
    if tuple(names) == data.column_names:
        return data, 0
    return select_columns(data, [index_of[name] for name in names]), extra


def require(there: Sequence[str], wanted: Sequence[str], where: object) -> None:
    """Check that every wanted column is there; the error names the first that is not."""
    known = set(there)
    absent = [name for name in wanted if name not in known]
    if absent:
        raise InvalidDataError(
            f"{where} lacks {len(absent)} of the {len(wanted)} columns of the model, "
            f"the first is {absent[0]!r}; add the columns, with empty entries if they are unknown"
            f"{suggest(absent[0], there)}"
        )


def suggest(name: str, names: Sequence[str]) -> str:
    """Return ``"; did you mean ...?"`` with the most similar names, or an empty text."""
    folded: dict[str, str] = {}
    for known in names:
        folded.setdefault(known.casefold(), known)
    alike = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    if not alike:
        alike = [known for known in folded if name.casefold() in known][:3]
    if not alike:
        return ""
    return f"; did you mean {' or '.join(repr(folded[one]) for one in alike)}?"


# ---- one-hot groups

_MAX_GROUP = 64
"""Largest number of columns in a group."""

_MAX_CELLS = 2**27
"""Tables with more entries are not searched."""

_MAX_LOG_CHANCE = -20.0
"""A group counts if its log-probability by chance is below this."""


class OneHot(NamedTuple):
    """A group of columns of which exactly one is on, and the number of rows without gaps in it."""

    columns: range
    n_rows: int


def find_one_hot(rows: Observations) -> tuple[OneHot, ...]:
    """Find neighboring columns with exactly one of them on in every row, from left to right.

    Rows with an unobserved entry in a group have at most one column on. Groups that may occur by
    chance, such as a column that is nearly always on beside one that never is, are left out.
    """
    if rows.n_rows * rows.n_visible > _MAX_CELLS:
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
    """Return the group whose first column is given, if there is one."""
    n_rows, n_columns = on.shape
    count = np.zeros(n_rows, dtype=np.int64)
    complete = np.ones(n_rows, dtype=np.bool_)
    for last in range(first, min(first + _MAX_GROUP, n_columns)):
        count[_rows_of(on, last)] += 1
        if (count > 1).any():
            return None
        complete[_rows_of(missing, last)] = False
        n_complete = int(complete.sum())
        if last > first and n_complete and (count[complete] == 1).all():
            by_chance = _exactly_one(share[first : last + 1])
            if n_complete * np.log(by_chance) < _MAX_LOG_CHANCE:
                return OneHot(range(first, last + 1), n_complete)
    return None


def _rows_of(matrix: sp.csc_array, column: int) -> LongArray:
    """Return the rows with an entry in a column."""
    found: LongArray = matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]
    return found


def _exactly_one(share: FloatArray) -> float:
    """Return the probability that exactly one of independent columns is on."""
    none, one = 1.0, 0.0
    for p in share.tolist():
        none, one = none * (1.0 - p), one * (1.0 - p) + none * p
    return min(max(one, 1e-300), 1.0)
