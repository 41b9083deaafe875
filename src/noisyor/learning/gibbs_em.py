"""Maximum likelihood by sampling: expectation-maximization with a Gibbs sampler.

Perturbed max-product draws only approximately from the posterior, which biases the parameters
learned from its samples: an edge that rarely fails gets a failure probability that is far too
small. A Gibbs sampler that keeps its state from round to round draws from the posterior itself.
Given the causes, a round of expectation-maximization has a closed form, in which the active parents
of a node share the success. There is no learning rate.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, NOT_NEGATIVE, check_choice, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.noise import combine
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidDataError
from noisyor.inference.max_product import MaxProduct
from noisyor.model.network import (
    THETA_MIN,
    Network,
    network_of,
    probability_from_theta,
    theta_from_probability,
)

_SUREST = 1.0 - 1e-5
"""Largest probability that an estimate may give an edge, a noise or a prior."""

_NOISE_SHARE = 0.01
"""Share of the pseudo-rows in which noise switches a visible node on."""

_MOST_ROWS = 8
"""Largest number of identical rows that share a chain."""


def learn_by_gibbs(
    network: Network,
    X: Any,
    *,
    sweeps: int = 60,
    smoothing: float = 0.5,
    smooth_to: Literal["failure", "frequency"] = "failure",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
) -> Network:
    """Estimate the free parameters of a network by Gibbs EM, from approximately correct ones.

    Each round draws every hidden node of every row once, given all others, and takes one step of
    expectation-maximization. The result is the mean of the second half of the rounds. A row of
    weight w counts as w rows. Up to eight identical rows share their draws.

    Parameters
    ----------
    network : graph and starting parameters; the first states are the modes under these.
    X : training data in any form that `Observations.of` takes; all rows are used in each round.
    sweeps : rounds, at least 1.
    smoothing : strength of the prior, in pseudo-rows. In the pseudo-rows of an edge its parent is
        on and the edge fails; a hidden node is on in half of its pseudo-rows; a visible node is on
        by itself in one of a hundred.
    smooth_to : what edges do in their pseudo-rows. ``"failure"``: they fail, which suits causes of
        a few columns. ``"frequency"``: they work so often that the parents that are on in an
        average row switch the column on as often as it is on, which suits causes that describe
        every column of a row.
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
    network, rounds = network_of(network), None
    try:
        rows = network.rows_of(X)
        chains = Chains(network, chain_rows(rows), engine=engine)
        rounds = GibbsRounds(network, chains, smoothing=smoothing, smooth_to=smooth_to, seed=seed)
        with progress_bar(sweeps, "gibbs", "sweeps", progress) as bar:
            return rounds.advance(sweeps, bar)
    except TimeUpError:
        return network if rounds is None else rounds.network


class Chains:
    """The chains of the sampler, which start from the modes of their rows.

    ``rows`` has one row for each chain, with weights, from `chain_rows`; ``states`` (n_chains,
    n_hidden).
    """

    def __init__(
        self, network: Network, rows: Observations, *, engine: EngineLike = "auto"
    ) -> None:
        if not rows.n_rows:
            raise InvalidDataError("there are no rows to learn from")
        self.rows, self._engine = rows, engine
        states = MaxProduct().posterior(network, self.rows, engine=engine).states.toarray()
        self.states: BinaryArray = np.ascontiguousarray(states, dtype=np.uint8)

    def sweep(self, network: Network, key: NoiseKey) -> tuple[FloatArray, FloatArray]:
        """Draw every hidden node once: successes and trials of parameters, (n_params,) each."""
        sampler, prepared = Runner(self._engine, network).on("gibbs_sweep")
        evidence = Evidence.of(network, self.rows)
        swept = sampler.gibbs_sweep(prepared, evidence, self.states, key)
        self.states = swept.states
        return swept.successes, swept.trials

    def share_on(self) -> FloatArray:
        """Return the share of the rows in which each hidden node is on, (n_hidden,)."""
        # einsum, because the last bits of a BLAS product depend on the number of threads
        on: FloatArray = np.einsum("r,rk->k", self.rows.row_weights, self.states)
        return on / self.rows.total_weight


class GibbsRounds:
    """Rounds of expectation-maximization that can be stopped, inspected and continued.

    ``network`` is the network after the rounds so far; ``number`` counts them.
    """

    def __init__(
        self,
        network: Network,
        chains: Chains,
        *,
        smoothing: float = 0.5,
        smooth_to: Literal["failure", "frequency"] = "failure",
        seed: int = 0,
    ) -> None:
        """See `learn_by_gibbs`."""
        NOT_NEGATIVE.check("smoothing", smoothing)
        check_choice("smooth_to", smooth_to, ("failure", "frequency"))
        self.network, self.chains = network, chains
        self._seed, self.number = check_seed(seed), 0
        self._smoothing, roles = smoothing, network.roles
        self._success: FloatArray = np.select(
            [roles == "noise", roles == "prior"], [_NOISE_SHARE, 0.5], 0.0
        )
        self._frequency = _frequency(chains.rows) if smooth_to == "frequency" else None

    def advance(self, n_rounds: int, bar: Any = None) -> Network:
        """Run some rounds and return the mean of the parameters over their second half."""
        total, n_counted = np.zeros(self.network.n_params), 0
        for n_done in range(n_rounds):
            probability = self._once()
            if 2 * n_done >= n_rounds - 1:
                total, n_counted = total + probability, n_counted + 1
            if bar is not None:
                bar.update(1)
        return self.with_probability(total / n_counted)

    def _once(self) -> FloatArray:
        """Do one round and return the probabilities of the parameters, (n_params,)."""
        key = NoiseKey(self._seed, self.number)
        successes, trials = self.chains.sweep(self.network, key)
        self.number += 1
        successes = successes + self._smoothing * self._pseudo_success()
        trials = trials + self._smoothing
        self.network = self.with_probability(successes / np.where(trials > 0, trials, 1.0))
        return probability_from_theta(self.network.theta)

    def _pseudo_success(self) -> FloatArray:
        """Return the share of pseudo-rows in which each parameter succeeds, (n_params,)."""
        if self._frequency is None:
            return self._success
        # With m parents on, a column is on with 1 - (1 - s)^m if each edge works with s. If every
        # edge worked as often as the column is on, rows with many causes would have too many ones.
        network = self.network
        visible = slice(0, network.n_visible)
        is_on = self.chains.share_on()[network.parent]
        n_on = np.bincount(network.edge_child, is_on, network.n_nodes)[visible]
        works = np.zeros(network.n_nodes)
        works[visible] = -np.expm1(np.log1p(-self._frequency) / np.maximum(n_on, 1.0))
        n_edges = np.bincount(network.param, minlength=network.n_params)
        total = np.bincount(network.param, works[network.edge_child], network.n_params)
        return np.where(n_edges > 0, total / np.maximum(n_edges, 1), self._success)

    def with_probability(self, probability: FloatArray) -> Network:
        """Return the network with these probabilities, clipped, where parameters are free."""
        theta = theta_from_probability(np.clip(probability, 0.0, _SUREST))
        theta = np.where(self.network.free, np.maximum(theta, THETA_MIN), self.network.theta)
        return self.network.with_theta(theta)


def _frequency(rows: Observations) -> FloatArray:
    """Return the share of ones among the observed entries of each column, (n_visible,)."""
    seen = rows.total_weight - rows.missing_csr().T @ rows.row_weights
    ones = np.asarray(rows.to_csr().T @ rows.row_weights, dtype=float)
    return np.asarray(np.minimum(ones / np.maximum(seen, 1e-9), _SUREST))


def chain_rows(rows: Observations) -> Observations:
    """Return one row per chain of the sampler, with its weight.

    Expected counts use probabilities, so one chain may stand for several rows; but draws with a
    weight of a thousand would make the rounds noisy. The first chain of a row has the id of the
    row, and therefore the same draws as the row by itself.
    """
    distinct, _ = rows.unique_rows()
    if distinct.weights is None:
        return rows
    number = np.ceil(distinct.weights / _MOST_ROWS).astype(np.int64)
    index = np.repeat(np.arange(distinct.n_rows), number)
    copy = np.arange(len(index)) - np.repeat(np.cumsum(number) - number, number)
    ids = distinct.row_ids[index]
    ids = np.where(copy == 0, ids, combine(ids, copy).astype(np.int64))
    weights = (distinct.weights / number)[index]
    return Observations.of(distinct.take(index), row_ids=ids).with_weights(weights)
