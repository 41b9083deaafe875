"""What every recipe returns, and the plainest recipe: train a network that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

from noisyor.engines.contract import EngineLike
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.state import History
from noisyor.learning.train import train
from noisyor.model.network import Network

__all__ = ["DEFAULTS", "FitResult", "learn_network"]

DEFAULTS = TrainOptions(steps=1000, batch_size=100, learning_rate=0.01)


@dataclass(frozen=True, eq=False)
class FitResult:
    """A learned network, the record of its training, and the settings that made it (for JSON).

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> fitted = nor.learn_factors(X, 2, n_restarts=1, progress=False)
    >>> fitted.network.n_hidden, fitted.settings["seed"]
    (2, 0)
    """

    network: Network
    history: History
    settings: dict[str, Any]


def learn_network(
    network: Network,
    X: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Train any network from its present parameters.

    Parameters
    ----------
    network : graph and starting parameters.
    X : training data in any form that `Observations.of` takes.
    method : how hidden states are inferred; default ``MaxProduct()``.
    options, changes : how to train; default 1000 steps of 100 rows at a rate of 0.01.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> fitted = nor.learn_network(
    ...     nor.bipartite(n_visible=2, n_hidden=1), np.eye(2), steps=3, progress=False
    ... )
    >>> fitted.settings["steps"], len(fitted.history.elbo)
    (3, 3)
    """
    options = choose_options(options, changes, DEFAULTS)
    method = MaxProduct() if method is None else method
    result = train(network, X, method, options, held_out=held_out, engine=engine)
    steps = result.state.step if options.steps is None else options.steps
    settings = {"method": method.settings(), **options.record(), "steps": steps}
    return FitResult(result.network, result.history, settings)
