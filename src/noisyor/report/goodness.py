"""How well the model fits, for the page: log p beside references, curve, calibration, noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.inference.evaluate import Score
from noisyor.inference.sampling import LogProbability, log_probability
from noisyor.io.provenance import metrics_of, training_curve
from noisyor.model.graph import Network
from noisyor.report.explorer import visible_names
from noisyor.report.inputs import Model
from noisyor.report.metadata import same_data
from noisyor.report.quality import Calibration, ExplainedRows, nothing_elbo
from noisyor.report.svg import Curve, Interval, calibration_chart, line_chart
from noisyor.report.words import Words

__all__ = ["fit_section", "noise_section"]

_LISTED = 15

_LOG_P_ROWS = 200
"""Rows whose log p is estimated, at most; a report never takes minutes."""

_METRIC_TITLES = {
    "held_out_log_p": "Held-out log p, at the end of training",
    "held_out_elbo": "Elbo of one explanation (paper), same held-out rows",
    "test_elbo": "Test bound, at the end of training",
    "held_out_independent": "Independent columns, same held-out rows",
    "independent_elbo": "Independent columns, same held-out rows",
    "trivial_elbo": "Explaining nothing, same held-out rows",
}
_REFERENCES = ("held_out_independent", "independent_elbo", "trivial_elbo")


def fit_section(
    model: Model, words: Words, explained: ExplainedRows | None, calibration: Calibration | None
) -> dict[str, Any]:
    """Values for the section on quality."""
    metrics = metrics_of(model.metadata)
    log_p = None if explained is None else _log_p(model.network, explained.observations)
    return {
        "bounds": _bounds(model, words, explained, log_p, metrics),
        "metrics": [
            (_METRIC_TITLES.get(name, name.replace("_", " ")), f"{value:,.4g}")
            for name, value in metrics.items()
        ],
        "log_p": log_p,
        "main": _main(explained, log_p, metrics),
        "curve": _curve(model, words, metrics),
        "calibration": None if calibration is None else _calibration(calibration, words),
    }


def noise_section(network: Network, observations: Observations | None) -> dict[str, Any]:
    """Noise of the visibles: one number if they share it, else the largest.

    ``doubtful`` lists visibles whose noise is far above how often they are on in the data: noise
    alone would switch them on too often, so training has not settled it.
    """
    noise = network.noise_probability
    names = visible_names(network)
    doubtful: list[tuple[str, float, float]] = []
    if observations is not None:
        weight = observations.row_weights
        seen = observations.total_weight - weight @ observations.missing_csr()
        share = weight @ observations.to_csr() / np.maximum(seen, 1)
        wrong = np.flatnonzero((noise > 2 * share + 0.01) & (seen > 0))
        worst = wrong[np.argsort(-noise[wrong], kind="stable")]
        doubtful = [(names[i], float(noise[i]), float(share[i])) for i in worst.tolist()]
    if noise.min() == noise.max():
        return {"shared": float(noise[0]), "doubtful": doubtful}
    order = np.argsort(-noise, kind="stable")[:_LISTED]
    return {
        "shared": None,
        "median": float(np.median(noise)),
        "largest": [(names[i], float(noise[i])) for i in order.tolist()],
        "doubtful": doubtful,
    }


def _log_p(network: Network, rows: Observations) -> LogProbability:
    """``log p`` of the rows, or of some that are spread evenly."""
    number = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, _LOG_P_ROWS)).round()
    return log_probability(network, rows.take(np.unique(number.astype(np.int64))))


def _main(
    explained: ExplainedRows | None, log_p: LogProbability | None, metrics: dict[str, float]
) -> dict[str, Any] | None:
    """The one number that the page leads with, and its reference."""
    reference = next((metrics[name] for name in _REFERENCES if name in metrics), None)
    if "held_out_log_p" in metrics:
        return {
            "title": "Held-out log p",
            "elbo": metrics["held_out_log_p"],
            "reference": reference,
        }
    if "held_out_elbo" in metrics:
        return {"title": "Held-out bound", "elbo": metrics["held_out_elbo"], "reference": reference}
    if explained is None or log_p is None:
        return None
    return {
        "title": "log p of the data",
        "elbo": log_p.mean,
        "reference": explained.independent,
    }


def _bounds(
    model: Model,
    words: Words,
    explained: ExplainedRows | None,
    log_p: LogProbability | None,
    metrics: dict[str, float],
) -> list[dict[str, Any]]:
    """Lines of the table of scores, in nats per row, the model's own first."""
    lines = []
    if explained is not None and log_p is not None:
        training = same_data(model.metadata, explained.observations.fingerprint())
        which = "the training data" if training else "the data given"
        how = "exact" if log_p.exact else "estimated"
        for title, score in (
            (f"log p under this model, {how}, on {which}", log_p),
            ("Elbo of one explanation (paper): a bound on it", Score(explained.elbo)),
        ):
            lines.append(
                {
                    "title": title,
                    "value": score.mean,
                    "error": score.standard_error if len(score.per_row) > 1 else None,
                    "model": True,
                }
            )
        for title, value in (
            (f"Independent {words.visibles}, fitted to the same data", explained.independent),
            (
                "Explaining nothing: all left to noise",
                nothing_elbo(model.network, explained.observations),
            ),
        ):
            lines.append({"title": title, "value": value, "error": None, "model": False})
    for name, title in _METRIC_TITLES.items():
        if name in metrics:
            lines.append(
                {
                    "title": title,
                    "value": metrics[name],
                    "error": None,
                    "model": name not in _REFERENCES,
                }
            )
    return lines


def _curve(model: Model, words: Words, metrics: dict[str, float]) -> dict[str, Any] | None:
    record = training_curve(model.metadata)
    if record is None:
        return None
    reference = next((metrics[name] for name in _REFERENCES if name in metrics), None)
    curves = [
        Curve("train", *_smooth(record.step, record.elbo)),
        Curve("held-out", record.held_out_step, record.held_out_elbo, dots=True),
    ]
    values = np.concatenate([curves[0].y, record.held_out_elbo])
    last = float(values[-1])
    label = (
        f"Bound over {int(max(c.x.max() for c in curves if len(c.x)))} updates, ends at {last:.2f}"
    )
    if reference is not None:
        label += f"; the reference is {reference:.2f}"
    # The first steps fall far below everything of interest.
    best = float(values.max())
    floor = best - 3.0 * (best - float(np.quantile(values, 0.25))) - 1e-6
    if reference is not None:
        floor = min(floor, reference - 0.1 * abs(reference))
    return {
        "svg": line_chart(
            [curve for curve in curves if len(curve.x)],
            label,
            x_title="updates",
            y_title=f"bound, nats per {words.row}",
            reference=None if reference is None else (reference, "reference"),
            floor=floor,
        ),
        "has_held_out": bool(len(record.held_out_step)),
        "has_train": bool(len(record.step)),
    }


def _smooth(step: FloatArray, elbo: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means over a fortieth of the training: single batches differ more than the curve rises."""
    window = max(1, len(elbo) // 40)
    if window == 1:
        return step, elbo
    weights = np.full(window, 1.0 / window)
    return np.convolve(step, weights, mode="valid"), np.convolve(elbo, weights, mode="valid")


def _calibration(calibration: Calibration, words: Words) -> dict[str, Any]:
    points = [
        Interval(
            b.predicted,
            b.observed,
            b.least,
            b.most,
            f"predicted {b.predicted:.1%}, observed {b.observed:.1%} of {b.entries:,}",
        )
        for b in calibration.bins
    ]
    return {
        "svg": calibration_chart(
            points,
            f"Observed against predicted frequency in {len(points)} bins, "
            f"mean distance {calibration.gap:.1%}; the table beside holds the numbers",
            x_title="predicted probability",
            y_title="observed frequency",
        ),
        "bins": calibration.bins,
        "n_rows": calibration.n_rows,
        "n_entries": calibration.n_entries,
        "gap": calibration.gap,
    }
