"""Whether classes that exclude each other describe a table better than causes that add up."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from noisyor.data.observations import Observations
from noisyor.inference.evidence import estimate_evidence
from noisyor.learning.recipes.job import Work
from noisyor.learning.recipes.number import mean_and_error
from noisyor.learning.recipes.ways import by_gibbs, is_nearly_exact, one_start
from noisyor.model.graph import Network
from noisyor.search.mixtures.learn import learn_mixture
from noisyor.search.mixtures.model import BernoulliMixture

__all__ = ["Comparison"]

ROWS_TO_COMPARE = 500
"""Rows by which a network and a mixture are compared; with fewer, neither is known well enough."""

_ERRORS, _FAR_ERRORS = 2.0, 4.0
"""Standard errors by which a mixture must be better than a trained network, or than one of a single
start and a few rounds."""


class Comparison:
    """Rows, some hundred of them to compare models by, and how to go about it.

    Parameters
    ----------
    rows : to learn from.
    held_out : rows to compare by, or None: then they are some of those to learn from.
    work : how to go about it.
    """

    def __init__(self, rows: Observations, held_out: Any, work: Work) -> None:
        self.rows, self._work = rows, work
        seed = work.options.seed
        judges = rows if held_out is None else Observations.of(held_out, n_visible=rows.n_visible)
        if judges.n_rows > ROWS_TO_COMPARE:
            order = np.random.default_rng([seed, 3]).permutation(judges.n_rows)
            judges = judges.take(np.sort(order[:ROWS_TO_COMPARE]))
        self._judges = judges.unique_rows()[0]

    def far_from_factors(self, n_components: int) -> Network | None:
        """The network of one start of the search if a mixture is far better, else None."""
        found = one_start(self.rows, n_components, self._work)
        if is_nearly_exact(found):
            return None
        network = by_gibbs(found, self.rows, seed=self._work.options.seed, engine=self._work.engine)
        return network if self.mixture_is_better(network, _FAR_ERRORS) else None

    def mixture_is_better(self, network: Network, n_errors: float = _ERRORS) -> bool:
        """Whether a mixture that has not seen the judges is better for them by so many errors.

        If no rows are held out the network has seen them, so that it is the one at an advantage.
        """
        judges = self._judges
        difference = self._mixture.log_probability(judges) - self._log_p(network)
        mean, error = mean_and_error(judges, difference)
        return bool(mean > n_errors * error)

    @cached_property
    def _mixture(self) -> BernoulliMixture:
        rows, judges = self.rows, self._judges
        unseen = np.isin(rows.row_ids, judges.row_ids, invert=True)
        return learn_mixture(
            rows.take(unseen) if unseen.any() else rows,
            held_out=judges,
            smoothing=1.0,
            seed=self._work.options.seed,
            progress=self._work.job,
        )

    def gain(self, one: Network, other: Network) -> float:
        """By how much the first network gives the judges a higher log p."""
        return float(self._judges.mean(self._log_p(one) - self._log_p(other)))

    def _log_p(self, network: Network) -> np.ndarray[Any, np.dtype[np.float64]]:
        estimate = estimate_evidence(
            network, self._judges, n_chains=8, n_steps=16, engine=self._work.engine
        )
        return estimate.per_row
