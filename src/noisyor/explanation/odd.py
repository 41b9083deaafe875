"""Odd rows: the rows with the lowest log-probability, and their least likely entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisyor._util.validation import check_count, check_seed
from noisyor.engines.contract import EngineLike
from noisyor.inference.sampling import log_probability, predict_visible
from noisyor.model.names import visible_label
from noisyor.model.network import FittedModel, Network, network_of

_MAX_PROBABILITY = 0.5
"""An entry is surprising if its value has a smaller probability than this."""


@dataclass(frozen=True)
class OddEntry:
    """A surprising entry: its value is unlikely given all other entries of the row.

    Attributes
    ----------
    column : index of the column.
    name : name of the column.
    value : 0 or 1.
    probability : probability of this value, given all other observed entries of the row.
    """

    column: int
    name: str
    value: int
    probability: float


@dataclass(frozen=True)
class OddRow:
    """A row with a low log-probability.

    Attributes
    ----------
    row : index of the row.
    log_p : log-probability of the row, in nats.
    entries : surprising entries, the least likely first.
    """

    row: int
    log_p: float
    entries: tuple[OddEntry, ...]


def odd_rows(
    model: Network | FittedModel,
    X: Any,
    n: int = 10,
    *,
    n_entries: int = 5,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> list[OddRow]:
    """Rank the rows with the lowest log-probability, and list their most surprising entries.

    Rows with many ones have a low log-probability in most models. The entries show whether a row
    also has unusual values: an entry is listed if its value has a probability below one half, given
    all other entries of the row.

    Parameters
    ----------
    model : a network or a fitted estimator.
    X : observations (n_rows, n_visible) in any form that `Observations.of` takes.
    n : rows to list, at most.
    n_entries : entries to list of each row, at most.
    seed : key of the samples, where log p and probabilities are estimated.
    engine : as in `explain`.

    Returns
    -------
    The oddest rows, the least likely first. Rows that are equally likely keep their order.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(
    ...     4, 2, failure_probability=[[0.1, 0.1, 1, 1], [1, 1, 0.1, 0.1]], prior_probability=0.3
    ... )
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]])
    >>> odd = nor.explanation.odd_rows(network, X, n=1, n_entries=1)[0]
    >>> odd.row, [(entry.name, entry.value) for entry in odd.entries]
    (1, [('column 2', 1)])
    """
    n, n_entries = check_count("n", n), check_count("n_entries", n_entries)
    network = network_of(model)
    seed, rows = check_seed(seed), network.rows_of(X)
    log_p = log_probability(network, rows, seed=seed, engine=engine).per_row
    chosen = np.argsort(log_p, kind="stable")[:n]
    some = rows.take(chosen)
    value = some.to_dense().astype(np.float64)
    on = predict_visible(network, some, seed=seed, engine=engine).probability
    probability = np.where(value == 1, on, 1.0 - on)
    probability[np.isnan(value)] = 1.0  # missing entries are never listed
    found = []
    for index, row in enumerate(chosen.tolist()):
        order = np.argsort(probability[index], kind="stable")[:n_entries]
        entries = tuple(
            OddEntry(
                int(i),
                visible_label(network, int(i)),
                int(value[index, i]),
                float(probability[index, i]),
            )
            for i in order
            if probability[index, i] < _MAX_PROBABILITY
        )
        found.append(OddRow(row, float(log_p[row]), entries))
    return found
