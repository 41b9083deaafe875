"""How likely is a row: tighter bounds on ``log p(x)`` than one explanation gives, and estimates.

These are extras beside the paper's Elbo, which `evaluate` reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import (
    AnnealingOptions,
    AnnealingResult,
    EngineLike,
    Evidence,
    NoiseKey,
)
from noisyor.engines.registry import Runner
from noisyor.inference.evaluate import Score
from noisyor.inference.explain import hidden_evidence
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.posterior import Posterior, row_blocks
from noisyor.model.graph import Network

_POLISH = 20
_BLOCK_ROWS = 256
_N_STAY = 4

Clamp = npt.NDArray[np.uint8] | None


class Starts(NamedTuple):
    """Where exploring starts: the polished mode of every row, and posterior samples or None."""

    mode: Posterior
    samples: Posterior | None

    def states(self) -> npt.NDArray[np.uint8]:
        """Mode and samples of each row in turn, (n_rows * (1 + n_samples), n_hidden)."""
        found = [self.mode] if self.samples is None else [self.mode, self.samples]
        n_hidden = self.mode.n_hidden
        by_row = [part.states.toarray().reshape(part.n_rows, -1, n_hidden) for part in found]
        starts = np.concatenate(by_row, axis=1).reshape(-1, n_hidden)
        return np.ascontiguousarray(starts, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class EvidenceBound(Score):
    """A lower bound on ``log p(x)`` from a set of configurations of the causes.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` as in `Score`; ``n_configurations``
    (n_rows,) size of each row's set. Causes that are independent of all others given the row are
    summed out and not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import EvidenceBound
    >>> EvidenceBound(np.array([-2.0, -4.0]), np.array([8, 8])).mean
    -3.0
    """

    n_configurations: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EvidenceEstimate(Score):
    """An estimate of ``log p(x)``; not a bound.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` (spread of the rows) as in `Score`;
    ``error`` (n_rows,) standard error of each row's estimate, from the spread of its chains.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import EvidenceEstimate
    >>> EvidenceEstimate(np.array([-2.0, -4.0]), np.array([0.3, 0.4])).mean_error
    0.25
    """

    error: FloatArray

    @property
    def mean_error(self) -> float:
        """Standard error of ``mean`` as an estimate for these very rows."""
        weights = np.ones(len(self.error)) if self.weights is None else self.weights
        return float(np.sqrt(((weights * self.error) ** 2).sum()) / weights.sum())


def evidence_bound(
    network: Network,
    X: Any,
    *,
    n_samples: int = 16,
    n_expansions: int = 32,
    method: MaxProduct | None = None,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> EvidenceBound:
    """Lower bound ``log sum_{h in S} p(h, x)`` on the log-likelihood of every row.

    S holds the polished mode, samples of perturb-and-max-product, and all single flips of the
    ``n_expansions`` most likely members found so far. The bound is at least Elbo^MP at the same
    mode, never falls as ``n_expansions`` grows, and is exact once S holds everything.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; unobserved visibles are summed out.
    n_samples : posterior samples in S.
    n_expansions : members whose single flips are added to S.
    method : settings of max-product; temperature and number of samples are not used.
    hidden : evidence on hidden nodes as in `explain`; the bound is then on ``log p(x, hidden)``.
    seed : key of the samples.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> bound = nor.evidence_bound(network, rows[:1])
    >>> bound.n_configurations  # all there are: the bound is exact
    array([4])
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    run: dict[str, Any] = {"hidden": hidden, "seed": seed, "engine": engine, "progress": progress}
    size: dict[str, Any] = {"n_samples": n_samples, "n_expansions": n_expansions}
    found = explore_configurations(network, observations, method=method, **size, **run)
    return EvidenceBound(found.log_sum, found.size, weights=observations.weights)


def estimate_evidence(
    network: Network,
    X: Any,
    *,
    n_chains: int = 32,
    n_steps: int = 32,
    n_expansions: int = 16,
    hidden: Any = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> EvidenceEstimate:
    """Estimate ``log p(x)`` of every row by annealed importance sampling, with standard errors.

    Each chain starts from independent causes with the probabilities that a small set of likely
    configurations gives them, and passes to the posterior by Gibbs sweeps. The average weight of
    the chains is an unbiased estimate of ``p(x)``.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; unobserved visibles are summed out.
    n_chains : independent chains per row, at least 2; the error falls with their square root.
    n_steps : sweeps of each chain; more of them make the weights more even.
    n_expansions, hidden, seed, engine, progress : as in `evidence_bound`; with evidence on hidden
        nodes the estimate is of ``log p(x, hidden)``.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> estimate = nor.estimate_evidence(network, rows[:1])
    >>> round(estimate.mean, 2)
    -1.74
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    run: dict[str, Any] = {"hidden": hidden, "seed": seed, "engine": engine, "progress": progress}
    chains: dict[str, Any] = {"n_chains": n_chains, "n_steps": n_steps, "n_stay": _N_STAY}
    found = explore_configurations(
        network, observations, n_expansions=n_expansions, **chains, **run
    )
    return EvidenceEstimate(found.log_evidence, found.log_error, weights=observations.weights)


def explore_configurations(
    network: Network,
    observations: Observations,
    *,
    n_samples: int = 16,
    n_expansions: int,
    n_chains: int = 0,
    n_steps: int = 1,
    n_stay: int = 1,
    method: MaxProduct | None = None,
    hidden: Any = None,
    with_probability: bool = False,
    starts: Starts | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> AnnealingResult:
    """Sets of likely configurations of every row, and chains outside them.

    ``starts`` are those of `find_starts` for all rows, if they are at hand; ``n_samples`` and
    ``method`` then have no effect.
    """
    check_count("n_samples", n_samples, 0)
    check_count("n_expansions", n_expansions, 0)
    check_count("n_steps", n_steps, 1)
    if n_chains != 0:
        check_count("n_chains", n_chains, 2)
    key = NoiseKey(check_seed(seed))
    clamp = hidden_evidence(network, hidden, observations.n_rows)
    runner = Runner(engine, network)
    annealer, prepared = runner.on("anneal")
    options = AnnealingOptions(int(n_expansions), int(n_chains), int(n_steps), int(n_stay))
    given = None
    if starts is not None:
        given = starts.states().reshape(observations.n_rows, -1, network.n_hidden)
    row_bytes, done, parts = network.n_hidden * (1 + n_samples), 0, []
    for rows, fixed in row_blocks(
        observations, clamp, row_bytes, progress, task="explore", max_rows=_BLOCK_ROWS
    ):
        if given is None:
            found = find_starts(
                network, rows, n_samples, method=method, clamp=fixed, seed=key.seed, engine=engine
            )
            states = found.states()
        else:
            states = given[done : done + rows.n_rows].reshape(-1, network.n_hidden)
        done += rows.n_rows
        evidence = Evidence.of(network, rows, fixed)
        parts.append(
            annealer.anneal(
                prepared, evidence, states, options, key, with_probability=with_probability
            )
        )
    return AnnealingResult(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def find_starts(
    network: Network,
    observations: Observations,
    n_samples: int,
    *,
    method: MaxProduct | None = None,
    clamp: Clamp = None,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Starts:
    """The polished mode and posterior samples of every row: one max-product run for each.

    ``clamp`` is evidence on hidden nodes as in `MaxProduct.posterior`.
    """
    method = MaxProduct() if method is None else method
    mode = replace(method.at_test_time(), polish=max(method.polish, _POLISH))
    found = mode.posterior(network, observations, clamp=clamp, engine=engine)
    if not n_samples:
        return Starts(found, None)
    sampler = replace(method, temperature=1.0, n_samples=n_samples, keep_beliefs=False)
    drawn = sampler.posterior(network, observations, seed=seed, clamp=clamp, engine=engine)
    return Starts(found, drawn)
