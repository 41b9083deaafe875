"""Whether classes that exclude each other describe a table better than causes that add up."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from noisyor._util.progress import Progress
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evidence import estimate_evidence
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.network.builders import bipartite
from noisyor.network.graph import Network
from noisyor.search.cover import ErrorRates
from noisyor.search.factor_start import start_from_factors
from noisyor.search.factors import search_factors
from noisyor.search.mixture import learn_mixture

__all__ = ["Comparison"]

ROWS_TO_COMPARE = 500
"""Rows by which a network and a mixture are compared; with fewer, neither is known well enough."""

_NEARLY_EXACT = ErrorRates(false_positive=0.05, false_negative=0.15)
"""Error rates of a cover up to which a table is taken to be made of factors."""

_ERRORS, _FAR_ERRORS = 2.0, 4.0
"""Standard errors by which a mixture must be better than a trained network, or than one of a single
start and a few rounds."""

_QUICK_SWEEPS = 20


class Comparison:
    """Rows, some hundred of them to compare models by, and how to go about it.

    Parameters
    ----------
    rows : to learn from.
    held_out : rows to compare by, or None: then they are some of those to learn from.
    seed, engine, progress : of what is learned for the comparison.
    """

    def __init__(
        self,
        rows: Observations,
        held_out: Any,
        *,
        seed: int,
        engine: EngineLike,
        progress: Progress,
    ) -> None:
        self.rows, self._seed, self._engine, self._progress = rows, seed, engine, progress
        judges = rows if held_out is None else Observations.of(held_out, n_visible=rows.n_visible)
        if judges.n_rows > ROWS_TO_COMPARE:
            order = np.random.default_rng([seed, 3]).permutation(judges.n_rows)
            judges = judges.take(np.sort(order[:ROWS_TO_COMPARE]))
        self._judges = judges.merged()[0]

    def far_from_factors(self, n_components: int | Literal["auto"]) -> Network | None:
        """The network of one start of the search if a mixture is far better, else None."""
        found = search_factors(
            self.rows,
            n_components,
            n_restarts=1,
            patience=1,
            seed=self._seed,
            engine=self._engine,
            progress=self._progress,
        )
        if all(rate <= limit for rate, limit in zip(found.rates, _NEARLY_EXACT, strict=True)):
            return None
        network = bipartite(self.rows.n_visible, max(1, len(found.factors)), noise="per_visible")
        network = learn_by_gibbs(
            start_from_factors(network, found),
            self.rows.take(found.rows),
            sweeps=_QUICK_SWEEPS,
            seed=self._seed,
            engine=self._engine,
        )
        return network if self.mixture_is_better(network, _FAR_ERRORS) else None

    def mixture_is_better(self, network: Network, n_errors: float = _ERRORS) -> bool:
        """Whether a mixture that has not seen the judges is better for them by so many errors.

        If no rows are held out the network has seen them, so that it is the one at an advantage.
        """
        rows, judges = self.rows, self._judges
        unseen = np.isin(rows.row_ids, judges.row_ids, invert=True)
        mixture = learn_mixture(
            rows.take(unseen) if unseen.any() else rows,
            held_out=judges,
            smoothing=1.0,
            seed=self._seed,
            progress=self._progress,
        )
        difference = mixture.log_probability(judges) - self._log_p(network)
        weight, mean = judges.row_weights, judges.mean(difference)
        error = np.sqrt((weight * (difference - mean) ** 2).sum()) / weight.sum()
        return bool(mean > n_errors * error)

    def gain(self, one: Network, other: Network) -> float:
        """By how much the first network gives the judges a higher log p."""
        return float(self._judges.mean(self._log_p(one) - self._log_p(other)))

    def _log_p(self, network: Network) -> np.ndarray[Any, np.dtype[np.float64]]:
        estimate = estimate_evidence(
            network, self._judges, n_chains=8, n_steps=16, engine=self._engine
        )
        return estimate.per_row
