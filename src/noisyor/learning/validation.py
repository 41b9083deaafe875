"""Held-out rows: set them aside, score a network on them, choose the number of components."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import TimeUpError, progress_bar
from noisyor._util.validation import BELOW_ONE, check_seed, or_none
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.engines.context import Context
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import Score
from noisyor.inference.max_product import log_joint, method_for
from noisyor.inference.sampling import (
    LogProbability,
    content_ids,
    few_configurations,
    log_probability,
)
from noisyor.learning.pruning import drop_hidden, leave_one_out_gain
from noisyor.model.network import Network

__all__ = [
    "SizeCurve",
    "Validation",
    "choose_size",
    "estimate_log_p",
    "hold_out",
    "split_validation",
    "validate",
]

_SHARE = 0.1
_FEW_ROWS = 20
_MOST_ROWS = 1000
"""Held-out rows whose log p is estimated, at most; its standard error says what that costs."""

_VALIDATION_SHARE = 0.25
"""Share of the rows that choose the number of components."""

_MAX_VALIDATION_ROWS = 3000
"""Above this many validation rows, a random subset of them chooses."""

_EARLY_SWEEPS, _LATE_SWEEPS = 120, 60
"""Gibbs sweeps that collect states of a row, and that estimate how many were missed."""

_MAX_SAMPLED_NODES = 256
"""With more hidden nodes, hardly any state is visited twice."""

_STEP = 0.75
"""Ratio of two successive sizes that are compared."""


class Validation(NamedTuple):
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
    """Split rows into rows to learn from and held-out rows, or None.

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
    """Return the rows that occur, each with its number of times as weight."""
    there = times > 0
    return data.with_weights(None).take(there).with_weights(times[there])


def validate(
    network: Network,
    train: Observations,
    held_out: Observations | None,
    *,
    engine: EngineLike = "auto",
) -> Validation:
    """Explain the held-out rows, or the training rows if there are none, and score them."""
    rows = train if held_out is None else held_out
    some = rows
    if rows.n_rows > _MOST_ROWS:
        order = np.random.default_rng(0).permutation(rows.n_rows)
        some = rows.take(np.sort(order[:_MOST_ROWS]))
    posterior = method_for(network).posterior(network, rows, engine=engine)
    return Validation(
        log_p=estimate_log_p(network, some, engine=engine),
        score=Score(posterior.log_joint, weights=rows.weights),
        reference=Score(independent_columns(train).log_probability(rows), weights=rows.weights),
        n_active=round(float(rows.row_weights @ np.diff(posterior.states.indptr))),
        n_held_out=0 if held_out is None else round(held_out.total_weight),
    )


def estimate_log_p(
    network: Network, rows: Observations, *, seed: int = 0, engine: EngineLike = "auto"
) -> LogProbability:
    """Estimate log p of rows with what a fit has compiled anyway: modes and Gibbs sweeps.

    Exact where the hidden states are few. In networks of one layer with up to 256 hidden nodes a
    Gibbs sampler starts at the mode of each row. The states that it visits first form a set whose
    probability is summed, and the share of the later sweeps that fall into the set says how much
    of the posterior the sum covers. Other networks are scored by `log_probability`.

    Parameters
    ----------
    network : the network.
    rows : rows to score.
    seed : key of the samples.
    engine : as in `explain`.
    """
    small = few_configurations(network)
    if small or network.n_layers > 1 or network.n_hidden > _MAX_SAMPLED_NODES:
        return log_probability(network, rows, seed=seed, engine=engine)
    distinct, index = rows.unique_rows()
    distinct = Observations.of(distinct.with_weights(None), row_ids=content_ids(distinct))
    codes, log_joints = _visit(network, distinct, seed, engine)
    # A stable sort puts the first visit of a state in front of the later ones.
    order = np.argsort(codes, axis=1, kind="stable")
    in_order = np.take_along_axis(codes, order, axis=1)
    is_first = np.ones(codes.shape, dtype=np.bool_)
    is_first[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    start = np.maximum.accumulate(np.where(is_first, np.arange(codes.shape[1]), 0), axis=1)
    first_visit = np.take_along_axis(order, start, axis=1)
    n_early = codes.shape[1] - _LATE_SWEEPS
    in_set = first_visit < n_early
    mass = np.where(is_first & in_set, np.take_along_axis(log_joints, order, axis=1), -np.inf)
    bound = logsumexp(mass, axis=1)
    hits = (in_set & (order >= n_early)).sum(axis=1)
    share = np.where(hits == _LATE_SWEEPS, 1.0, (hits + 0.5) / (_LATE_SWEEPS + 1.0))
    error = np.sqrt((1.0 - share) / (share * _LATE_SWEEPS))
    parts = (bound - np.log(share), error, bound)
    value, error, bound = (part[index] for part in parts)
    return LogProbability(value, error, bound, False, weights=rows.weights)


def _visit(
    network: Network, rows: Observations, seed: int, engine: EngineLike
) -> tuple[npt.NDArray[np.uint64], FloatArray]:
    """Return a hash and the log joint of the states visited, (n_rows, n_visits) each."""
    states = method_for(network).posterior(network, rows, engine=engine).states.toarray()
    states = np.ascontiguousarray(states, dtype=np.uint8)
    generator = np.random.default_rng(0)
    keys = generator.integers(1, 2**63, network.n_hidden, dtype=np.uint64)
    sampler, prepared = Runner(engine, network).on("gibbs_sweep")
    evidence = Evidence.of(network, rows)
    codes, log_joints = [], []
    for sweep in range(1 + _EARLY_SWEEPS + _LATE_SWEEPS):
        if sweep:
            key = NoiseKey(seed, sweep)
            states = sampler.gibbs_sweep(prepared, evidence, states, key).states
        # Zobrist hashing: sums of random keys wrap around and rarely collide.
        codes.append(states.astype(np.uint64) @ keys)
        log_joints.append(log_joint(network, states, rows, engine))
    return np.array(codes).T, np.array(log_joints).T


class SizeCurve(NamedTuple):
    """Validation log-likelihood by number of components.

    Attributes
    ----------
    chosen : the fewest components within one standard error of the best mean log-likelihood.
    n_components : sizes that were compared, ascending.
    log_p : mean log-likelihood of the validation rows at each size, in nats.
    standard_error : of each mean.
    n_rows : number of validation rows.

    >>> curve = SizeCurve.of({1: np.array([-9.0, -7.0]), 4: np.array([-5.0, -3.0])}, np.ones(2))
    >>> curve.chosen, curve.log_p
    (4, [-8.0, -4.0])
    """

    chosen: int
    n_components: list[int]
    log_p: list[float]
    standard_error: list[float]
    n_rows: int

    @classmethod
    def of(cls, per_row: Mapping[int, FloatArray], weights: FloatArray) -> SizeCurve:
        """Build the curve from log p of every validation row (n_rows,) at each size."""
        sizes = sorted(per_row)
        scores = [Score(per_row[size], weights=weights) for size in sizes]
        best = max(scores, key=lambda score: score.mean)
        close = best.mean - best.standard_error
        chosen = next(
            size for size, score in zip(sizes, scores, strict=True) if score.mean >= close
        )
        means, errors = [s.mean for s in scores], [s.standard_error for s in scores]
        return cls(chosen, sizes, means, errors, round(float(weights.sum())))


def split_validation(rows: Observations, seed: int) -> tuple[Observations, Observations]:
    """Split rows into training rows and validation rows, a few thousand of them at most."""
    training, validation = hold_out(rows, _VALIDATION_SHARE, seed)
    assert validation is not None
    if validation.n_rows > _MAX_VALIDATION_ROWS:
        order = np.random.default_rng([seed, 4]).permutation(validation.n_rows)
        validation = validation.take(np.sort(order[:_MAX_VALIDATION_ROWS]))
    return training, validation


def choose_size(
    network: Network,
    training: Observations,
    validation: Observations,
    refit: Callable[[Network], Network],
    context: Context,
) -> tuple[Network, SizeCurve | None]:
    """Drop hidden nodes while validation rows lose less than one standard error.

    The hidden nodes are ranked once, by how far the bound of the training rows falls without each.
    Networks of the first nodes of that list, each size three quarters of the one before, are
    refitted and scored. When the time of the job is over, the sizes scored so far decide.

    Parameters
    ----------
    network : bipartite, learned from the training rows.
    training, validation : rows.
    refit : adapts the parameters of a network that has lost hidden nodes.
    context : engine, seed and deadline.

    Returns
    -------
    The chosen network, and the curve; None if there was no time to score any size.
    """
    networks, per_row = {network.n_hidden: network}, {}
    try:
        gain = leave_one_out_gain(network, training, engine=context.engine)
        ranked = np.argsort(-gain, kind="stable")
        with progress_bar(None, "sizes", "sizes", context.job) as bar:
            while True:
                size = network.n_hidden
                networks[size] = network
                found = estimate_log_p(
                    network, validation, seed=context.seed, engine=context.engine
                )
                per_row[size] = found.per_row
                bar.update(1)
                if size == 1:
                    break
                keep = max(1, int(size * _STEP))
                network = refit(drop_hidden(network, ranked[keep:]))
                ranked = np.argsort(np.argsort(ranked[:keep]))
    except TimeUpError:
        if not per_row:
            return network, None
    curve = SizeCurve.of(per_row, validation.row_weights)
    return networks[curve.chosen], curve
