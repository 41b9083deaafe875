"""Explain rows: the causes that a network finds most likely for what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import FREE, EngineLike
from noisyor.errors import InvalidDataError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.inference.posterior import Posterior
from noisyor.model.graph import Network


def explain(
    network: Network,
    X: Any,
    method: Method | None = None,
    *,
    hidden: Mapping[str | int, int] | npt.ArrayLike | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Posterior:
    """Most likely causes of each row.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : how to infer; default ``MaxProduct(polish=20)``, the mode, polished.
    hidden : evidence on hidden nodes: a mapping from name or index to 0 or 1 that holds for all
        rows, or an array (n_rows, n_hidden) of 0, 1 and NaN for not observed.
    seed : key of the noise when the temperature is positive. The noise of a row depends on
        (seed, row id, node) alone, so results do not depend on the order or grouping of rows.
    engine : ``"auto"``, a name, or an engine such as ``NumbaEngine(n_threads=2)``.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Posterior with one explanation per row and sample.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> posterior = nor.explain(network, rows)
    >>> posterior.states.toarray()
    array([[1, 0],
           [0, 1]], dtype=uint8)
    """
    method = MaxProduct(polish=20) if method is None else method
    observations = Observations.of(X, n_visible=network.n_visible)
    return method.posterior(
        network,
        observations,
        seed=check_seed(seed),
        clamp=hidden_evidence(network, hidden, observations.n_rows),
        engine=engine,
        progress=progress,
    )


def hidden_evidence(network: Network, hidden: Any, n_rows: int) -> npt.NDArray[np.uint8] | None:
    """Evidence on hidden nodes as 0, 1 or unobserved, (n_rows or 1, n_hidden); None for none."""
    if hidden is None:
        return None
    if isinstance(hidden, Mapping):
        clamp = np.full((1, network.n_hidden), FREE, dtype=np.uint8)
        for name, value in hidden.items():
            if value not in (0, 1):
                raise InvalidDataError(f"hidden node {name!r} can be set to 0 or 1, not {value!r}")
            clamp[0, network.hidden_index(name)] = value
        return clamp
    values = np.asarray(hidden, dtype=np.float64)
    if values.shape != (n_rows, network.n_hidden):
        raise InvalidDataError(
            f"evidence on hidden nodes must have shape ({n_rows}, {network.n_hidden}), "
            f"got {values.shape}"
        )
    unknown = np.isnan(values)
    bad = ~(unknown | (values == 0) | (values == 1))
    if bad.any():
        row, column = (int(place[0]) for place in np.nonzero(bad))
        raise InvalidDataError(
            f"evidence on hidden nodes, row {row}, node {column}: expected 0, 1 or NaN, "
            f"got {values[row, column]}"
        )
    return np.where(unknown, FREE, np.nan_to_num(values)).astype(np.uint8)
