"""Probabilities of single causes given what was observed, with error bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_choice, check_count
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evidence import Starts, explore_configurations
from noisyor.inference.explain import explain
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.model.graph import Network

MarginalMethod = Literal["chains", "set", "weighted", "samples", "mean-field"]
METHODS: tuple[MarginalMethod, ...] = ("chains", "set", "weighted", "samples", "mean-field")


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

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import Marginals
    >>> Marginals(np.array([[0.2, 0.9]]), np.zeros((1, 2)), "set").ranked()
    array([1, 0])
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
    method: MarginalMethod = "chains",
    *,
    n_samples: int = 64,
    hidden: Any = None,
    starts: Starts | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> Marginals:
    """Posterior probability of each cause, for every row.

    Parameters
    ----------
    network : the network.
    X : observations in any form that `Observations.of` takes; NaN marks an unobserved visible.
    method : ``"chains"``: exact weights on a set of likely configurations, and chains of annealed
        importance sampling for what lies outside; the most accurate, with calibrated errors.
        ``"set"``: the set alone; fast, no errors. ``"samples"``: share of perturb-and-max-product
        samples with the cause on; biased. ``"weighted"``: the distinct ones of those samples,
        weighted by ``p(h, x)``. ``"mean-field"``: q, fast, over-confident.
    n_samples : chains, samples, and for ``"chains"`` and ``"set"`` also the number of members
        whose single flips are added.
    hidden : evidence on hidden nodes as in `explain`.
    starts : mode and samples of the rows from `find_starts`, if they are at hand; they are found
        here by default. ``"samples"`` takes its shares from them.
    seed : key of the samples; those of a row depend on (seed, row id) alone.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Returns
    -------
    Marginals with dense arrays (n_rows, n_hidden).

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.marginals(network, np.array([[1, 1, np.nan]])).probability.round(2)
    array([[1. , 0.3]])
    """
    check_choice("method", method, METHODS)
    check_count("n_samples", n_samples, 2)
    observations = Observations.of(X, n_visible=network.n_visible)
    common: dict[str, Any] = {"seed": seed, "engine": engine, "progress": progress}
    if method == "samples":
        drawn = None if starts is None else starts.samples
        if drawn is None:
            sampler = MaxProduct(temperature=1.0, n_samples=n_samples)
            drawn = explain(network, observations, sampler, hidden=hidden, **common)
        probability, n_samples = drawn.marginals().toarray(), drawn.n_samples
        return Marginals(probability, np.sqrt(probability * (1 - probability) / n_samples), method)
    if method == "mean-field":
        q = explain(network, observations, MeanField(), hidden=hidden, **common).q
        assert q is not None
        return Marginals(q, np.full_like(q, np.nan), method)
    settings: dict[str, Any] = {
        "chains": {"n_expansions": n_samples, "n_chains": n_samples, "n_steps": 16, "n_stay": 8},
        "set": {"n_expansions": n_samples},
        "weighted": {"n_expansions": 0, "n_samples": n_samples},
    }[method]
    found = explore_configurations(
        network,
        observations,
        hidden=hidden,
        with_probability=True,
        starts=starts,
        **settings,
        **common,
    )
    error = found.error if method == "chains" else np.full_like(found.error, np.nan)
    return Marginals(found.probability, error, method)
