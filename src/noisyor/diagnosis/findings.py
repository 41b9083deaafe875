"""Findings of one row: by name, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from noisyor.data.columns import suggest
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.model.graph import Network

__all__ = [
    "FindingState",
    "find_visible",
    "find_visibles",
    "present_findings",
    "state_of_finding",
    "with_finding",
]

FindingState = Literal["present", "absent", "unknown"]


def find_visible(network: Network, text: str) -> int:
    """Index of a visible node from its name, in any case if that is not ambiguous, or its number.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, visible_names=["Fever", "Cough"])
    >>> nor.diagnosis.find_visible(network, "cough")
    1
    """
    names = network.visible_names
    if names is not None:
        if text in names:
            return names.index(text)
        folded = [k for k, name in enumerate(names) if name.casefold() == text.casefold()]
        if len(folded) == 1:
            return folded[0]
    place = re.fullmatch(r"pixel (\d{1,9}),(\d{1,9})", text)
    if names is None and place and len(network.visible_shape) == 2:
        row, column = int(place[1]), int(place[2])
        if row < network.visible_shape[0] and column < network.visible_shape[1]:
            return row * network.visible_shape[1] + column
    number = text.removeprefix("column ")
    if number.isdecimal() and int(number) < network.n_visible:
        return int(number)
    if names is None:
        raise InvalidDataError(
            f"no finding {text!r}: the columns of this model have no names, give their numbers "
            f"0 to {network.n_visible - 1}"
        )
    raise InvalidDataError(f"no finding {text!r} in this model{suggest(text, names)}")


def find_visibles(network: Network, findings: Iterable[str | int]) -> list[int]:
    """Indices of visible nodes from their names or numbers.

    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, visible_names=["Fever", "Cough"])
    >>> nor.diagnosis.find_visibles(network, ["cough", 0])
    [1, 0]
    """
    if isinstance(findings, str):
        raise InvalidDataError(f"findings are a list of names, got the text {findings!r}")
    return [
        find_visible(network, item) if isinstance(item, str) else network.visible_index(item)
        for item in findings
    ]


def present_findings(row: Observations) -> npt.NDArray[np.int32]:
    """Indices of the visible nodes that are on in one row.

    >>> import noisyor as nor
    >>> nor.diagnosis.present_findings(nor.Observations.from_evidence(4, [1, 3])).tolist()
    [1, 3]
    """
    return row.columns[row.ptr[0] : row.ptr[1]]


def state_of_finding(row: Observations, finding: int) -> FindingState:
    """What is known of a finding in one row.

    Examples
    --------
    >>> import noisyor as nor
    >>> row = nor.Observations.from_evidence(4, present=[1], absent=[2])
    >>> [nor.diagnosis.state_of_finding(row, k) for k in (1, 2, 3)]
    ['present', 'absent', 'unknown']
    """
    if finding in present_findings(row):
        return "present"
    return "unknown" if finding in _unknown(row) else "absent"


def with_finding(row: Observations, finding: int, state: FindingState) -> Observations:
    """The row with one finding known otherwise.

    >>> import noisyor as nor
    >>> row = nor.Observations.from_evidence(3, present=[1])
    >>> nor.diagnosis.with_finding(row, 2, "absent").to_dense().tolist()
    [[nan, 1.0, 0.0]]
    """
    ones = set(present_findings(row).tolist()) - {finding}
    missing = set(_unknown(row).tolist()) - {finding}
    if state == "present":
        ones |= {finding}
    elif state == "unknown":
        missing |= {finding}
    return Observations.from_indices(
        [sorted(ones)], row.n_visible, missing=[sorted(missing)], row_ids=row.row_ids
    )


def _unknown(row: Observations) -> npt.NDArray[np.int32]:
    return row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]
