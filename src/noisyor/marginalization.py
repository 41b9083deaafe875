"""Probabilities of single causes given what was observed, with error bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisyor.assembly import one_of
from noisyor.engines.threads import resolve_threads
from noisyor.errors import InvalidSettingError
from noisyor.evidence import anneal, grow
from noisyor.explanation import _clamp as clamp_of
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.settings import check_seed, is_whole
from noisyor.network import FloatArray, Network
from noisyor.observations import Observations

MarginalMethod = Literal["annealed", "set", "weighted", "samples", "mean-field"]
_METHODS: tuple[MarginalMethod, ...] = ("annealed", "set", "weighted", "samples", "mean-field")


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

    def ranked(self, row: int = 0, n: int | None = None) -> npt.NDArray[np.int64]:
        """Causes of a row by falling probability, the n first of them."""
        order = np.argsort(-self.probability[row], kind="stable")
        return order[:n]


def marginals(
    network: Network,
    X: Any,
    method: MarginalMethod = "annealed",
    *,
    n_samples: int = 64,
    hidden: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = False,
) -> Marginals:
    """Posterior probability of each cause, for every row.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : ``"annealed"``: chains of annealed importance sampling, consistent, with honest error
        bars. ``"set"``: exact weights on a set of likely configurations, no sampling noise but
        blind to what is outside. ``"samples"``: share of perturb-and-max-product samples with the
        cause on. ``"weighted"``: the distinct ones of those samples, weighted by ``p(h, x)``.
        ``"mean-field"``: q, fast, over-confident.
    n_samples : chains, samples, or for ``"set"`` members whose single flips are added.
    hidden : evidence on hidden nodes as in `explain`.
    seed : key of the samples; those of a row depend on (seed, row id) alone.
    n_threads : default all cores.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Marginals with dense arrays (n_rows, n_hidden).
    """
    one_of("method", method, _METHODS)
    if not is_whole(n_samples) or n_samples < 2:
        raise InvalidSettingError(f"n_samples must be 2, 3, …, got {n_samples!r}")
    observations = Observations.of(X, n_visible=network.n_visible)
    clamp = clamp_of(network, hidden, observations.n_rows)
    common: dict[str, Any] = {"clamp": clamp, "seed": check_seed(seed), "progress": progress}
    if method == "annealed":
        chains = anneal(
            network,
            observations,
            n_chains=n_samples,
            n_steps=16,
            n_stay=16,
            with_probability=True,
            n_threads=n_threads,
            **common,
        )
        return Marginals(chains.probability, chains.error, method)
    if method in ("set", "weighted"):
        grown = grow(
            network,
            observations,
            n_samples=16 if method == "set" else n_samples,
            n_expansions=n_samples if method == "set" else 0,
            with_probability=True,
            n_threads=n_threads,
            **common,
        )
        return Marginals(grown.probability, np.full_like(grown.probability, np.nan), method)
    threads = resolve_threads(n_threads)
    if method == "mean-field":
        q = MeanField().posterior(network, observations, n_threads=threads, **common).q
        assert q is not None
        return Marginals(q, np.full_like(q, np.nan), method)
    sampler = MaxProduct(temperature=1.0, n_samples=n_samples)
    posterior = sampler.posterior(network, observations, n_threads=threads, **common)
    share = posterior.marginals().toarray()
    return Marginals(share, np.sqrt(share * (1.0 - share) / n_samples), method)
