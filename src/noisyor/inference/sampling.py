"""Posterior quantities beyond the mode: log p of rows, marginals of causes, predictions.

There are two estimators, both exact if there are few hidden states. `explore_configurations`
collects a set of likely configurations of each row and estimates the probability outside the set by
annealed importance sampling. It gives bounds and estimates of ``log p(x)``, and marginals of
causes. `WeightedStates` collects states by Gibbs sampling and weighs them by their exact
probability. It gives predictions of visible nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

from noisyor._util.arrays import (
    BinaryArray,
    BoolArray,
    FloatArray,
    LongArray,
    log_expm1,
    log_one_minus_exp,
)
from noisyor._util.validation import check_choice, check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import (
    AnnealingOptions,
    AnnealingResult,
    EngineLike,
    Evidence,
    NoiseKey,
    TemperingResult,
)
from noisyor.engines.noise import combine, mix, uniform
from noisyor.engines.registry import Runner, get_engine
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import Score, clamp_of
from noisyor.inference.exact import average_by_row, hidden_configurations, log_joint_table
from noisyor.inference.max_product import ICM_SWEEPS, MaxProduct
from noisyor.inference.method import Posterior, row_blocks
from noisyor.model.forward import total_parameter
from noisyor.model.network import FittedModel, Network, network_of

Clamp = npt.NDArray[np.uint8] | None
MarginalMethod = Literal["auto", "exact", "chains", "set"]
METHODS: tuple[MarginalMethod, ...] = get_args(MarginalMethod)
PredictionMethod = Literal["auto", "exact", "samples"]

_MAX_CONFIGURATIONS = 2**14
_MAX_CELLS = 4_000_000
"""Configurations, and configurations times visible nodes, up to which a network is enumerated."""

_BLOCK_ROWS = 256
_BLOCK_BYTES = 64 * 2**20
"""Rows that are sampled at a time, and the size of their dense arrays."""

_N_STAY = 4
"""Sweeps at the posterior of each chain of `estimate_evidence`."""

_EFFORT: dict[str, Any] = {"n_samples": 8, "n_expansions": 16, "n_chains": 8, "n_steps": 16}
_EFFORT_IF_LARGE: dict[str, Any] = {"n_samples": 4, "n_expansions": 8, "n_chains": 4, "n_steps": 16}
_LARGE = 5000
"""Number of edges above which a network is large. A row takes one to three milliseconds below,
about twelve above."""

_PILOT_STEPS, _STEPS, _CHAINS = 16, 64, 8
"""Steps of the chains of `_tempered`, in the runs that find where chains start and in the estimate,
and number of chains. On networks of 20 and 50 causes the estimate was at most 0.03 nats below long
annealing."""

_START_ERROR = 0.25
"""Chains start with every node on and off with at least this probability over the number of nodes:
with more, weights would vary too much; with less, chains would explore too little."""

_MIN_FILLED = 0.25
"""Networks of one layer with at least this share of all edges are scored by chains alone."""

_N_CHAINS = 8
"""Gibbs chains of a row for `predict_visible`."""

_COLLECT, _SETTLE = 8, 2
"""Sweeps of the first phase, and sweeps of the second before its draws count."""

_LEAST = 1e-9
"""Smallest noise and failure probability of sampled networks, so that every row has a positive
probability and chains mix. Dividing by the probability of an entry removes their effect."""

_LEAST_IF_EXACT = 1e-100
"""Smallest noise if states are enumerated: negligible, but with a finite logarithm."""

_MOST_TOTAL = 600.0
"""Largest total parameter whose exponential, and its inverse, are normal numbers."""

_NEGLIGIBLE = 1e-13
"""Smallest mass of a state that is used."""

_BLOCK_CELLS = 2**21


# ---- sets of likely configurations, and chains outside them


def find_starts(
    network: Network,
    observations: Observations,
    n_samples: int,
    *,
    clamp: Clamp = None,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> tuple[Posterior, BinaryArray]:
    """Find the mode, refined by ICM, and posterior samples of every row by max-product.

    Returns the mode, and the states of mode and samples of each row in turn,
    (n_rows * (1 + n_samples), n_hidden). ``clamp`` as in `MaxProduct.posterior`.
    """
    mode = MaxProduct(icm=ICM_SWEEPS).posterior(network, observations, clamp=clamp, engine=engine)
    found = [mode]
    if n_samples:
        sampler = MaxProduct(temperature=1.0, n_samples=n_samples)
        found.append(
            sampler.posterior(network, observations, seed=seed, clamp=clamp, engine=engine)
        )
    shape = (observations.n_rows, -1, network.n_hidden)
    states = np.concatenate([each.states.toarray().reshape(shape) for each in found], axis=1)
    return mode, np.ascontiguousarray(states.reshape(-1, network.n_hidden), dtype=np.uint8)


def explore_configurations(
    network: Network,
    observations: Observations,
    *,
    n_samples: int = 16,
    n_expansions: int,
    n_chains: int = 0,
    n_steps: int = 1,
    n_stay: int = 1,
    hidden: Any = None,
    with_probability: bool = False,
    starts: BinaryArray | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> AnnealingResult:
    """Collect likely configurations of every row, and run chains outside them.

    ``starts`` are the states that `find_starts` returned for all rows, if known; ``n_samples`` then
    has no effect.
    """
    check_count("n_samples", n_samples, 0)
    check_count("n_expansions", n_expansions, 0)
    check_count("n_steps", n_steps, 1)
    if n_chains != 0:
        check_count("n_chains", n_chains, 2)
    key = NoiseKey(check_seed(seed))
    clamp = clamp_of(network, hidden, observations.n_rows)
    runner = Runner(engine, network)
    annealer, prepared = runner.on("anneal")
    options = AnnealingOptions(int(n_expansions), int(n_chains), int(n_steps), int(n_stay))
    row_bytes, done, parts = network.n_hidden * (1 + n_samples), 0, []
    n_starts = 0 if starts is None else len(starts) // observations.n_rows
    for rows, fixed in row_blocks(
        observations, clamp, row_bytes, progress, task="explore", max_rows=_BLOCK_ROWS
    ):
        if starts is None:
            _, states = find_starts(
                network, rows, n_samples, clamp=fixed, seed=key.seed, engine=engine
            )
        else:
            states = starts[done * n_starts : (done + rows.n_rows) * n_starts]
        done += rows.n_rows
        evidence = Evidence.of(network, rows, fixed)
        parts.append(
            annealer.anneal(
                prepared, evidence, states, options, key, with_probability=with_probability
            )
        )
    return AnnealingResult(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


# ---- log p of rows


@dataclass(frozen=True, eq=False)
class EvidenceBound(Score):
    """A lower bound on ``log p(x)`` from a set of configurations of the causes.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` as in `Score`; ``n_configurations``
    (n_rows,) size of each row's set. Causes that are independent of all others given the row are
    summed out and not counted.
    """

    n_configurations: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LogProbability(Score):
    """``log p`` of rows, in nats; exact, or an estimate, which is not a bound.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` (spread of the rows) as in `Score`;
    ``error`` (n_rows,) standard error of each row's estimate, from the spread of its chains, zero
    if exact; ``bound`` (n_rows,) lower bound from a set of explanations; ``exact`` whether all
    hidden states were enumerated.
    """

    error: FloatArray
    bound: FloatArray
    exact: bool

    @property
    def mean_error(self) -> float:
        """Standard error of ``mean`` as an estimate for these very rows."""
        weights = np.ones(len(self.error)) if self.weights is None else self.weights
        return float(np.sqrt(((weights * self.error) ** 2).sum()) / weights.sum())

    @property
    def bound_mean(self) -> float:
        """Mean of the bound over rows."""
        return float(np.average(self.bound, weights=self.weights))


def evidence_bound(
    network: Network | FittedModel,
    X: Any,
    *,
    n_samples: int = 16,
    n_expansions: int = 32,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> EvidenceBound:
    """Bound the log-likelihood of every row from below by ``log sum_{h in S} p(h, x)``.

    S holds the mode refined by ICM, samples of perturb-and-max-product, and all single flips of the
    ``n_expansions`` most likely members found so far. The bound is at least Elbo^MP at the same
    mode, never falls as ``n_expansions`` grows, and is exact if S is complete.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : observations in any form that `Observations.of` takes; unobserved visibles are summed out.
    n_samples : posterior samples in S.
    n_expansions : members whose single flips are added to S.
    hidden : evidence on hidden nodes as in `explain`; the bound is then on ``log p(x, hidden)``.
    seed : key of the samples.
    engine, progress : as in `explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> bound = nor.evidence_bound(network, row)
    >>> bound.n_configurations  # all there are: the bound is exact
    array([4])
    """
    network = network_of(network)
    observations = network.rows_of(X)
    run: dict[str, Any] = {"hidden": hidden, "seed": seed, "engine": engine, "progress": progress}
    size: dict[str, Any] = {"n_samples": n_samples, "n_expansions": n_expansions}
    found = explore_configurations(network, observations, **size, **run)
    return EvidenceBound(found.log_sum, found.size, weights=observations.weights)


def estimate_evidence(
    network: Network | FittedModel,
    X: Any,
    *,
    n_chains: int = 32,
    n_steps: int = 32,
    n_expansions: int = 16,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> LogProbability:
    """Estimate ``log p(x)`` of every row by annealed importance sampling, with standard errors.

    Each chain starts from independent causes with their probabilities under a small set of likely
    configurations, and moves to the posterior by Gibbs sweeps. The average weight of the chains is
    an unbiased estimate of ``p(x)``.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : observations in any form that `Observations.of` takes; unobserved visibles are summed out.
    n_chains : independent chains per row, at least 2; the error falls with their square root.
    n_steps : sweeps of each chain; more of them make the weights more even.
    n_expansions, hidden, seed, engine, progress : as in `evidence_bound`; with evidence on hidden
        nodes the estimate is of ``log p(x, hidden)``.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> estimate = nor.estimate_evidence(network, row)
    >>> round(estimate.mean, 2)
    -2.61
    """
    network = network_of(network)
    observations = network.rows_of(X)
    run: dict[str, Any] = {"hidden": hidden, "seed": seed, "engine": engine, "progress": progress}
    chains: dict[str, Any] = {"n_chains": n_chains, "n_steps": n_steps, "n_stay": _N_STAY}
    found = explore_configurations(
        network, observations, n_expansions=n_expansions, **chains, **run
    )
    parts = found.log_evidence, found.log_error, found.log_sum
    return LogProbability(*parts, exact=False, weights=observations.weights)


def log_probability(
    network: Network | FittedModel,
    X: Any,
    *,
    n_chains: int = _CHAINS,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> LogProbability:
    """Compute ``log p`` of every row: exactly if there are few hidden states, else an estimate.

    Equal rows get equal values, independently of the other rows. Unobserved visibles are summed
    out.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : rows in any form that `Observations.of` takes.
    n_chains : chains per row of an estimate, at least 2, for networks of one layer with most of the
        possible edges. Two are enough to compare networks by the mean over hundreds of rows.
    seed : key of the samples; those of a row depend on the seed and on the content of the row.
    engine, progress : as in `explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> found = nor.inference.log_probability(network, np.array([[1, 1, 0], [0, 0, 1]]))
    >>> found.exact, found.per_row.round(2)
    (True, array([-2.61, -2.44]))
    """
    seed = check_seed(seed)
    check_count("n_chains", n_chains, 2)
    network = network_of(network)
    observations = network.rows_of(X)
    rows, numbers = observations.unique_rows()
    engine = get_engine(engine)
    exact = few_configurations(network)
    if exact:
        states = hidden_configurations(network.n_hidden)
        blocks = row_blocks(rows, None, 8 * len(states), progress, task="enumerate")
        tables = (
            log_joint_table(network, states, some.to_dense().astype(float)) for some, _ in blocks
        )
        value = np.concatenate([logsumexp(table, axis=1) for table in tables])[numbers]
        error, bound = np.zeros(len(value)), value
    elif _is_dense(network):
        rows = Observations.of(rows.with_weights(None), row_ids=content_ids(rows))
        blocks = row_blocks(rows, None, 8 * n_chains * network.n_hidden, progress, task="anneal")
        tempered = [_tempered(network, some, n_chains, seed, engine) for some, _ in blocks]
        value, error, bound = np.concatenate(tempered, axis=1)[:, numbers]
    else:
        found = explore_configurations(
            network,
            Observations.of(rows.with_weights(None), row_ids=content_ids(rows)),
            **(_EFFORT if network.n_edges < _LARGE else _EFFORT_IF_LARGE),
            seed=seed,
            engine=engine,
            progress=progress,
        )
        parts = (found.log_evidence, found.log_error, found.log_sum)
        value, error, bound = (part[numbers] for part in parts)
    return LogProbability(value, error, bound, exact, weights=observations.weights)


def _is_dense(network: Network) -> bool:
    """Return whether the network has one layer and most of its possible edges."""
    n_possible = network.n_visible * network.n_hidden
    return network.n_layers == 1 and network.n_edges >= _MIN_FILLED * n_possible


def _tempered(
    network: Network, rows: Observations, n_chains: int, seed: int, engine: EngineLike
) -> FloatArray:
    """Estimate log p of rows by chains; return estimates, errors and bounds, (3, n_rows).

    A first run of short chains estimates the probability of every hidden node. The second run
    starts from independent nodes with these probabilities. The mean of its weights is unbiased.
    The logarithm of a mean is too low by half its relative variance, to first order, which is
    added. The bound is log p(h, x) of the mode.
    """
    posterior = MaxProduct().posterior(network, rows, engine=engine)
    annealer, prepared = Runner(engine, network).on("temper")
    evidence = Evidence.of(network, rows)
    least = _START_ERROR / network.n_hidden

    def run(first: FloatArray, n_steps: int, step: int) -> TemperingResult:
        key, first = NoiseKey(int(combine(seed, step))), np.clip(first, least, 1.0 - least)
        return annealer.temper(prepared, evidence, first, n_chains, n_steps, key)

    # Chains from the mode find rare causes, chains from the prior find other explanations.
    modes = np.asarray(posterior.states.toarray(), dtype=np.float64)
    prior = np.tile(network.prior_probability, (rows.n_rows, 1))
    pilots = [run(0.8 * modes + 0.2 * prior, _PILOT_STEPS, 0), run(prior, _PILOT_STEPS, 1)]
    # The square root keeps a single chain from deciding alone.
    share = softmax(0.5 * np.hstack([pilot.log_weight for pilot in pilots]), axis=1)
    chances = np.concatenate([pilot.probability for pilot in pilots], axis=1)
    found = run(np.einsum("rc,rck->rk", share, chances), _STEPS, 2)
    log_mean = logsumexp(found.log_weight, axis=1) - np.log(n_chains)
    weight = np.exp(found.log_weight - log_mean[:, None])
    variance = weight.var(axis=1, ddof=1) / n_chains
    return np.array([log_mean + 0.5 * variance, np.sqrt(variance), posterior.log_joint])


# ---- probabilities of causes


@dataclass(frozen=True, eq=False)
class Marginals:
    """Posterior probabilities of the causes of every row.

    Attributes
    ----------
    probability : (n_rows, n_hidden) that each cause is on, given the row.
    error : (n_rows, n_hidden) standard error from the finite number of samples; NaN where the
        method gives none. Zero for causes that are independent of all others given the row,
        whose probability is exact.
    method : how they were estimated.
    """

    probability: FloatArray
    error: FloatArray
    method: MarginalMethod

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.probability)


def marginals(
    network: Network | FittedModel,
    X: Any,
    method: MarginalMethod = "auto",
    *,
    n_samples: int = 64,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Marginals:
    """Compute the posterior probability of each cause of every row: exactly, or an estimate.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : ``"auto"``: exact if there are few hidden states, else ``"chains"``. ``"exact"``: all
        hidden states are enumerated. ``"chains"``: exact weights on a set of likely configurations,
        and chains of annealed importance sampling for the rest; the most accurate estimate, with
        calibrated errors. ``"set"``: the set alone; fast, no errors.
    n_samples : number of chains, and of members of the set whose single flips are added.
    hidden, engine, progress : as in `explain`.
    seed : key of the samples; those of a row depend on (seed, row id) alone.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> nor.marginals(network, np.array([[1, 1, np.nan]])).probability.round(2)
    array([[1. , 0.1]])
    """
    check_choice("method", method, METHODS)
    check_count("n_samples", n_samples, 2)
    engine = get_engine(engine)
    network = network_of(network)
    observations = network.rows_of(X)
    if method == "auto":
        method = "exact" if few_configurations(network) else "chains"
    if method == "exact":
        check_seed(seed)
        clamp = clamp_of(network, hidden, observations.n_rows)
        parts = _enumerated(_possible(network, True), observations, clamp, progress)
        exact = np.concatenate([found.average(found.states) for found in parts])
        return Marginals(exact, np.zeros_like(exact), method)
    found = explore_configurations(
        network,
        observations,
        n_expansions=n_samples,
        **(chain_settings(n_samples) if method == "chains" else {}),
        hidden=hidden,
        with_probability=True,
        seed=seed,
        engine=engine,
        progress=progress,
    )
    error = found.error if method == "chains" else np.full_like(found.error, np.nan)
    return Marginals(found.probability, error, method)


def chain_settings(n_chains: int) -> dict[str, Any]:
    """Return the arguments of `explore_configurations` for probabilities by chains."""
    return {"n_chains": n_chains, "n_steps": 16, "n_stay": 8}


# ---- the posterior as states with masses
#
# Small networks are enumerated. For others, Gibbs chains collect states in a first phase. The exact
# ``p(h, x)`` divides the posterior among these states, so that it does not matter how long a chain
# stayed where. Chains of a second phase start from them and estimate how much lies outside.


class WeightedStates(NamedTuple):
    """States of the causes, and their posterior probabilities given some rows.

    ``rows`` the rows; ``states`` (n_states, n_hidden); ``mass`` (n_rows, n_states), dense or
    sparse, sums to one in every row; ``log_mass`` (n_rows, n_states) its logarithm where all states
    were enumerated, else None.
    """

    rows: Observations
    states: BinaryArray
    mass: Any
    log_mass: FloatArray | None = None

    def average(self, values: npt.NDArray[Any]) -> FloatArray:
        """Return the posterior means (n_rows, m) of values (n_states, m)."""
        if isinstance(self.mass, np.ndarray):
            return average_by_row(self.mass, values)
        return np.asarray(self.mass @ values)


def few_configurations(network: Network) -> bool:
    """Return whether a network has few enough hidden states to enumerate them for many rows."""
    most = min(_MAX_CONFIGURATIONS, _MAX_CELLS / network.n_visible)
    return network.n_hidden <= math.log2(most)


def _possible(network: Network, exact: bool) -> Network:
    """Return the network with a tiny noise, so that every row has a positive probability.

    If states are sampled, failures have a smallest probability as well.
    """
    theta, noise = np.array(network.theta), network.leak_param[: network.n_visible]
    theta[noise] = np.maximum(theta[noise], _LEAST_IF_EXACT if exact else _LEAST)
    if not exact:
        theta[network.param] = np.minimum(theta[network.param], -np.log(_LEAST))
    return network.with_theta(theta)


def content_ids(rows: Observations) -> LongArray:
    """Hash the ones and the unobserved entries of each row, (n_rows,).

    As row ids they give equal rows the same draws, at any position.
    """
    ids = np.zeros(rows.n_rows, dtype=np.uint64)
    for ptr, columns, first in (
        (rows.ptr, rows.columns, 1),
        (rows.missing_ptr, rows.missing_columns, 1 + rows.n_visible),
    ):
        line = np.repeat(np.arange(rows.n_rows), np.diff(ptr))
        entries = columns[ptr[0] : ptr[-1]].astype(np.int64) + first
        np.add.at(ids, line, mix(entries))  # the sum does not depend on the order, and may overflow
    return ids.view(np.int64)


def _enumerated(
    network: Network, observations: Observations, clamp: Clamp, progress: bool | None
) -> Iterator[WeightedStates]:
    """Yield all configurations with their exact masses, in blocks of rows.

    ``clamp`` is the evidence on hidden nodes, (n_rows or 1, n_hidden) or None.
    """
    states = hidden_configurations(network.n_hidden)
    row_bytes = 16 * len(states)
    for rows, fixed in row_blocks(observations, clamp, row_bytes, progress, task="enumerate"):
        table = log_joint_table(network, states, rows.to_dense().astype(np.float64))
        if fixed is not None:
            against = (fixed == 0).astype(float) @ states.T + (fixed == 1) @ (1.0 - states.T)
            table = np.where(against > 0, -np.inf, table)
        table -= table.max(axis=1, keepdims=True)
        mass = np.exp(table)
        yield WeightedStates(rows, states, mass / mass.sum(axis=1, keepdims=True), table)


class _Sampler:
    """Chains of Gibbs sweeps on one network; ``n_sweeps`` draws of each chain count."""

    def __init__(self, network: Network, n_sweeps: int, seed: int, engine: EngineLike) -> None:
        self.network, self.n_sweeps = network, n_sweeps
        self.seed, self.engine, self.runner = seed, engine, Runner(engine, network)

    def blocks(self, observations: Observations, progress: bool | None) -> Iterator[WeightedStates]:
        """Yield the sampled states with their masses, in blocks of rows."""
        n_states = _N_CHAINS * (_COLLECT + self.n_sweeps)
        row_bytes = n_states * (self.network.n_hidden + 8 * self.network.n_visible)
        most = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // row_bytes))
        for rows, _ in row_blocks(observations, None, 1, progress, task="sample", max_rows=most):
            yield self.sample(rows)

    def sample(self, rows: Observations) -> WeightedStates:
        """Run the chains of these rows and return their states with masses."""
        n_rows, n_chains = rows.n_rows, _N_CHAINS
        chain = np.tile(np.arange(n_chains), n_rows)
        row_of = np.repeat(np.arange(n_rows), n_chains)
        ids = combine(rows.row_ids[row_of], chain).astype(np.int64)
        chains = Observations.of(rows.take(row_of), row_ids=ids)
        evidence = Evidence.of(self.network, chains)

        _, states = find_starts(
            self.network, rows, n_chains - 1, seed=self.seed, engine=self.engine
        )
        seen = [states]
        for step in range(_COLLECT):
            states = self._sweep(evidence, states, step)
            seen.append(states)
        found = np.concatenate(seen)
        found_row = np.tile(row_of, len(seen))
        found, found_row, _ = _distinct(found, found_row)
        # Without a cause: what a row would be left with if one of its entries were not there.
        n_active = found.sum(axis=1, dtype=np.int64)
        found = np.concatenate([found, _with_one_off(found)])
        found_row = np.concatenate([found_row, np.repeat(found_row, n_active)])
        found, found_row, _ = _distinct(found, found_row)
        mass = self._masses(rows, found, found_row)

        first = uniform(combine(combine(self.seed, rows.row_ids), n_chains))
        quantile = row_of + (first[row_of] + chain) / n_chains  # systematic, n_chains of each row
        chosen = np.searchsorted(np.cumsum(mass), quantile)
        states = found[np.minimum(chosen, len(found) - 1)]
        drawn = []
        for step in range(_SETTLE + self.n_sweeps):
            states = self._sweep(evidence, states, _COLLECT + step)
            if step >= _SETTLE:
                drawn.append(states)
        return self._combined(rows, found, found_row, mass, np.concatenate(drawn), row_of)

    def _sweep(self, evidence: Evidence, states: BinaryArray, step: int) -> BinaryArray:
        engine, prepared = self.runner.on("gibbs_sweep")
        return engine.gibbs_sweep(prepared, evidence, states, NoiseKey(self.seed, step)).states

    def _masses(self, rows: Observations, states: BinaryArray, row_of: LongArray) -> FloatArray:
        """Return the posterior probabilities of each row, restricted to these states."""
        engine, prepared = self.runner.on("log_joint")
        value = engine.log_joint(prepared, Evidence.of(self.network, rows.take(row_of)), states)
        begin = np.searchsorted(row_of, np.arange(rows.n_rows))
        mass = np.exp(value - np.maximum.reduceat(value, begin)[row_of])
        return np.asarray(mass / np.add.reduceat(mass, begin)[row_of])

    def _combined(
        self,
        rows: Observations,
        found: BinaryArray,
        found_row: LongArray,
        mass: FloatArray,
        drawn: BinaryArray,
        row_of: LongArray,
    ) -> WeightedStates:
        """Assign the posterior mass outside the states found to the draws outside them."""
        n_rows, n_found = rows.n_rows, len(found)
        drawn_row = np.tile(row_of, self.n_sweeps)
        states, _, number = _distinct(
            np.concatenate([found, drawn]), np.concatenate([found_row, drawn_row])
        )
        known = np.zeros(len(states), dtype=np.bool_)
        known[number[:n_found]] = True
        outside = ~known[number[n_found:]]
        n_drawn = _N_CHAINS * self.n_sweeps
        inside_share = 1.0 - np.bincount(drawn_row[outside], minlength=n_rows) / n_drawn
        kept = np.flatnonzero(mass > _NEGLIGIBLE)
        value = np.concatenate(
            [mass[kept] * inside_share[found_row[kept]], np.full(int(outside.sum()), 1.0 / n_drawn)]
        )
        column = np.concatenate([number[kept], number[n_found:][outside]])
        at = np.concatenate([found_row[kept], drawn_row[outside]])
        used, column = np.unique(column, return_inverse=True)
        masses = sp.csr_array((value, (at, column)), shape=(n_rows, len(used)))
        return WeightedStates(rows, states[used], masses)


def _with_one_off(states: BinaryArray) -> BinaryArray:
    """Repeat every state (n, n_hidden) for each of its active causes, without that cause."""
    line, cause = np.nonzero(states)
    result = states[line]
    result[np.arange(len(line)), cause] = 0
    return result


def _distinct(states: BinaryArray, row_of: LongArray) -> tuple[BinaryArray, LongArray, LongArray]:
    """Return the distinct pairs of row and state, sorted by row, and the index of each pair."""
    key = np.concatenate(
        [row_of.astype(">u4").view(np.uint8).reshape(-1, 4), np.packbits(states, axis=1)], axis=1
    )
    packed = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).ravel()
    _, first, number = np.unique(packed, return_index=True, return_inverse=True)
    return states[first], row_of[first], number


# ---- probabilities of findings


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities of the visible nodes of every row.

    Attributes
    ----------
    probability : (n_rows, n_visible) that the node is on, given all *other* observed nodes of the
        row. For an unobserved node these are all observed nodes.
    hidden : (n_rows, n_hidden) probability of every hidden node, given the whole row.
    exact : whether all hidden states were enumerated.
    """

    probability: FloatArray
    hidden: FloatArray
    exact: bool


def predict_visible(
    network: Network | FittedModel,
    X: Any,
    method: PredictionMethod = "auto",
    *,
    n_samples: int = 192,
    observed: Literal["left-out", "kept"] = "left-out",
    one_hot: Sequence[Sequence[int]] = (),
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Prediction:
    """Predict every visible node from the other observed nodes, averaged over the causes.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : ``"exact"`` enumerates all hidden states, ``"samples"`` draws them by Gibbs sampling
        and weighs those that recur by their exact probability; ``"auto"`` enumerates where that is
        cheap.
    n_samples : draws of every row, in eight chains.
    engine, progress : as in `explain`.
    observed : the result for an observed entry. ``"left-out"``: its probability as if it alone were
        unobserved. ``"kept"``: the observed 0 or 1, which takes less time.
    one_hot : groups of columns of which exactly one is on, such as the answers to one question;
        `noisyor.data.columns.find_one_hot` finds them. Only with ``observed="kept"``.
    seed : key of the samples; those of a row depend on the seed and on what the row holds.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, np.nan, np.nan]])
    >>> nor.inference.predict_visible(network, row).probability.round(2)
    array([[0.1 , 0.82, 0.1 ]])
    """
    check_choice("method", method, ("auto", "exact", "samples"))
    engine = get_engine(engine)
    check_choice("observed", observed, ("left-out", "kept"))
    check_count("n_samples", n_samples, _N_CHAINS)
    groups = [np.asarray(group, dtype=np.int64) for group in one_hot]
    if groups and observed != "kept":
        raise InvalidSettingError('one_hot needs observed="kept"')
    network = network_of(network)
    observations = network.rows_of(X)
    exact = method == "exact" or (method == "auto" and few_configurations(network))
    rows, numbers = observations.unique_rows()
    rows = Observations.of(rows.with_weights(None), row_ids=content_ids(rows))
    network = _possible(network, exact)
    seed = check_seed(seed)
    if exact:
        blocks = _enumerated(network, rows, None, progress)
    else:
        sampler = _Sampler(network, -(-int(n_samples) // _N_CHAINS), seed, engine)
        blocks = sampler.blocks(rows, progress)
    parts, total, before = [], np.empty(0), None
    for found in blocks:
        if found.states is not before:
            before, total = found.states, total_parameter(network, found.states)
        if groups:
            found = _given_one_hot(found, total, groups)
        parts.append(_predicted(found, total, observed == "left-out", groups))
    of_visible, of_hidden = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Prediction(of_visible[numbers], of_hidden[numbers], exact)


def _predicted(
    found: WeightedStates, total: FloatArray, leave_out: bool, groups: list[LongArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of the visible and of the hidden nodes of some rows.

    ``total`` (n_states, n_visible) is the total parameter B of every visible node in each state.
    """
    chance = -np.expm1(-total)
    probability, given = found.average(chance), found.rows.to_dense().astype(np.float64)
    for group in groups:
        probability[:, group] = _answers(found, total, group)
    left_out = _left_out(found, total, given) if leave_out else given
    probability = np.where(np.isnan(given), probability, left_out)
    return np.asarray(probability), found.average(found.states.astype(np.float64))


def _left_out(found: WeightedStates, total: FloatArray, given: FloatArray) -> FloatArray:
    """Return the probability of every node as if it alone were unobserved, (n_rows, n_visible).

    The weight of a state for a row without one of its entries is its weight for the row, divided by
    the probability of this entry under the state: ``1 - exp(-B)`` if the node is on, else
    ``exp(-B)``.
    """
    capped = np.minimum(total, _MOST_TOTAL)
    if_off = found.average(np.expm1(capped)) / found.average(np.exp(capped))
    if_on = 1.0 / found.average(-1.0 / np.expm1(-total))
    result = np.where(given == 1, if_on, if_off)
    if found.log_mass is None:
        return result
    # Where exponentials would overflow, states are divided by logarithms, which takes longer.
    for column in np.flatnonzero(total.max(axis=0) > _MOST_TOTAL):
        on, off = log_one_minus_exp(total[:, column]), -total[:, column]
        without = found.log_mass - np.where(given[:, column, None] == 1, on, off)
        result[:, column] = np.exp(logsumexp(without + on, axis=1) - logsumexp(without, axis=1))
    return result


# ---- columns of which exactly one is on
#
# A network does not know that columns answer one question. Its posterior, given that each question
# has exactly one answer, follows from the one it has: a state of the causes counts as much more as
# it makes that likely, and given the causes the answer is one of the columns that are still open.


def _given_one_hot(
    found: WeightedStates, total: FloatArray, groups: Sequence[LongArray]
) -> WeightedStates:
    """Condition the posterior of some rows on exactly one column of each group being on.

    ``total`` (n_states, n_visible) as in `_predicted`. Observed entries stay as they are, even if
    more than one of a group is on.
    """
    mass = sp.coo_array(found.mass)
    kept = mass.data > _NEGLIGIBLE
    row, state, log_mass = mass.coords[0][kept], mass.coords[1][kept], np.log(mass.data[kept])
    for group in groups:
        is_open, answered = _open(found, group)
        log_off, log_odds = -total[:, group], log_expm1(total[:, group])
        some: BoolArray = np.asarray(is_open.any(axis=1))
        concerned = np.flatnonzero(some[row])
        for block in _blocks(concerned, len(group)):
            r, s = row[block], state[block]
            log_mass[block] += (is_open[r] * log_off[s]).sum(axis=1)
            one_on = logsumexp(np.where(is_open[r], log_odds[s], -np.inf), axis=1)
            log_mass[block] += np.where(answered[r], 0.0, one_on)
    top = np.full(mass.shape[0], -np.inf)
    np.maximum.at(top, row, log_mass)
    weight = np.exp(log_mass - top[row])
    weight /= np.bincount(row, weight, minlength=mass.shape[0])[row]
    return found._replace(mass=sp.csr_array((weight, (row, state)), shape=mass.shape))


def _answers(found: WeightedStates, total: FloatArray, group: LongArray) -> FloatArray:
    """Return the probability of each unobserved column of a group, (n_rows, n_group).

    ``found`` as `_given_one_hot` returns it.
    """
    mass = sp.coo_array(found.mass)
    (row, state), n_rows = mass.coords, mass.shape[0]
    is_open, answered = _open(found, group)
    log_odds, result = log_expm1(total[:, group]), np.zeros((n_rows, len(group)))
    concerned = np.flatnonzero((is_open.any(axis=1) & ~answered)[row])
    for block in _blocks(concerned, len(group)):
        r, s = row[block], state[block]
        share = softmax(np.where(is_open[r], log_odds[s], -np.inf), axis=1)
        share *= mass.data[block][:, None]
        to_row = sp.csr_array((np.ones(len(r)), (r, np.arange(len(r)))), shape=(n_rows, len(r)))
        result += to_row @ share
    return result


def _open(found: WeightedStates, group: LongArray) -> tuple[BoolArray, BoolArray]:
    """Find the unobserved entries of a group (n_rows, n_group), and rows with a one in it."""
    given = found.rows.to_dense()[:, group]
    return np.asarray(np.isnan(given)), np.asarray((given == 1).any(axis=1))


def _blocks(indices: LongArray, width: int) -> Iterator[LongArray]:
    step = max(1, _BLOCK_CELLS // width)
    for begin in range(0, len(indices), step):
        yield indices[begin : begin + step]
