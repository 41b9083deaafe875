"""Maximum likelihood by sampling: expectation-maximisation with a Gibbs sampler.

The samples of perturbed max-product are not quite those of the posterior, and what is learned from
them inherits that: an edge that rarely fails ends with a failure probability far too small. A Gibbs
sampler that keeps its state from round to round draws from the posterior itself. Given the causes,
a round of expectation-maximisation has a closed form: the parents that could have switched a node
on share the credit. There is no rate to choose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import COUNT, NOT_NEGATIVE, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.noise import combine
from noisyor.engines.registry import Runner
from noisyor.inference.max_product import MaxProduct
from noisyor.network.graph import Network
from noisyor.network.parameters import THETA_MIN, probability_from_theta, theta_from_probability

__all__ = ["learn_by_gibbs"]

_SUREST = 1.0 - 1e-5
"""Largest probability that an estimate may give an edge, a noise or a prior."""

_NOISE_SHARE = 0.01
"""Share of the pseudo-rows in which a visible node came on by itself."""


_MOST_ROWS = 8
"""Rows that are the same and share a chain, at most."""


def learn_by_gibbs(
    network: Network,
    X: Any,
    *,
    sweeps: int = 60,
    smoothing: float = 0.5,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Network:
    """Estimate the free parameters of a network, from a start that is roughly right.

    Each round draws every hidden node of every row once, given all others, and takes one step of
    expectation-maximisation. The result is the mean of the second half of the rounds. A row of
    weight w counts as w rows. Up to eight rows that are the same share their draws.

    Parameters
    ----------
    network : graph and starting parameters; the first states are the modes under these.
    X : training data in any form that `Observations.of` takes; all rows are used in each round.
    sweeps : rounds, at least 1.
    smoothing : strength of the prior, in pseudo-rows: of an edge, in which its parent was on and
        the edge failed; of a hidden node, in half of which it was on; of a visible node, in hardly
        any of which it came on by itself.
    seed : key of the samples; those of a row depend on (seed, row id) alone.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import noisyor as nor
    >>> truth = nor.bipartite(4, 1, failure_probability=0.2, prior_probability=0.5)
    >>> start = nor.initialize(nor.bipartite(4, 1, fixed="noise"), (0.5, 0.3))
    >>> rows = nor.sample(truth, 300).visible
    >>> learned = nor.learning.learn_by_gibbs(start, rows, sweeps=20)
    >>> bool(abs(learned.failure_probability - 0.2).max() < 0.1)
    True
    """
    COUNT.check("sweeps", sweeps)
    NOT_NEGATIVE.check("smoothing", smoothing)
    rows = Observations.of(X, n_visible=network.n_visible)
    rows = _chains(rows)
    seed, evidence = check_seed(seed), Evidence.of(network, rows)
    states = MaxProduct().posterior(network, rows, engine=engine).states.toarray()
    states = np.ascontiguousarray(states, dtype=np.uint8)
    success = np.array([{"noise": _NOISE_SHARE, "prior": 0.5}.get(r, 0.0) for r in network.roles])
    total, n_averaged = np.zeros(network.n_params), 0
    with progress_bar(sweeps, "gibbs", "sweeps", progress) as bar:
        for number in range(sweeps):
            sampler, prepared = Runner(engine, network).on("gibbs_sweep")
            swept = sampler.gibbs_sweep(prepared, evidence, states, NoiseKey(seed, number))
            states, chance = swept.states, swept.chance + smoothing
            share = (swept.credit + smoothing * success) / np.where(chance > 0, chance, 1.0)
            network = _with_probability(network, share)
            if 2 * number >= sweeps - 1:
                total += probability_from_theta(network.theta)
                n_averaged += 1
            bar.update(1)
    return _with_probability(network, total / n_averaged)


def _chains(rows: Observations) -> Observations:
    """A row for each chain of the sampler, with the weight that falls to it.

    Credit uses probabilities, so that one chain may speak for several rows; but draws that count a
    thousandfold would make the rounds noisy. The first chain of a row has the id of the row, and
    so the draws that the row alone would have.
    """
    distinct, _ = rows.merged()
    if distinct.weights is None:
        return rows
    number = np.ceil(distinct.weights / _MOST_ROWS).astype(np.int64)
    index = np.repeat(np.arange(distinct.n_rows), number)
    copy = np.arange(len(index)) - np.repeat(np.cumsum(number) - number, number)
    ids = distinct.row_ids[index]
    ids = np.where(copy == 0, ids, combine(ids, copy).astype(np.int64))
    weights = (distinct.weights / number)[index]
    return Observations.of(distinct.take(index), row_ids=ids).weighted(weights)


def _with_probability(network: Network, probability: FloatArray) -> Network:
    theta = np.maximum(theta_from_probability(np.clip(probability, 0.0, _SUREST)), THETA_MIN)
    return network.with_theta(np.where(network.free, theta, network.theta))
