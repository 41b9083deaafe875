"""How good a learned network is, by rows that it has not seen and beside independent columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.validation import BELOW_ONE, check_seed, or_none
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import Score
from noisyor.inference.max_product import method_for
from noisyor.inference.sampling import LogProbability, log_probability
from noisyor.metrics import independent_score
from noisyor.model.network import Network

__all__ = ["Judgement", "hold_out", "judge"]

_SHARE = 0.1
_FEW_ROWS = 20
_MOST_ROWS = 1000
"""Rows whose log p is estimated, at most: the error is that of the rows, and is told."""


class Judgement(NamedTuple):
    """Scores of the rows that were held out, or of the training rows if none were.

    ``log_p`` of these rows, or of a random thousand of them; ``score`` is the paper's Elbo^MP;
    ``reference`` what independent columns score on the rows; ``n_active`` how many causes are on in
    the explanations of these rows together; ``n_held_out`` rows, 0 if none.
    """

    log_p: LogProbability
    score: Score
    reference: Score
    n_active: int
    n_held_out: int


def hold_out(
    data: Observations, share: float | None, seed: int
) -> tuple[Observations, Observations | None]:
    """Rows to learn from, and rows to judge by or None.

    ``share`` of the rows is held out; None stands for a tenth if there are at least 20 rows, and
    for none otherwise. A row whose weight is a whole number is that many rows: some may be held
    out and the others not.
    """
    or_none(BELOW_ONE).check("held_out", share)
    seed = check_seed(seed)
    if share is None:
        share = _SHARE if data.total_weight >= _FEW_ROWS else 0.0
    if share == 0:
        return data, None
    weights = data.weights
    if weights is None or (weights != np.round(weights)).any():
        return data.split(1.0 - share, seed)
    n_held = int(data.total_weight) - int(data.total_weight * (1.0 - share) + 1e-9)
    if not 0 < n_held < data.total_weight:
        raise InvalidSettingError(
            f"held out, a share of {share!r} leaves no row in one part of {data.total_weight:g}"
        )
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        weights.astype(np.int64), n_held, method="marginals"
    )
    return _counted(data, weights - drawn), _counted(data, drawn)


def _counted(data: Observations, times: npt.NDArray[Any]) -> Observations:
    """The rows that are there, each so many times."""
    there = times > 0
    return data.with_weights(None).take(there).with_weights(times[there])


def judge(
    network: Network,
    train: Observations,
    held_out: Observations | None,
    *,
    engine: EngineLike = "auto",
) -> Judgement:
    """Explain the held-out rows, or the training rows if there are none, and score them."""
    rows = train if held_out is None else held_out
    some = rows
    if rows.n_rows > _MOST_ROWS:
        order = np.random.default_rng(0).permutation(rows.n_rows)
        some = rows.take(np.sort(order[:_MOST_ROWS]))
    posterior = method_for(network).posterior(network, rows, engine=engine)
    return Judgement(
        log_p=log_probability(network, some, engine=engine),
        score=Score(posterior.log_joint, weights=rows.weights),
        reference=independent_score(train, rows),
        n_active=round(float(rows.row_weights @ np.diff(posterior.states.indptr))),
        n_held_out=0 if held_out is None else round(held_out.total_weight),
    )
