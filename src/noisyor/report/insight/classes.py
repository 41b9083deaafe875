"""Causes beside a class of the rows that the model never saw: which go with which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.sparse import csr_of
from noisyor.errors import InvalidDataError

__all__ = ["Classes", "class_section", "classes_of"]

MOST_CLASSES = 40
_LISTED = 20
_FEW = 5  # rows with a cause, below which nothing is said of it


class Classes(NamedTuple):
    """Classes of the rows that were explained, and how often causes are on in each.

    ``names`` (n_classes,) by falling frequency; ``rows`` (n_classes,) numbers of rows; ``on``
    (n_causes, n_classes) numbers of rows of each class in which each cause is on; ``column`` the
    name of the column.
    """

    names: tuple[str, ...]
    rows: LongArray
    on: npt.NDArray[np.int64]
    column: str

    @property
    def share(self) -> FloatArray:
        """(n_causes, n_classes) of the rows with a cause on, the share in each class."""
        return np.asarray(self.on / np.maximum(self.on.sum(axis=1, keepdims=True), 1))

    @property
    def lift(self) -> FloatArray:
        """(n_causes, n_classes) how much more frequent a class is where the cause is on."""
        return np.asarray(self.share / (self.rows / self.rows.sum()))

    @property
    def leader(self) -> LongArray:
        """(n_causes,) the class with the largest lift, -1 where the cause is hardly ever on."""
        return np.where(self.on.sum(axis=1) >= _FEW, self.lift.argmax(axis=1), -1)


def classes_of(labels: Sequence[str], states: Any, column: str) -> Classes:
    """Count causes in classes.

    Parameters
    ----------
    labels : (n_rows,) class of every row; "" is unknown and left out.
    states : sparse (n_rows, n_causes), where causes are on.
    column : where the labels are from, for words and errors.
    """
    values = np.asarray(labels, dtype=np.str_)
    known = np.flatnonzero(values != "")
    found, number, rows = np.unique(values[known], return_inverse=True, return_counts=True)
    if len(found) > MOST_CLASSES:
        raise InvalidDataError(
            f"{column!r} has {len(found):,} different values, at most {MOST_CLASSES} can be "
            "classes; is it an id?"
        )
    if len(found) < 2:
        raise InvalidDataError(f"{column!r} has one value only, so there are no classes to tell")
    order = np.argsort(-rows, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    on = csr_of(states)[known].astype(np.int64)
    member = np.zeros((len(found), len(known)), dtype=np.int64)
    member[rank[number], np.arange(len(known))] = 1
    return Classes(
        tuple(str(found[k]) for k in order), rows[order], np.asarray((member @ on).T), column
    )


def class_section(classes: Classes, titles: list[str]) -> dict[str, Any]:
    """Values for the page: for each class its causes by lift, and a bar of classes per cause."""
    share, lift, leader = classes.share, classes.lift, classes.leader
    total = classes.on.sum(axis=1)
    groups = []
    for number, name in enumerate(classes.names):
        mine = np.flatnonzero(leader == number)
        mine = mine[np.lexsort((mine, -classes.on[mine, number]))][:_LISTED]
        covered = classes.on[mine, number].max() if len(mine) else 0
        groups.append(
            {
                "name": name,
                "colour": number % 8,
                "rows": int(classes.rows[number]),
                "covered": int(covered),
                "causes": [
                    {
                        "number": int(k),
                        "title": titles[k],
                        "share": float(share[k, number]),
                        "lift": float(lift[k, number]),
                        "on": int(total[k]),
                        "parts": [
                            {"colour": c % 8, "name": classes.names[c], "share": float(share[k, c])}
                            for c in range(len(classes.names))
                            if share[k, c] >= 0.005
                        ],
                    }
                    for k in mine.tolist()
                ],
            }
        )
    unled = bool((leader[total > 0] < 0).any())
    return {"column": classes.column, "groups": groups, "unled": unled}
