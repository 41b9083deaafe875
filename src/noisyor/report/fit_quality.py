"""How well a model fits data: log-probability and references, calibration, training, noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import Score, explain
from noisyor.inference.max_product import method_for
from noisyor.inference.sampling import LogProbability, log_probability
from noisyor.io.provenance import metrics_of, number_curve, training_curve
from noisyor.model.forward import visible_probability
from noisyor.model.network import Network
from noisyor.report.charts import Curve, calibration_chart, line_chart
from noisyor.report.inputs import Model, Words, same_data
from noisyor.search.cover import draw_rows

# A report takes seconds, not minutes: these bound the rows, ones, cells and edges of each part.
_MAX_ONES = 300_000
_LOG_P_ROWS = 200
_CALIBRATION_ROWS, _CALIBRATION_ONES = 500, 30_000
_CALIBRATION_CELLS, _CALIBRATION_EDGES = 2_000_000, 300_000_000

_HIDDEN_SHARE, _SAMPLES = 0.2, 10
"""Share of entries that calibration hides, and explanations that predict them."""

_BIN_EDGES = np.array([0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])

_METRIC_TITLES = {
    "held_out_log_p": "Held-out log p, at the end of training",
    "held_out_elbo": "Elbo of one explanation (paper), same held-out rows",
    "held_out_independent": "Independent columns, same held-out rows",
}
_REFERENCE = "held_out_independent"


class ExplainedRows(NamedTuple):
    """Rows with their most likely causes.

    ``observations`` the rows that were explained; ``number`` (n,) their indices in the data;
    ``n_rows`` number of rows of the data; ``states`` sparse (n, n_hidden); ``elbo`` (n,) bound of
    each row; ``independent`` mean log p under independent columns.
    """

    observations: Observations
    number: LongArray
    n_rows: int
    states: Any
    elbo: FloatArray
    independent: float


class Bin(NamedTuple):
    """Entries whose predicted probability lies between ``low`` and ``high``.

    ``entries`` their number; ``predicted`` mean prediction; ``observed`` share that is on, with its
    95 % interval from ``least`` to ``most``.
    """

    low: float
    high: float
    entries: int
    predicted: float
    observed: float
    least: float
    most: float


class Calibration(NamedTuple):
    """Predictions of hidden entries in bins.

    ``n_rows`` rows and ``n_entries`` hidden entries; ``gap`` mean distance between predicted and
    observed frequency, weighted by the entries of a bin.
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
    """Infer the most likely causes of at most ``max_rows`` rows, spread evenly over the data.

    Fewer rows are taken if they have very many ones. Rows with weights are drawn as often as their
    weights say: a report counts every row once.
    """
    n_rows = round(observations.total_weight)
    number = _spread(observations, max_rows, _MAX_ONES)
    chosen = observations
    if observations.weights is not None:
        chosen = observations.with_weights(None).take(number)
    elif len(number) < n_rows:
        chosen = observations.take(number)
    method = method_for(network)
    posterior = explain(network, chosen, method, engine=engine, progress=progress)
    independent = float(independent_columns(observations).log_probability(chosen).mean())
    return ExplainedRows(chosen, number, n_rows, posterior.states, posterior.log_joint, independent)


def calibrate(
    network: Network, rows: ExplainedRows, seed: int = 0, engine: EngineLike = "auto"
) -> Calibration | None:
    """Hide a fifth of the entries, infer causes from the others, and predict the hidden ones.

    Predictions are means over ten perturbed explanations of each row. Returns None if no entry can
    be hidden.
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
    for sample in range(_SAMPLES):
        predicted += visible_probability(network, posterior.sample(sample))[hide]
    predicted /= _SAMPLES
    bins = _bins(predicted, truth)
    gap = sum(b.entries * abs(b.predicted - b.observed) for b in bins) / len(truth)
    return Calibration(bins, given.n_rows, len(truth), gap)


def _spread(observations: Observations, max_rows: int, max_ones: int) -> LongArray:
    """Return indices of rows spread evenly that together have at most about ``max_ones`` ones."""
    n_rows, weights = observations.n_rows, observations.weights
    by_ones = n_rows * max_ones // max(1, observations.n_active)
    if weights is not None:
        n_rows = max(n_rows, round(observations.total_weight))
    kept = max(1, min(n_rows, max_rows, by_ones))
    if weights is not None:
        return draw_rows(weights, kept, np.random.default_rng(0))
    return np.unique(np.linspace(0, n_rows - 1, kept).round().astype(np.int64))


def _bins(predicted: FloatArray, truth: BoolArray) -> list[Bin]:
    from scipy.stats import binomtest  # half a second to import, which other pages are spared

    last = len(_BIN_EDGES) - 2
    index = np.clip(np.searchsorted(_BIN_EDGES, predicted, side="right") - 1, 0, last)
    bins = []
    for k in np.unique(index).tolist():
        inside = index == k
        entries, ones = int(inside.sum()), int(truth[inside].sum())
        interval = binomtest(ones, entries).proportion_ci(method="wilson")
        low, high = float(_BIN_EDGES[k]), float(_BIN_EDGES[k + 1])
        mean = float(predicted[inside].mean())
        bins.append(Bin(low, high, entries, mean, ones / entries, *interval))
    return bins


def fit_section(
    model: Model,
    words: Words,
    explained: ExplainedRows | None,
    calibration: Calibration | None,
    with_log_p: bool = True,
) -> dict[str, Any]:
    """Return the values of the section on the quality of the fit."""
    metrics = metrics_of(model.metadata)
    log_p = None
    if explained is not None and with_log_p:
        rows = explained.observations
        some = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, _LOG_P_ROWS)).round()
        log_p = log_probability(model.network, rows.take(np.unique(some.astype(np.int64))))
    return {
        "bounds": _score_lines(model, words, explained, log_p, metrics),
        "metrics": [
            (_METRIC_TITLES.get(name, name.replace("_", " ")), f"{value:,.4g}")
            for name, value in metrics.items()
        ],
        "log_p": log_p,
        "main": _main_score(explained, log_p, metrics),
        "curve": _curve(model, words, metrics),
        "numbers": _numbers(model, words),
        "calibration": None if calibration is None else _calibration(calibration),
    }


def _main_score(
    explained: ExplainedRows | None, log_p: LogProbability | None, metrics: dict[str, float]
) -> dict[str, Any] | None:
    """Return the one score that the page leads with, and its reference."""
    reference = metrics.get(_REFERENCE)
    for name, title in (("held_out_log_p", "Held-out log p"), ("held_out_elbo", "Held-out bound")):
        if name in metrics:
            return {"title": title, "value": metrics[name], "reference": reference}
    if explained is None or log_p is None:
        return None
    return {"title": "log p of the data", "value": log_p.mean, "reference": explained.independent}


def _score_lines(
    model: Model,
    words: Words,
    explained: ExplainedRows | None,
    log_p: LogProbability | None,
    metrics: dict[str, float],
) -> list[dict[str, Any]]:
    """Return the lines of the table of scores in nats per row, the model's own first."""
    lines: list[dict[str, Any]] = []

    def add(title: str, value: float, error: float | None, is_model: bool) -> None:
        lines.append({"title": title, "value": value, "error": error, "model": is_model})

    if explained is not None:
        training = same_data(model.metadata, explained.observations.fingerprint())
        which = "the training data" if training else "the data given"
        elbo = Score(explained.elbo)
        if log_p is not None:
            how = "exact" if log_p.exact else "estimated"
            add(f"log p under this model, {how}, on {which}", log_p.mean, _error(log_p), True)
        add("Elbo of one explanation (paper): a bound on log p", elbo.mean, _error(elbo), True)
        independent = f"Independent {words.visibles}, fitted to the same data"
        add(independent, explained.independent, None, False)
    for name, title in _METRIC_TITLES.items():
        if name in metrics:
            add(title, metrics[name], None, name != _REFERENCE)
    return lines


def _error(score: Score | LogProbability) -> float | None:
    return score.standard_error if len(score.per_row) > 1 else None


def _curve(model: Model, words: Words, metrics: dict[str, float]) -> dict[str, Any] | None:
    record = training_curve(model.metadata)
    if record is None:
        return None
    reference = metrics.get(_REFERENCE)
    curves = [
        Curve("train", *_smooth(record.step, record.elbo)),
        Curve("held-out", record.held_out_step, record.held_out_elbo, dots=True),
    ]
    values = np.concatenate([curves[0].y, record.held_out_elbo])
    n_updates = int(max(c.x.max() for c in curves if len(c.x)))
    label = f"Bound over {n_updates} updates, ends at {float(values[-1]):.2f}"
    if reference is not None:
        label += f"; the reference is {reference:.2f}"
    # The first steps lie far below everything of interest and are left out.
    best = float(values.max())
    floor = best - 3.0 * (best - float(np.quantile(values, 0.25)))
    shown = [c._replace(x=c.x[c.y >= floor], y=c.y[c.y >= floor]) for c in curves]
    return {
        "svg": line_chart(
            [curve for curve in shown if len(curve.x)],
            label,
            x_title="updates",
            y_title=f"bound, nats per {words.row}",
            reference=None if reference is None else (reference, "independent columns"),
        ),
        "has_held_out": bool(len(record.held_out_step)),
        "has_train": bool(len(record.step)),
    }


def _numbers(model: Model, words: Words) -> dict[str, Any] | None:
    """Return the chart of validation log p by number of causes, if the number was chosen."""
    curve = number_curve(model.metadata)
    if curve is None:
        return None
    best = int(curve.n_components[curve.log_p.argmax()])
    label = f"Validation log p by number of {words.causes}; {curve.chosen} were chosen"
    at = curve.n_components == curve.chosen
    every = Curve("train", curve.n_components, curve.log_p, error=curve.standard_error)
    chosen = Curve("held-out", curve.n_components[at], curve.log_p[at], dots=True)
    svg = line_chart(
        [every, chosen],
        label,
        x_title=f"number of {words.causes}",
        y_title=f"log p of validation {words.rows}, nats",
    )
    return {"svg": svg, "chosen": curve.chosen, "best": best}


def _smooth(step: FloatArray, elbo: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Average over a fortieth of the training: batches differ more than the curve rises."""
    window = max(1, len(elbo) // 40)
    if window == 1:
        return step, elbo
    weights = np.full(window, 1.0 / window)
    return np.convolve(step, weights, mode="valid"), np.convolve(elbo, weights, mode="valid")


def _calibration(calibration: Calibration) -> dict[str, Any]:
    points = [
        (
            b.predicted,
            b.observed,
            b.least,
            b.most,
            f"predicted {b.predicted:.1%}, observed {b.observed:.1%} of {b.entries:,}",
        )
        for b in calibration.bins
    ]
    label = (
        f"Observed against predicted frequency in {len(points)} bins, mean distance "
        f"{calibration.gap:.1%}; the table beside holds the numbers"
    )
    return {"svg": calibration_chart(points, label), **calibration._asdict()}
