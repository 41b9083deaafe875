"""The bounds that training climbs, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.sparse import dense_of
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidDataError
from noisyor.inference.method import Gradient
from noisyor.inference.posterior import Posterior
from noisyor.model.graph import Network


def log_joint(
    network: Network, states: Any, X: Any, engine: EngineLike = "auto"
) -> npt.NDArray[np.float64]:
    """Exact ``log p(h, x)`` per row, unobserved visibles summed out.

    Parameters
    ----------
    network : the network.
    states : (n_rows, n_hidden) of 0/1, dense or sparse.
    X : observations of the same rows.
    engine : ``"auto"``, a name, or an engine such as ``NumbaEngine(n_threads=2)``.

    Returns
    -------
    (n_rows,) float64.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.inference.log_joint(network, [[1, 0]], rows[:1]).round(2)
    array([-1.78])
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    dense = _dense_states(states, network, observations.n_rows)
    judge, prepared = Runner(engine, network).on("log_joint")
    return judge.log_joint(prepared, Evidence.of(network, observations), dense)


def elbo_mp(posterior: Posterior) -> npt.NDArray[np.float64]:
    """Elbo^MP of every row: the bound on ``log p(x)`` that the explanations of the row give.

    With one explanation it is ``log p(h, x)``. With S samples it is their mean plus the entropy of
    their empirical distribution. Shape (n_rows,).

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.inference.elbo_mp(nor.explain(network, rows[:1])).round(2)
    array([-1.78])
    """
    if posterior.n_samples == 1:
        return posterior.log_joint
    values = posterior.log_joint.reshape(posterior.n_rows, posterior.n_samples)
    entropy = [_empirical_entropy(posterior, row) for row in range(posterior.n_rows)]
    return np.asarray(values.mean(axis=1) + np.array(entropy))


def elbo_mp_gradient(
    network: Network, X: Any, states: Any, engine: EngineLike = "auto"
) -> Gradient:
    """Weighted mean over rows of ``log p(h, x)`` and its gradient with the states held fixed.

    Parameters
    ----------
    network : the network.
    X : observations, n_rows of them.
    states : (n_rows * n_samples, n_hidden), samples of a row next to each other.
    engine : as in `log_joint`.

    Returns
    -------
    Gradient: the mean, and an array (n_params,) that sums over all edges tied to an entry and is
    zero where the entry is fixed.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> found = nor.inference.elbo_mp_gradient(network, rows[:1], [[1, 0]])
    >>> found.gradient.shape == (network.n_params,)
    True
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    dense = _dense_states(states, network, observations.n_rows, several=True)
    judge, prepared = Runner(engine, network).on("log_joint_gradient")
    total = judge.log_joint_gradient(prepared, Evidence.of(network, observations), dense)
    return Gradient(
        total.value / total.weight, np.where(network.free, total.gradient / total.weight, 0.0)
    )


def _empirical_entropy(posterior: Posterior, row: int) -> float:
    samples = [posterior.active(row, s).tobytes() for s in range(posterior.n_samples)]
    counts = np.unique(np.array(samples, dtype=object), return_counts=True)[1]
    share = counts / posterior.n_samples
    return float(-(share * np.log(share)).sum())


def _dense_states(
    states: Any, network: Network, n_rows: int, several: bool = False
) -> npt.NDArray[np.uint8]:
    n_hidden, dense = network.n_hidden, dense_of(states)
    fits = dense.ndim == 2 and dense.shape[1] == n_hidden
    if fits and several:
        fits = len(dense) > 0 and len(dense) % n_rows == 0
    elif fits:
        fits = len(dense) == n_rows
    if not fits:
        raise InvalidDataError(
            f"states must have shape ({n_rows}, {n_hidden}), got {np.shape(dense)}"
        )
    if not np.isin(dense, (0, 1)).all():
        raise InvalidDataError("states must be 0 or 1")
    network.sets.check_states(dense, "states")
    return np.ascontiguousarray(dense, dtype=np.uint8)
