"""How good a learned network is, by rows that it has not seen and beside independent columns."""

from __future__ import annotations

from typing import NamedTuple

from noisyor._util.validation import BELOW_ONE, check_seed, or_none
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import Score
from noisyor.inference.max_product import method_for
from noisyor.metrics import independent_score
from noisyor.network.graph import Network

__all__ = ["Judgement", "hold_out", "judge"]

_SHARE = 0.1
_FEW_ROWS = 20


class Judgement(NamedTuple):
    """Scores of the rows that were held out, or of the training rows if none were.

    ``score`` is Elbo^MP; ``reference`` what independent columns score on the same rows;
    ``n_active`` how many causes are on in the explanations of these rows together;
    ``n_held_out`` rows, 0 if none.
    """

    score: Score
    reference: Score
    n_active: int
    n_held_out: int


def hold_out(
    data: Observations, share: float | None, seed: int
) -> tuple[Observations, Observations | None]:
    """Rows to learn from, and rows to judge by or None.

    ``share`` of the rows is held out; None stands for a tenth if there are at least 20 rows, and
    for none otherwise.
    """
    or_none(BELOW_ONE).check("held_out", share)
    seed = check_seed(seed)
    if share is None:
        share = _SHARE if data.n_rows >= _FEW_ROWS else 0.0
    if share == 0:
        return data, None
    return data.split(1.0 - share, seed)


def judge(
    network: Network,
    train: Observations,
    held_out: Observations | None,
    *,
    engine: EngineLike = "auto",
) -> Judgement:
    """Explain the held-out rows, or the training rows if there are none, and score them."""
    rows = train if held_out is None else held_out
    posterior = method_for(network).posterior(network, rows, engine=engine)
    return Judgement(
        score=Score(posterior.log_joint, weights=rows.weights),
        reference=independent_score(train, rows),
        n_active=int(posterior.states.nnz),
        n_held_out=0 if held_out is None else held_out.n_rows,
    )
