"""How well a model fits data: bounds beside their references, and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import explain
from noisyor.inference.max_product import method_for
from noisyor.metrics import independent_score
from noisyor.model.forward import visible_probability
from noisyor.model.graph import Network
from noisyor.model.parameters import THETA_MIN
from noisyor.search.restarts import draw_rows

__all__ = ["Bin", "Calibration", "ExplainedRows", "calibrate", "explain_rows", "nothing_elbo"]

_HIDDEN_SHARE = 0.2
_SAMPLES = 10
_CALIBRATION_CELLS = 2_000_000
_CALIBRATION_ROWS = 500
_CALIBRATION_EDGES = 300_000_000
_CALIBRATION_ONES = 30_000
_MAX_ONES = 300_000
_EDGES = np.array([0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


class ExplainedRows(NamedTuple):
    """Rows and their most likely causes.

    ``observations`` the rows that were explained, ``number`` (n,) their numbers in the data,
    ``n_rows`` how many rows the data have, ``states`` sparse (n, n_hidden), ``elbo`` (n,) the bound
    of each row, ``independent`` the mean log p if columns were independent.
    """

    observations: Observations
    number: LongArray
    n_rows: int
    states: Any
    elbo: FloatArray
    independent: float


class Bin(NamedTuple):
    """Entries whose predicted probability lies in a range: their number, the mean prediction, the
    share that is on, and the 95 % interval of that share.
    """

    low: float
    high: float
    entries: int
    predicted: float
    observed: float
    least: float
    most: float


class Calibration(NamedTuple):
    """Predictions of entries that the model was not shown, in bins.

    ``n_rows`` rows, ``n_entries`` hidden entries; ``gap`` mean distance of predicted and observed,
    weighted by the entries of a bin.
    """

    bins: list[Bin]
    n_rows: int
    n_entries: int
    gap: float


def explain_rows(
    network: Network,
    observations: Observations,
    max_rows: int,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> ExplainedRows:
    """Most likely causes of all rows, or of ``max_rows`` rows spread evenly over the data.

    Of rows with very many ones fewer are taken, so that a report never takes minutes. Rows with
    weights are taken as often as these say: a report counts every row once.
    """
    n_rows = round(observations.total_weight)
    number = _spread(observations, max_rows, _MAX_ONES)
    chosen = observations
    if observations.weights is not None:
        chosen = observations.with_weights(None).take(number)
    elif len(number) < n_rows:
        chosen = observations.take(number)
    posterior = explain(
        network,
        chosen,
        method_for(network),
        engine=engine,
        progress=progress,
    )
    independent = independent_score(observations, chosen).mean
    return ExplainedRows(chosen, number, n_rows, posterior.states, posterior.log_joint, independent)


def nothing_elbo(network: Network, observations: Observations) -> float:
    """Mean ``log p(h, x)`` with every cause off: what noise alone would have to explain."""
    theta = np.maximum(network.theta[network.leak_param], THETA_MIN)
    noise = theta[: network.n_visible]
    prior = network.sets.log_all_off(theta[network.n_visible :])
    on, off = np.log(-np.expm1(-noise)), -noise
    weight, total = observations.row_weights, observations.total_weight
    seen = total - weight @ observations.missing_csr()
    ones = weight @ observations.to_csr()
    return float(prior + (ones @ on + (seen - ones) @ off) / total)


def calibrate(
    network: Network, rows: ExplainedRows, seed: int = 0, engine: EngineLike = "auto"
) -> Calibration | None:
    """Hide a fifth of the entries, infer causes from the others, predict what was hidden.

    Predictions are means over ten perturbed explanations of each row. None if there is nothing
    to hide.
    """
    by_cells = _CALIBRATION_CELLS // network.n_visible
    by_edges = _CALIBRATION_EDGES // (_SAMPLES * max(1, network.n_edges))
    max_rows = min(_CALIBRATION_ROWS, max(20, min(by_cells, by_edges)))
    given = rows.observations.take(_spread(rows.observations, max_rows, _CALIBRATION_ONES))
    draw = np.random.default_rng(seed).random((given.n_rows, given.n_visible))
    known = ~np.isnan(given.to_dense())
    hide: BoolArray = (draw < _HIDDEN_SHARE) & known
    if not hide.any():
        return None
    truth = given.to_csr().toarray()[hide].astype(np.bool_)
    method = replace(method_for(network), temperature=1.0, n_samples=_SAMPLES)
    partly = Observations.of(given, missing=hide | ~known)
    posterior = explain(network, partly, method, seed=seed, engine=engine)
    predicted = np.zeros(int(hide.sum()))
    for number in range(_SAMPLES):
        predicted += visible_probability(network, posterior.sample(number))[hide]
    predicted /= _SAMPLES
    bins = _bins(predicted, truth)
    gap = sum(b.entries * abs(b.predicted - b.observed) for b in bins) / len(truth)
    return Calibration(bins, given.n_rows, len(truth), gap)


def _spread(observations: Observations, max_rows: int, max_ones: int) -> LongArray:
    """Numbers of rows spread evenly, few enough to hold at most about so many ones."""
    n_rows, weights = observations.n_rows, observations.weights
    by_ones = n_rows * max_ones // max(1, observations.n_active)
    if weights is not None:
        n_rows = max(n_rows, round(observations.total_weight))
    kept = max(1, min(n_rows, max_rows, by_ones))
    if weights is not None:
        return draw_rows(weights, kept, np.random.default_rng(0))
    return np.unique(np.linspace(0, n_rows - 1, kept).round().astype(np.int64))


def _bins(predicted: FloatArray, truth: npt.NDArray[np.bool_]) -> list[Bin]:
    place = np.clip(np.searchsorted(_EDGES, predicted, side="right") - 1, 0, len(_EDGES) - 2)
    bins = []
    for number in np.unique(place):
        inside = place == number
        count, ones = int(inside.sum()), int(truth[inside].sum())
        least, most = _wilson(ones, count)
        bins.append(
            Bin(
                float(_EDGES[number]),
                float(_EDGES[number + 1]),
                count,
                float(predicted[inside].mean()),
                ones / count,
                least,
                most,
            )
        )
    return bins


def _wilson(ones: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share; unlike the plain one it makes sense for few or no ones."""
    share = ones / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))
