"""Measure how well a model fits data: log-probability, its references, and the number of causes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evaluate import Score, explain
from noisyor.inference.max_product import method_for
from noisyor.inference.sampling import LogProbability, log_probability
from noisyor.io.model_file import metrics_of, number_curve
from noisyor.model.network import Network
from noisyor.report.charts import line_chart
from noisyor.report.inputs import Model, Words, same_data
from noisyor.search.cover import draw_rows

_MAX_ONES, _LOG_P_ROWS = 300_000, 200
"""Ones of the rows to explain, and rows whose log-probability is estimated, at most: a report
takes seconds."""

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


def explain_rows(
    network: Network,
    observations: Observations,
    max_rows: int,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> ExplainedRows:
    """Infer the most likely causes of at most ``max_rows`` rows, spread evenly over the data.

    Fewer rows are taken if they have very many ones. Rows with weights are drawn in proportion to
    their weights, because a report counts every row once.
    """
    n_rows = round(observations.total_weight)
    number = _spread(observations, max_rows)
    chosen = observations.with_weights(None).take(number)
    method = method_for(network)
    posterior = explain(network, chosen, method, engine=engine, progress=progress)
    independent = float(independent_columns(observations).log_probability(chosen).mean())
    return ExplainedRows(chosen, number, n_rows, posterior.states, posterior.log_joint, independent)


def _spread(observations: Observations, max_rows: int) -> LongArray:
    """Return indices of rows spread evenly that together have at most about ``_MAX_ONES`` ones."""
    n_rows, weights = observations.n_rows, observations.weights
    by_ones = n_rows * _MAX_ONES // max(1, observations.n_active)
    if weights is not None:
        n_rows = max(n_rows, round(observations.total_weight))
    kept = max(1, min(n_rows, max_rows, by_ones))
    if weights is not None:
        return draw_rows(weights, kept, np.random.default_rng(0))
    return spread(n_rows, kept)


def spread(n: int, most: int) -> LongArray:
    """Return at most ``most`` of the numbers 0 .. n - 1, spread evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def fit_section(
    model: Model,
    words: Words,
    explained: ExplainedRows | None,
    with_log_p: bool = True,
) -> dict[str, Any]:
    """Return the values of the section on the quality of the fit."""
    metrics = metrics_of(model.metadata)
    log_p = None
    if explained is not None and with_log_p:
        rows = explained.observations
        log_p = log_probability(model.network, rows.take(spread(rows.n_rows, _LOG_P_ROWS)))
    return {
        "bounds": _score_lines(model, words, explained, log_p, metrics),
        "metrics": [
            (_METRIC_TITLES.get(name, name.replace("_", " ")), f"{value:,.4g}")
            for name, value in metrics.items()
        ],
        "log_p": log_p,
        "main": _main_score(explained, log_p, metrics),
        "numbers": _numbers(model, words),
    }


def _main_score(
    explained: ExplainedRows | None, log_p: LogProbability | None, metrics: dict[str, float]
) -> dict[str, Any] | None:
    """Return the main score of the page, and its baseline."""
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


def _numbers(model: Model, words: Words) -> dict[str, Any] | None:
    """Return the chart of validation log p by number of causes, if the number was chosen."""
    curve = number_curve(model.metadata)
    if curve is None:
        return None
    best = int(curve.n_components[curve.log_p.argmax()])
    label = f"Validation log p by number of {words.causes}; {curve.chosen} were chosen"
    svg = line_chart(
        curve.n_components,
        curve.log_p,
        curve.standard_error,
        curve.n_components == curve.chosen,
        label,
        x_title=f"number of {words.causes}",
        y_title=f"log p of validation {words.rows}, nats",
    )
    return {"svg": svg, "chosen": curve.chosen, "best": best}
