"""Causes that make unseen rows likely: start from the classes of a mixture, learn by Gibbs EM.

The causes start from the classes of a mixture of Bernoullis that is grown by splitting. This start
uses no random numbers, so that different seeds find the same causes. Gibbs sampling then lets
several causes be on in one row. If rows are unions of causes, a class is a combination of causes,
and sampling alone does not separate them. A second start therefore has three times as many classes
as causes, and drops the classes that combinations of others can replace. The
start whose causes make the rows more likely is taken. Rounds come in stages, each as long as all
before it; learning ends after the first stage that gains nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from noisyor._util.progress import TimeUpError, progress_bar
from noisyor.baselines import learn_mixture
from noisyor.data.observations import Observations
from noisyor.engines.context import Context
from noisyor.learning.gibbs_em import Chains, GibbsRounds
from noisyor.learning.validation import (
    drop_hidden,
    estimate_log_p,
    hold_out,
    leave_one_out_gain,
)
from noisyor.model.network import Network
from noisyor.search.cover import draw_rows
from noisyor.search.starts import start_from_mixture

__all__ = ["choose_smoothing", "learn_causes", "sample_by_ones"]

_MAX_ONES = 2**23
"""Above this many ones, causes are learned from a random subset of the rows."""

_FIRST_STAGE, _MAX_ROUNDS, _MIN_ROUNDS = 100, 400, 60
"""Rounds of the first stage, and bounds on the rounds of all stages together."""

_ONES_TIMES_ROUNDS = 5e8
"""Between the bounds, tables with many ones get fewer rounds: their first rounds gain most."""

_SCORED_ROWS, _MIN_RELATIVE_GAIN = 512, 5e-4
"""Training rows whose log p is compared between stages, and its smallest gain that counts."""

_FACTOR, _MAX_CANDIDATES = 3, 512
"""Candidates for each cause of the second start, and their largest number."""

_FIRST_ROUNDS, _SECOND_ROUNDS, _DROP_ROUNDS = 160, 60, 40
"""Rounds of the first start before the two are compared; of the second start before candidates are
dropped, and each time after some were dropped."""

_KEPT_SHARE, _RANKED_ROWS = 0.85, 1000
"""Share of the candidates that is kept each time, and training rows that rank them."""

_SMOOTHING = 0.5
"""Pseudo-rows of every parameter, where the rows say much about each."""

_SMOOTHINGS, _ONES_PER_EDGE, _CHOICE_ROUNDS = (0.5, 4.0, 16.0), 50.0, 40
"""With fewer ones per edge, validation rows choose one of these smoothings after so many rounds."""

_VALIDATION_SHARE, _MIN_VALIDATION_ROWS, _MAX_VALIDATION_ROWS = 0.2, 10, 500


def learn_causes(
    rows: Observations,
    n_components: int,
    context: Context,
    *,
    noise: Literal["shared", "per_visible"] = "per_visible",
    smoothing: float | None = None,
) -> Network:
    """Learn causes that make unseen rows likely.

    Parameters
    ----------
    rows : training rows (n_rows, n_visible).
    n_components : number of causes; at most one for each distinct row is learned.
    context : engine, seed, progress and deadline. When the time is over, the network so far is
        returned.
    noise : one noise probability for all columns, or one for each.
    smoothing : pseudo-rows of every parameter; None chooses, see `choose_smoothing`.

    Returns
    -------
    A bipartite network with an edge from every cause to every column.
    """
    some = sample_by_ones(rows.unique_rows()[0], _MAX_ONES, context.seed)
    if smoothing is None:
        smoothing = choose_smoothing(some, n_components, context, noise=noise)
    network = _start(some, n_components, context, noise)
    n_rounds = int(np.clip(_ONES_TIMES_ROUNDS / max(1, some.n_active), _MIN_ROUNDS, _MAX_ROUNDS))
    rounds = None
    try:
        network = _better_start(network, some, smoothing, context, noise)
        rounds = _rounds(network, some, smoothing, context)
        with progress_bar(n_rounds, "gibbs", "sweeps", context.job) as bar:
            return _in_stages(rounds, some, n_rounds, context, bar)
    except TimeUpError:
        return network if rounds is None else rounds.network


def _better_start(
    network: Network,
    rows: Observations,
    smoothing: float,
    context: Context,
    noise: Literal["shared", "per_visible"],
) -> Network:
    """Return the better of two starts after some rounds: as many classes as causes, or more."""
    n_components = network.n_hidden
    n_candidates = min(_FACTOR * n_components, _MAX_CANDIDATES, rows.n_rows)
    if n_components == 1 or n_candidates <= n_components:
        return network
    few = _rounds(network, rows, smoothing, context).advance(_FIRST_ROUNDS)
    try:
        many = _start(rows, n_candidates, context, noise)
        many = _rounds(many, rows, smoothing, context).advance(_SECOND_ROUNDS)
        ranked = _some(rows, _RANKED_ROWS, context.seed)
        while many.n_hidden > n_components:
            gain = leave_one_out_gain(many, ranked, engine=context.engine)
            keep = max(n_components, int(_KEPT_SHARE * many.n_hidden))
            dropped = np.sort(np.argsort(gain, kind="stable")[: many.n_hidden - keep])
            many = drop_hidden(many, dropped)
            many = _rounds(many, rows, smoothing, context).advance(_DROP_ROUNDS)
    except TimeUpError:
        return few
    scored = _some(rows, _SCORED_ROWS, context.seed)
    return max(few, many, key=lambda one: _score(one, scored, context))


def _in_stages(
    rounds: GibbsRounds, rows: Observations, n_rounds: int, context: Context, bar: Any
) -> Network:
    """Run stages of rounds until one of them gains nothing."""
    scored = _some(rows, _SCORED_ROWS, context.seed)
    done, before = 0, -np.inf
    while True:
        # Each stage doubles the rounds; a short rest joins the last stage.
        stage = max(done, min(_FIRST_STAGE, n_rounds))
        if n_rounds - done < 2 * stage:
            stage = n_rounds - done
        network = rounds.advance(stage, bar)
        done += stage
        if done >= n_rounds:
            return network
        score = _score(network, scored, context)
        if score - before < _MIN_RELATIVE_GAIN * abs(score):
            bar.update(n_rounds - done)
            return network
        before = score


def choose_smoothing(
    rows: Observations,
    n_components: int,
    context: Context,
    *,
    noise: Literal["shared", "per_visible"] = "per_visible",
) -> float:
    """Choose the number of pseudo-rows by validation rows, if the data have few ones.

    With fifty ones or more for each edge between causes and columns, the result is 0.5. With fewer,
    a fifth of the rows are set aside, causes are learned briefly from the others with 0.5, 4 and 16
    pseudo-rows, and the best log p of the rows set aside decides.

    Parameters
    ----------
    rows, n_components, context, noise : see `learn_causes`.
    """
    n_edges = n_components * rows.n_visible
    n_ones = float(rows.row_weights @ np.diff(rows.ptr))
    few_rows = _VALIDATION_SHARE * rows.total_weight < _MIN_VALIDATION_ROWS
    if n_ones >= _ONES_PER_EDGE * n_edges or few_rows:
        return _SMOOTHING
    training, unseen = hold_out(rows, _VALIDATION_SHARE, context.seed)
    assert unseen is not None
    validation = _some(unseen, _MAX_VALIDATION_ROWS, context.seed)
    best, best_score = _SMOOTHING, -np.inf
    try:
        start = _start(training, n_components, context, noise)
        with progress_bar(len(_SMOOTHINGS), "smoothing", "values", context.job) as bar:
            for smoothing in _SMOOTHINGS:
                network = _rounds(start, training, smoothing, context).advance(_CHOICE_ROUNDS)
                score = _score(network, validation, context)
                bar.update(1)
                if score <= best_score:
                    break
                best, best_score = smoothing, score
    except TimeUpError:
        pass
    return best


def sample_by_ones(rows: Observations, max_ones: int, seed: int) -> Observations:
    """Return all rows, or a random subset that has about this many ones at most.

    The cost of a round of Gibbs sampling is the number of ones times the number of causes, however
    many columns there are.
    """
    if rows.n_active <= max_ones:
        return rows
    count = max(1, int(rows.n_rows * (max_ones / rows.n_active)))
    order = np.random.default_rng(seed).permutation(rows.n_rows)
    return rows.take(np.sort(order[:count]))


def _start(
    rows: Observations,
    n_components: int,
    context: Context,
    noise: Literal["shared", "per_visible"],
) -> Network:
    """Return causes that are the classes of a mixture."""
    n_classes = min(n_components, rows.n_rows)
    mixture = learn_mixture(rows, n_classes, start="split", progress=context.job)
    return start_from_mixture(mixture, noise=noise)


def _some(rows: Observations, count: int, seed: int) -> Observations:
    """Return a random sample of the rows, drawn by their weights."""
    if rows.n_rows <= count:
        return rows
    generator = np.random.default_rng([seed, 5])
    index, times = np.unique(draw_rows(rows.row_weights, count, generator), return_counts=True)
    return rows.take(index).with_weights(times)


def _score(network: Network, rows: Observations, context: Context) -> float:
    """Return the mean log p of some rows."""
    return estimate_log_p(network, rows, seed=context.seed, engine=context.engine).mean


def _rounds(
    network: Network, rows: Observations, smoothing: float, context: Context
) -> GibbsRounds:
    chains = Chains(network, rows, engine=context.engine)
    # Causes are kinds of rows at the start: each says something about every column.
    return GibbsRounds(
        network, chains, smoothing=smoothing, smooth_to="frequency", seed=context.seed
    )
