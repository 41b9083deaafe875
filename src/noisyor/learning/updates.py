"""One update of training, in two halves that are pure functions of their arguments.

`gradient` sums over the rows of a minibatch and can be computed anywhere, in parts that add up;
`update` turns the sum into new parameters. `step` does both.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Unpack

import numpy as np

from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, GradientSum
from noisyor.inference.method import BatchGradient, Method
from noisyor.learning import adam
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.priors import BetaPrior
from noisyor.learning.state import TrainingState
from noisyor.model.network import THETA_MAX, THETA_MIN, Network

__all__ = ["gradient", "init", "step", "update", "updated"]


def init(network: Network) -> TrainingState:
    """State before the first step; parameters below the floor are lifted to it.

    Examples
    --------
    >>> import noisyor as nor
    >>> state = nor.learning.init(nor.bipartite(n_visible=3, n_hidden=2))
    >>> state.step, state.theta.shape
    (0, (9,))
    """
    return TrainingState(0, np.maximum(network.theta, THETA_MIN), adam.init(network.n_params))


def gradient(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    *,
    seed: int = 0,
    key: Hashable = None,
    engine: EngineLike = "auto",
) -> BatchGradient:
    """First half of an update: sums over the rows of a minibatch, at the parameters of the state.

    The ``total`` of the parts of a minibatch add up (`GradientSum.plus`) to that of the whole.

    Parameters
    ----------
    state : from `init`, or from the update before.
    network : the graph; its own parameters are not looked at.
    batch : rows.
    method : how hidden states are inferred.
    seed : of the perturbations.
    key : which minibatch this is, for methods that start from where they left it (``state.warm``);
        None if it does not come again.
    engine : as in `explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> rows, state = nor.Observations.of(np.eye(2)), nor.learning.init(network)
    >>> total = nor.learning.gradient(state, network, rows, nor.MaxProduct()).total
    >>> total.gradient.shape, total.weight
    ((4,), 2.0)
    """
    current = network.with_theta(state.theta)
    warm = state.warm.get(key)
    return method.gradient(current, batch, seed=seed, step=state.step, warm=warm, engine=engine)


def update(
    state: TrainingState,
    network: Network,
    total: GradientSum,
    options: TrainOptions | None = None,
    *,
    prior: BetaPrior | None = None,
    **changes: Unpack[TrainChanges],
) -> TrainingState:
    """Second half of an update: one step of Adam on the mean gradient of the rows.

    Parameters
    ----------
    state : the state at which the gradient was taken.
    network : tells which parameters are free.
    total : sum over the rows of the minibatch, from `gradient`.
    options : of these ``learning_rate``, ``final_learning_rate``, ``steps`` and ``step_on``.
    prior : of the parameters, see `smoothing_prior`.
    changes : single options by name.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> state = nor.learning.init(network)
    >>> total = nor.engines.GradientSum(value=-3.0, gradient=np.ones(4), weight=2.0)
    >>> moved = nor.learning.update(state, network, total, learning_rate=0.1)
    >>> (moved.theta - state.theta).round(6)
    array([0.1, 0.1, 0.1, 0.1])
    """
    options = choose_options(options, changes)
    ascent = total.gradient / total.weight
    if prior is not None:
        with np.errstate(over="ignore"):  # a quotient by infinity is 0, as it should be
            ascent = ascent + prior.on / np.expm1(state.theta) - prior.off
    logs = options.step_on == "log"
    if logs:
        ascent = ascent * state.theta  # chain rule: d theta / d log theta = theta
    optimizer, move = adam.update(state.optimizer, ascent, options.rate(state.step))
    with np.errstate(over="ignore"):  # what a rate that is far too large leads to is cut below
        theta = state.theta * np.exp(move) if logs else state.theta + move
    theta = np.where(network.free, np.clip(theta, THETA_MIN, THETA_MAX), state.theta)
    return state._replace(step=state.step + 1, theta=theta, optimizer=optimizer)


def step(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    options: TrainOptions | None = None,
    *,
    prior: BetaPrior | None = None,
    key: Hashable = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> tuple[TrainingState, float]:
    """One update from one minibatch: `gradient`, then `update`.

    Parameters
    ----------
    state, network, batch, method, key, engine : see `gradient`.
    options, prior, changes : see `update`; the ``seed`` of the options is that of the gradient.

    Returns
    -------
    The new state, and the mean bound of the minibatch before the update.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> rows, state = nor.Observations.of(np.eye(2)), nor.learning.init(network)
    >>> state, elbo = nor.learning.step(state, network, rows, nor.MaxProduct())
    >>> state.step, elbo < 0
    (1, True)
    """
    options = choose_options(options, changes)
    found = gradient(state, network, batch, method, seed=options.seed, key=key, engine=engine)
    return updated(state, network, found, options, prior=prior, key=key)


def updated(
    state: TrainingState,
    network: Network,
    found: BatchGradient,
    options: TrainOptions,
    *,
    prior: BetaPrior | None = None,
    key: Hashable = None,
) -> tuple[TrainingState, float]:
    """What `step` returns, from a gradient that is there already."""
    after = update(state, network, found.total, options, prior=prior)
    if found.warm is not None and key is not None:
        after = after._replace(warm={**state.warm, key: found.warm})
    return after, found.total.value / found.total.weight
