"""Learn causes for a high likelihood of unseen rows, from the best of three starts.

A cause may start as a class of a mixture, which describes whole rows, or as a part that a
non-negative factorization finds, which describes some columns. Where rows are unions of causes,
classes are combinations of causes, and sampling rarely takes them apart; where rows are of one kind
each, classes are right from the beginning. So starts with classes, with parts and with half of each
are learned by Gibbs sampling from three quarters of the rows, drawn by the seed. The other rows
choose the start and, if the data have few ones, the strength of the smoothing. Then the model
learns from all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisyor._util.progress import TimeUpError, progress_bar
from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.engines.context import Context
from noisyor.learning.gibbs_em import Chains, GibbsRounds, chain_rows
from noisyor.learning.validation import estimate_log_p, hold_out
from noisyor.model.builders import bipartite, with_causes
from noisyor.model.network import Network
from noisyor.search.cover import draw_rows
from noisyor.search.starts import start_from_mixture, start_from_parts

__all__ = ["Causes", "finish_causes", "learn_causes", "sample_by_ones", "start_causes"]

_MAX_ONES = 2**23
"""Above this many ones, causes are learned from a random subset of the rows."""

_VALIDATION_SHARE, _MIN_ROWS, _SCORED_ROWS = 0.25, 40, 600
"""Share of the rows that choose the start; number of rows below which all rows are used to learn
and to choose; largest number of rows whose log p is estimated for a choice."""

_ROWS_PER_CAUSE = 500
"""Largest number of rows per cause from which starts are learned."""

_CLASS_SHARES = (1.0, 0.5, 0.0)
"""Share of the causes that start as classes, in each start; the others start as parts."""

_MIXTURE_ROUNDS = 40
"""Largest number of EM iterations for the classes; Gibbs sampling refines them."""

_FIRST_ROUNDS, _LAST_ROUNDS = 50, 200
"""Rounds of each start, and of the best start with all rows."""

_SCARCE_ROUNDS = 25
"""Rounds of each start if ones are scarce, and of the best start with another smoothing. More
rounds without smoothing would fit the noise."""

_SMOOTHED_ROUNDS = 100
"""Rounds with all rows after more than the least smoothing."""

_SMOOTHINGS, _ONES_PER_EDGE = (0.5, 2.0, 8.0, 32.0), 40.0
"""Pseudo-rows of every parameter. Ones are scarce with fewer per edge than the second number; then
validation rows choose the smoothing. Otherwise the first one is used."""


class Causes(NamedTuple):
    """A network of causes, and the smoothing with which to learn on."""

    network: Network
    smoothing: float


def learn_causes(rows: Observations, n_components: int, context: Context) -> Network:
    """Learn causes for a high likelihood of unseen rows.

    Parameters
    ----------
    rows : training rows (n_rows, n_visible).
    n_components : number of causes; at most one for each distinct row is learned.
    context : engine, seed, progress and deadline. When the time is over, the network so far is
        returned.

    Returns
    -------
    A bipartite network with an edge from every cause to every column.
    """
    return finish_causes(start_causes(rows, n_components, context), rows, context)


def start_causes(rows: Observations, n_components: int, context: Context) -> Causes:
    """Return the best of three starts after some rounds, from the checkpoint if it has it."""
    learner = _Learner(_sampled(rows, context), n_components, context)
    name = f"causes {learner.n_components}"
    kept = context.store.load(name)
    if kept is not None:
        graph = bipartite(rows.n_visible, learner.n_components, noise="per_visible")
        theta = np.array(kept.numbers("theta", graph.n_params))
        return Causes(graph.with_theta(theta), kept.numbers("smoothing", 1)[0])
    found = learner.start()
    if not context.job.is_cut_short:
        smoothing = np.array([found.smoothing])
        context.store.save(name, {"theta": found.network.theta, "smoothing": smoothing})
    return found


def finish_causes(
    causes: Causes, rows: Observations, context: Context, *, is_trial: bool = False
) -> Network:
    """Learn from all rows, until the time is over; a note says so unless it is a trial."""
    network, rounds = causes.network, None
    n_rounds = _SMOOTHED_ROUNDS if causes.smoothing > _SMOOTHINGS[0] else _LAST_ROUNDS
    if not (is_trial or context.job.is_cut_short):
        context.job.note(
            f"causes found: {network.n_hidden}; {n_rounds} rounds follow that refine them"
        )
    try:
        with progress_bar(n_rounds, "gibbs", "rounds", context.job) as bar:
            rounds = _rounds(causes, chain_rows(_sampled(rows, context)), context)
            return rounds.advance(n_rounds, bar)
    except TimeUpError:
        return network if rounds is None else rounds.network


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
        self.chains = chain_rows(self.training)
        self.scored = _some(validation, _SCORED_ROWS, context.seed)
        self.n_components = min(n_components, self.training.n_rows)

    def start(self) -> Causes:
        """Return the best of the starts, and the smoothing."""
        n_ones = float(self.training.row_weights @ np.diff(self.training.ptr))
        is_scarce = n_ones < _ONES_PER_EDGE * self.n_components * self.rows.n_visible
        n_rounds = _SCARCE_ROUNDS if is_scarce else _FIRST_ROUNDS
        best, best_score = None, -np.inf
        with progress_bar(None, "start", "rounds", self.context.job) as bar:
            try:
                for share in _CLASS_SHARES:
                    draft = Causes(self._draft(share), _SMOOTHINGS[0])
                    best = draft if best is None else best
                    found, score = self._advanced(draft, n_rounds, bar)
                    if score > best_score:
                        best, best_score = found, score
            except TimeUpError:
                is_scarce = False
            assert best is not None
            return self._smoothed(best, best_score, bar) if is_scarce else best

    def _smoothed(self, start: Causes, start_score: float, bar: Any) -> Causes:
        """Return the start after some rounds with the smoothing that validation rows prefer."""
        best, best_score = start, start_score
        try:
            for smoothing in _SMOOTHINGS[1:]:
                trial = start._replace(smoothing=smoothing)
                found, score = self._advanced(trial, _SCARCE_ROUNDS, bar)
                if best is start and score <= best_score:
                    # Perhaps it lost because of its additional rounds.
                    best, best_score = self._advanced(start, _SCARCE_ROUNDS, bar)
                if score <= best_score:
                    break
                best, best_score = found, score
        except TimeUpError:
            pass
        return best

    def _draft(self, class_share: float) -> Network:
        """Return causes that are classes of a mixture grown by splitting, and parts of rows."""
        n_components = self.n_components
        most = min(n_components, self.training.n_visible)
        n_parts = min(most, round((1.0 - class_share) * n_components))
        parts = None
        if n_parts:
            parts = start_from_parts(self.training, n_parts, seed=self.context.seed)
            if n_parts == n_components:
                return parts
        mixture = learn_mixture(
            self.training,
            n_components - n_parts,
            start="split",
            max_rounds=_MIXTURE_ROUNDS,
            progress=self.context.job,
        )
        classes = start_from_mixture(mixture)
        if parts is None:
            return classes
        return with_causes(
            classes,
            np.vstack([classes.failure_probability, parts.failure_probability]),
            np.append(classes.prior_probability, parts.prior_probability),
        )

    def _advanced(self, causes: Causes, n_rounds: int, bar: Any) -> tuple[Causes, float]:
        """Return causes after some rounds, and the mean log p of the validation rows."""
        rounds = _rounds(causes, self.chains, self.context)
        network = rounds.advance(n_rounds, bar)
        score = estimate_log_p(network, self.scored, self.context).mean
        return causes._replace(network=network), score


def _rounds(causes: Causes, rows: Observations, context: Context) -> GibbsRounds:
    """Return rounds on the chains of some rows, which start from the rows' modes."""
    return GibbsRounds(
        causes.network,
        Chains(causes.network, rows, engine=context.engine),
        smoothing=causes.smoothing,
        smooth_to="frequency",  # a class says something about every column
        seed=context.seed,
    )


def _sampled(rows: Observations, context: Context) -> Observations:
    """Return the distinct rows, or some of them if there are very many ones."""
    return sample_by_ones(rows.unique_rows()[0], _MAX_ONES, context.seed)


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
