"""Learn causes for a high likelihood of unseen rows, from a mixture and by Gibbs sampling.

Two starts are compared. The first has as many classes as causes. If rows are unions of causes,
these classes are combinations of causes, and sampling does not separate them. So the second start
has three times as many classes, which include the single causes, and drops the classes that the
others make redundant. Both learn from three quarters of the rows, drawn by the seed. The other rows
choose the start and, if the data have few ones, the strength of the smoothing. Then the model
learns from all rows.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import BinaryArray
from noisyor._util.progress import TimeUpError, progress_bar
from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.engines.context import Context
from noisyor.inference.sampling import log_probability
from noisyor.learning.gibbs_em import Chains, GibbsRounds
from noisyor.learning.validation import drop_hidden, hold_out, leave_one_out_gain
from noisyor.model.network import Network
from noisyor.search.cover import draw_rows
from noisyor.search.starts import start_from_mixture

__all__ = ["learn_causes", "sample_by_ones"]

_MAX_ONES = 2**23
"""Above this many ones, causes are learned from a random subset of the rows."""

_VALIDATION_SHARE, _MIN_ROWS, _SCORED_ROWS = 0.25, 40, 300
"""Share of the rows that choose the start; number of rows below which all rows are used to learn
and to choose; largest number of rows whose log p is estimated for a choice."""

_ROWS_PER_CAUSE = 500
"""Largest number of rows per cause from which starts are learned."""

_FIRST_ROUNDS = 50
"""Rounds of the first start, for each smoothing that is tried."""

_FACTOR, _MAX_CANDIDATES = 3, 512
"""Candidates of the second start for each cause, and their largest number."""

_MIXTURE_ROUNDS = 40
"""Largest number of EM iterations for the classes; Gibbs sampling refines them."""

_CANDIDATE_ROUNDS, _DROP_ROUNDS, _KEPT_SHARE, _RANKED_ROWS = 40, 20, 0.85, 500
"""Rounds with all candidates, rounds after some were dropped, the share that is kept each time, and
rows by which candidates are ranked."""

_SMOOTHINGS, _ONES_PER_EDGE = (0.5, 4.0, 16.0), 50.0
"""Pseudo-rows of every parameter. With fewer ones per edge than the second number, validation rows
choose the smoothing; otherwise the first one is used."""

_LAST_ROUNDS = 100
"""Rounds with all rows."""


def learn_causes(
    rows: Observations,
    n_components: int,
    context: Context,
    *,
    noise: Literal["shared", "per_visible"] = "per_visible",
    n_starts: Literal[1, 2] = 2,
) -> Network:
    """Learn causes for a high likelihood of unseen rows.

    Parameters
    ----------
    rows : training rows (n_rows, n_visible).
    n_components : number of causes; at most one for each distinct row is learned.
    context : engine, seed, progress and deadline. When the time is over, the network so far is
        returned.
    noise : one noise probability for all columns, or one for each.
    n_starts : 1 leaves out the start with more classes than causes.

    Returns
    -------
    A bipartite network with an edge from every cause to every column.
    """
    some = sample_by_ones(rows.unique_rows()[0], _MAX_ONES, context.seed)
    learner = _Learner(some, n_components, context)
    network, smoothing = learner.start(n_components, noise, n_starts)
    return learner.finish(network, smoothing)


class _Learner:
    """Training rows, and validation rows that choose between starts."""

    def __init__(self, rows: Observations, n_components: int, context: Context) -> None:
        self.rows, self.context = rows, context
        self.training = validation = rows
        if rows.total_weight >= _MIN_ROWS:
            n_training = (1.0 - _VALIDATION_SHARE) * rows.total_weight
            n_training = min(n_training, _ROWS_PER_CAUSE * n_components)
            share = 1.0 - n_training / rows.total_weight
            self.training, unseen = hold_out(rows, share, context.seed)
            assert unseen is not None
            validation = unseen
        self.scored = _some(validation, _SCORED_ROWS, context.seed)

    def start(
        self, n_components: int, noise: Literal["shared", "per_visible"], n_starts: int
    ) -> tuple[Network, float]:
        """Return the better of the two starts, and the smoothing."""
        n_components = min(n_components, self.training.n_rows)
        network = self._classes(n_components, noise)
        n_ones = float(self.training.row_weights @ np.diff(self.training.ptr))
        enough = n_ones >= _ONES_PER_EDGE * n_components * self.rows.n_visible
        best, smoothing, score = network, _SMOOTHINGS[0], -np.inf
        with progress_bar(None, "start", "rounds", self.context.job) as bar:
            try:
                for value in _SMOOTHINGS[: 1 if enough else None]:
                    found = self._rounds(network, value).advance(_FIRST_ROUNDS, bar)
                    reached = self._score(found)
                    if reached <= score:
                        break
                    best, smoothing, score = found, value, reached
                if n_starts > 1:
                    more = self._second_start(n_components, noise, smoothing, bar)
                    if more is not None and self._score(more) > score:
                        best = more
            except TimeUpError:
                pass
        return best, smoothing

    def _second_start(
        self, n_components: int, noise: Literal["shared", "per_visible"], smoothing: float, bar: Any
    ) -> Network | None:
        """Learn more causes than requested, and drop them one after another."""
        n_candidates = min(_FACTOR * n_components, _MAX_CANDIDATES, self.training.n_rows)
        if n_components == 1 or n_candidates <= n_components:
            return None
        network = self._classes(n_candidates, noise)
        rounds = self._rounds(network, smoothing)
        network, states = rounds.advance(_CANDIDATE_ROUNDS, bar), rounds.chains.states
        ranked = np.random.default_rng([self.context.seed, 5]).permutation(len(states))
        ranked = np.sort(ranked[:_RANKED_ROWS])
        rows = rounds.chains.rows.take(ranked)
        while network.n_hidden > n_components:
            gain = leave_one_out_gain(network, rows, states[ranked], engine=self.context.engine)
            n_kept = max(n_components, int(_KEPT_SHARE * network.n_hidden))
            kept, dropped = np.split(np.argsort(-gain, kind="stable"), [n_kept])
            network = drop_hidden(network, dropped)
            rounds = self._rounds(network, smoothing, states=states[:, np.sort(kept)])
            network, states = rounds.advance(_DROP_ROUNDS, bar), rounds.chains.states
        return network

    def finish(self, network: Network, smoothing: float) -> Network:
        """Learn from all rows."""
        rounds = None
        try:
            with progress_bar(_LAST_ROUNDS, "gibbs", "rounds", self.context.job) as bar:
                rounds = self._rounds(network, smoothing, self.rows)
                return rounds.advance(_LAST_ROUNDS, bar)
        except TimeUpError:
            return network if rounds is None else rounds.network

    def _classes(self, n_classes: int, noise: Literal["shared", "per_visible"]) -> Network:
        """Return causes from the classes of a mixture whose classes were split repeatedly."""
        mixture = learn_mixture(
            self.training,
            n_classes,
            start="split",
            max_rounds=_MIXTURE_ROUNDS,
            progress=self.context.job,
        )
        return start_from_mixture(mixture, noise=noise)

    def _rounds(
        self,
        network: Network,
        smoothing: float,
        rows: Observations | None = None,
        states: BinaryArray | None = None,
    ) -> GibbsRounds:
        """Return rounds on some rows, by default the training rows, from modes or given states."""
        context, rows = self.context, self.training if rows is None else rows
        chains = Chains(network, rows, states, engine=context.engine)
        # Causes are kinds of rows at the start: each says something about every column.
        return GibbsRounds(
            network, chains, smoothing=smoothing, smooth_to="frequency", seed=context.seed
        )

    def _score(self, network: Network) -> float:
        """Return the mean log p of the validation rows."""
        context = self.context
        return log_probability(network, self.scored, seed=context.seed, engine=context.engine).mean


def sample_by_ones(rows: Observations, max_ones: int, seed: int) -> Observations:
    """Return all rows, or a random subset that has about this many ones at most.

    The cost of a round of Gibbs sampling is proportional to the number of ones times the number of
    causes, not to the number of columns.
    """
    if rows.n_active <= max_ones:
        return rows
    count = max(1, int(rows.n_rows * (max_ones / rows.n_active)))
    order = np.random.default_rng(seed).permutation(rows.n_rows)
    return rows.take(np.sort(order[:count]))


def _some(rows: Observations, count: int, seed: int) -> Observations:
    """Return a random sample of the rows, drawn by their weights."""
    if rows.n_rows <= count:
        return rows
    generator = np.random.default_rng([seed, 5])
    index, times = np.unique(draw_rows(rows.row_weights, count, generator), return_counts=True)
    return rows.take(index).with_weights(times)
