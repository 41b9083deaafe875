"""How many causes: as few as rows that were set aside do not clearly object to.

A description length takes the model to be true, and on real tables adds causes for what noisy-OR
does not describe. Rows that no candidate has seen have no such preference. Of the numbers tried the
smallest is taken whose log p is not below the best by more than the error of the difference, or by
more than three hundredths of what the best gains on independent columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.numerics import standard_error_of_mean
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.sampling import log_probability
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.judge import hold_out
from noisyor.learning.pruning import keep_best
from noisyor.learning.starts import start_by_search
from noisyor.metrics import independent_score
from noisyor.model.network import Network
from noisyor.search.restarts import sample_rows

__all__ = [
    "Choice",
    "choose_number",
    "fewest",
    "mean_and_error",
    "set_aside",
    "shrink",
]

_SHARE = 0.25
"""Of the rows, set aside to choose by."""

_JUDGES = 400
"""Rows to choose by, at most."""

_FEW_ROWS = 40
"""With fewer rows than this there is nothing to choose by."""

_STEP = 0.75
"""Each candidate has so many of the causes of the one before."""

_SWEEPS = 20
"""Rounds of Gibbs sampling by which the causes that are left take over."""

_MAX_ENTRIES = 2**22
"""Above this many entries, candidates are learned from a random subset of the rows."""

_TRIFLE = 0.03
"""Share of the gain on independent columns for which no cause is added, however sure it is."""


class Choice(NamedTuple):
    """The number that was chosen, and all candidates as mappings that JSON can hold.

    Each has ``n_components``, ``log_p`` of the rows set aside with its ``standard_error``, and how
    far it is ``below`` the best with the ``error`` of that difference; ``n_rows`` were set aside.
    """

    n_components: int
    n_rows: int
    candidates: list[dict[str, float]]

    def record(self) -> dict[str, Any]:
        """For the settings of a model."""
        return {"chosen": self.n_components, "rows": self.n_rows, "candidates": self.candidates}


def choose_number(
    rows: Observations,
    *,
    noise: Any,
    n_restarts: int,
    seed: int,
    engine: EngineLike,
    progress: Any,
) -> Choice | None:
    """Number of causes of a table, up to what a search finds; None if there are too few rows."""
    if rows.total_weight < _FEW_ROWS:
        return None
    rest, judges = set_aside(rows, seed)
    network, _ = start_by_search(
        rest,
        "auto",
        noise=noise,
        n_restarts=n_restarts,
        seed=seed,
        engine=engine,
        progress=progress,
    )
    scores = {
        one.n_hidden: log_probability(one, judges, seed=seed, engine=engine).per_row
        for one in shrink(network, rest, 1, seed=seed, engine=engine)
    }
    return fewest(scores, independent_score(rest, judges).per_row, judges)


def shrink(
    network: Network, X: Any, n_components: int, *, seed: int, engine: EngineLike
) -> Iterator[Network]:
    """A bipartite network, and the same with fewer and fewer hidden nodes, down to so many."""
    _, rows = sample_rows(Observations.of(X).unique_rows()[0], _MAX_ENTRIES, seed)
    yield network
    while network.n_hidden > n_components:
        size = max(n_components, int(network.n_hidden * _STEP))
        network = keep_best(network, rows, size, engine=engine)
        network = learn_by_gibbs(network, rows, sweeps=_SWEEPS, seed=seed, engine=engine)
        yield network


def set_aside(rows: Observations, seed: int) -> tuple[Observations, Observations]:
    """Rows to learn from, and rows to choose by."""
    rest, judges = hold_out(rows, _SHARE, seed)
    assert judges is not None
    if judges.n_rows > _JUDGES:
        order = np.random.default_rng([seed, 4]).permutation(judges.n_rows)
        judges = judges.take(np.sort(order[:_JUDGES]))
    return rest, judges


def fewest(scores: dict[int, FloatArray], independent: FloatArray, judges: Observations) -> Choice:
    """The one-standard-error rule, with the error of the difference to the best, row by row.

    Where the best is not clearly better than independent columns, there is one cause.
    """
    best = max(scores.values(), key=judges.mean)
    gain, doubt = mean_and_error(judges, best - independent)
    candidates = []
    for number, per_row in sorted(scores.items()):
        mean, error = mean_and_error(judges, per_row)
        below, difference = mean_and_error(judges, best - per_row)
        candidates.append(
            {
                "n_components": number,
                "log_p": mean,
                "standard_error": error,
                "below": below,
                "error": difference,
            }
        )
    near = [one for one in candidates if one["below"] <= max(one["error"], _TRIFLE * gain)]
    chosen = near[0] if gain > doubt else candidates[0]
    return Choice(int(chosen["n_components"]), round(judges.total_weight), candidates)


def mean_and_error(rows: Observations, values: FloatArray) -> tuple[float, float]:
    """Mean over rows, and its standard error."""
    return rows.mean(values), standard_error_of_mean(values, rows.row_weights)
