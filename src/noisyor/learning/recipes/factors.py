"""Hidden causes of a binary table, each a set of columns that it switches on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack

from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.starts import start_by_search
from noisyor.network.builders import bipartite

__all__ = ["learn_factors"]


def learn_factors(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    init: str = "data",
    noise: Literal["shared", "per_visible"] = "per_visible",
    n_restarts: int = 12,
    n_extra: int = 16,
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Boolean matrix factorisation: hidden causes, each a set of columns that it switches on.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_components : number of hidden nodes; ``"auto"`` finds it.
    init : ``"data"`` searches the data for factors (see `search_factors`) and fine-tunes them,
        unless counts determine the parameters; the network then has at most `n_components` hidden
        nodes, those supported by the data (MDL). Or the name of one of the paper's starts, see
        `initialize`, with `n_components` hidden nodes.
    noise : one noise probability for all columns, or one for each.
    n_restarts : of the search, at most.
    n_extra : further factors to search for, given a thousand rows or more. If they are supported by
        the data, all are trained for a while, and the `n_components` without which the bound falls
        most are kept.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> fitted = nor.learn_factors(X, "auto", n_restarts=2, progress=False)
    >>> fitted.network.failure_probability.round() + 0.0
    array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]])
    """
    defaults = replace(DEFAULTS, steps=4000, batch_size=20, learning_rate=3e-3)
    if init == "data":
        defaults = replace(
            DEFAULTS, steps=200, learning_rate=1e-3, final_learning_rate=1e-4, smoothing=0.5
        )
    also = ("init", "noise", "n_restarts", "n_extra", "method", "options", "held_out", "engine")
    chosen = choose_options(options, changes, defaults, also)
    check_place(chosen.checkpoint)
    observations = Observations.of(X)
    if init == "data":
        network, settled = start_by_search(
            observations,
            n_components,
            noise=noise,
            n_restarts=n_restarts,
            n_extra=n_extra,
            seed=chosen.seed,
            engine=engine,
            progress=chosen.progress,
        )
        if settled and options is None and "steps" not in changes:
            chosen = replace(chosen, steps=0)
    else:
        if isinstance(n_components, str):
            raise InvalidSettingError('the number of causes is found with init="data" only')
        network = bipartite(observations.n_visible, n_components, noise=noise)
        network = initialize(network, init, noise="uniform", seed=chosen.seed)
    method = MaxProduct(temperature=1.0) if method is None else method
    fitted = learn_network(network, observations, method, chosen, held_out=held_out, engine=engine)
    return replace(fitted, settings={"init": init, "noise": noise, **fitted.settings})
