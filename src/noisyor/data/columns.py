"""Choosing columns of `Observations`, and bringing a table into the columns of a model."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError

__all__ = ["align", "require", "select_columns", "suggest"]


def select_columns(data: Observations, columns: npt.ArrayLike | range) -> Observations:
    """Some columns, in the order given; rows keep their ids.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> rows = nor.Observations.of(np.array([[1, 0, 1]]), column_names=["a", "b", "c"])
    >>> nor.data.select_columns(rows, [2, 1]).column_names
    ('c', 'b')
    """
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
    """The columns of a model, found by name where both have names, otherwise by position.

    Returns the rows in the model's columns, and how many columns of the data it does not have.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> rows = nor.Observations.of(np.array([[1, 0, 1]]), column_names=["a", "b", "c"])
    >>> aligned, extra = nor.data.align(rows, ["c", "a"], 2, (2,), "rows.csv")
    >>> aligned.column_names, extra
    (('c', 'a'), 1)
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
    number_of = {name: k for k, name in enumerate(data.column_names)}
    extra = data.n_visible - len(names)
    if tuple(names) == data.column_names:
        return data, 0
    return select_columns(data, [number_of[name] for name in names]), extra


def require(there: Sequence[str], wanted: Sequence[str], where: object) -> None:
    """Every wanted column is there, or an error that names the first that is not."""
    known = set(there)
    absent = [name for name in wanted if name not in known]
    if absent:
        raise InvalidDataError(
            f"{where} lacks {len(absent)} of the {len(wanted)} columns of the model, "
            f"the first is {absent[0]!r}{suggest(absent[0], there)}"
        )


def suggest(name: str, names: Sequence[str]) -> str:
    """``"; did you mean ...?"`` with the most similar names, or nothing."""
    folded: dict[str, str] = {}
    for known in names:
        folded.setdefault(known.casefold(), known)
    alike = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    if not alike:
        alike = [known for known in folded if name.casefold() in known][:3]
    if not alike:
        return ""
    return f"; did you mean {' or '.join(repr(folded[one]) for one in alike)}?"
