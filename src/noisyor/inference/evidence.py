"""How likely is a row: tighter bounds on ``log p(x)`` than one explanation gives, and estimates.

These are extras beside the paper's Elbo, which `evaluate` reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_seed, is_whole
from noisyor.data.observations import Observations
from noisyor.engines.numba.engine import PreparedNetwork, rows_of
from noisyor.engines.numba.sampling.annealing import Options, Output, explore_rows
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import Score
from noisyor.inference.explain import clamp_of
from noisyor.inference.max_product import MaxProduct
from noisyor.network.graph import Network

_POLISH = 20
_BLOCK_BYTES = 32 * 2**20
_BLOCK_ROWS = 256
_N_STAY = 4

Clamp = npt.NDArray[np.uint8] | None


@dataclass(frozen=True, eq=False)
class EvidenceBound(Score):
    """A lower bound on ``log p(x)`` from a set of configurations of the causes.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` as in `Score`; ``n_configurations``
    (n_rows,) size of each row's set. Causes that are independent of all others given the row are
    summed out and not counted.
    """

    n_configurations: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EvidenceEstimate(Score):
    """An estimate of ``log p(x)``; not a bound.

    ``per_row`` (n_rows,), ``mean`` and ``standard_error`` (spread of the rows) as in `Score`;
    ``error`` (n_rows,) standard error of each row's estimate, from the spread of its chains.
    """

    error: FloatArray

    @property
    def mean_error(self) -> float:
        """Standard error of ``mean`` as an estimate for these very rows."""
        return float(np.sqrt((self.error**2).sum()) / len(self.error))


def evidence_bound(
    network: Network,
    X: Any,
    *,
    n_samples: int = 16,
    n_expansions: int = 32,
    method: MaxProduct | None = None,
    hidden: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
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
    n_threads : default all cores.
    progress : show a progress bar; None shows it on a terminal only.
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    found = explore(
        network,
        observations,
        n_samples=n_samples,
        n_expansions=n_expansions,
        method=method,
        hidden=hidden,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    return EvidenceBound(found.log_sum, found.size)


def estimate_evidence(
    network: Network,
    X: Any,
    *,
    n_chains: int = 32,
    n_steps: int = 32,
    n_expansions: int = 16,
    hidden: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
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
    hidden : evidence on hidden nodes as in `explain`; the estimate is of ``log p(x, hidden)``.
    seed : key of the samples.
    n_threads : default all cores.
    progress : show a progress bar; None shows it on a terminal only.
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    found = explore(
        network,
        observations,
        n_chains=n_chains,
        n_steps=n_steps,
        n_stay=_N_STAY,
        n_expansions=n_expansions,
        hidden=hidden,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    return EvidenceEstimate(found.log_evidence, found.log_error)


def explore(
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
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> Output:
    """Sets of likely configurations of every row, and chains outside them; see `Output`."""
    _check_count("n_samples", n_samples, 0)
    _check_count("n_expansions", n_expansions, 0)
    _check_count("n_steps", n_steps, 1)
    if n_chains != 0:
        _check_count("n_chains", n_chains, 2)
    threads, seed = resolve_threads(n_threads), check_seed(seed)
    method = MaxProduct() if method is None else method
    clamp = clamp_of(network, hidden, observations.n_rows)
    prepared = PreparedNetwork(network)
    options = Options(int(n_expansions), int(n_chains), int(n_steps), int(n_stay), seed)
    n_rows, n_hidden = observations.n_rows, network.n_hidden
    shape = (n_rows if with_probability else 0, n_hidden)
    output = Output(
        log_sum=np.empty(n_rows),
        size=np.empty(n_rows, dtype=np.int64),
        log_evidence=np.empty(n_rows),
        log_error=np.empty(n_rows),
        probability=np.empty(shape),
        error=np.empty(shape),
    )

    def block(begin: int, end: int) -> None:
        rows = observations.take(slice(begin, end))
        fixed = clamp if clamp is None or len(clamp) == 1 else clamp[begin:end]
        starts = _starts(network, rows, method, n_samples, fixed, seed, threads)
        evidence = rows_of(rows, fixed, n_hidden)
        part = Output(
            log_sum=output.log_sum[begin:end],
            size=output.size[begin:end],
            log_evidence=output.log_evidence[begin:end],
            log_error=output.log_error[begin:end],
            probability=output.probability[begin:end],
            error=output.error[begin:end],
        )
        run_blocks(
            lambda first, last: explore_rows(
                prepared.graph, prepared.parameters, evidence, starts, options, part, first, last
            ),
            end - begin,
            threads,
        )

    size = max(1, min(_BLOCK_BYTES // (n_hidden * (1 + n_samples)), _BLOCK_ROWS))
    with progress_bar(n_rows, "explore", "rows", progress) as bar:
        for begin in range(0, n_rows, size):
            end = min(begin + size, n_rows)
            block(begin, end)
            bar.update(end - begin)
    return output


def _starts(
    network: Network,
    rows: Observations,
    method: MaxProduct,
    n_samples: int,
    clamp: Clamp,
    seed: int,
    n_threads: int,
) -> npt.NDArray[np.uint8]:
    """The polished mode and the samples of every row, (n_rows * (1 + n_samples), n_hidden)."""
    mode = replace(method.at_test_time(), polish=max(method.polish, _POLISH))
    found = [mode.posterior(network, rows, clamp=clamp, n_threads=n_threads)]
    if n_samples:
        sampler = replace(method, temperature=1.0, n_samples=n_samples, keep_beliefs=False)
        found.append(sampler.posterior(network, rows, seed=seed, clamp=clamp, n_threads=n_threads))
    by_row = [part.states.toarray().reshape(rows.n_rows, -1, network.n_hidden) for part in found]
    starts = np.concatenate(by_row, axis=1).reshape(-1, network.n_hidden)
    return np.ascontiguousarray(starts, dtype=np.uint8)


def _check_count(name: str, value: int, least: int) -> None:
    if not is_whole(value) or value < least:
        raise InvalidSettingError(f"{name} must be {least}, {least + 1}, …, got {value!r}")
