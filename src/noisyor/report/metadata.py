"""What a model file says about itself, in words; nothing in it is taken for granted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray

__all__ = ["TrainingCurve", "metrics_of", "provenance_rows", "same_data", "training_curve"]

_LONGEST = 300

_TITLES = {
    "created": "Created",
    "kind": "Kind",
    "data.rows": "Training rows",
    "data.columns": "Training columns",
    "data.ones": "Ones in the training data",
    "data.missing": "Unobserved entries",
    "data.sha256": "Fingerprint of the training data (SHA-256)",
    "data.source": "Training data from",
    "versions.noisyor": "Version of noisyor",
    "versions.numpy": "Version of NumPy",
    "versions.python": "Version of Python",
}


class TrainingCurve(NamedTuple):
    """Bound of the training batches and of held-out rows over the steps, each perhaps empty."""

    step: FloatArray
    elbo: FloatArray
    held_out_step: FloatArray
    held_out_elbo: FloatArray


def metrics_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among the metrics."""
    return {
        name: float(value)
        for name, value in _mapping(metadata.get("metrics")).items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def same_data(metadata: Mapping[str, Any], fingerprint: str) -> bool:
    """Whether these are the data that the model was trained on."""
    return _mapping(metadata.get("data")).get("sha256") == fingerprint


def training_curve(metadata: Mapping[str, Any]) -> TrainingCurve | None:
    """The record of the training, or None if there is none that can be drawn."""
    record = _mapping(metadata.get("curve"))
    train = _pairs(record.get("step"), record.get("elbo"))
    held_out = _pairs(record.get("held_out_step"), record.get("held_out_elbo"))
    if not len(train[0]) and not len(held_out[0]):
        return None
    return TrainingCurve(*train, *held_out)


def provenance_rows(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything else that the file says, flat: what, and its value as text."""
    rows: list[tuple[str, str]] = []
    first = [name for name in ("created", "kind", "data", "settings") if name in metadata]
    rest = [name for name in metadata if name not in (*first, "curve", "metrics")]
    for name in [*first, *rest]:
        _flatten(metadata[name], name, rows)
    return rows


def _flatten(value: Any, path: str, rows: list[tuple[str, str]]) -> None:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            _flatten(inner, f"{path}.{key}" if path else str(key), rows)
        return
    if value is None or value == {}:
        return
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    title = _TITLES.get(path) or path.removeprefix("settings.").replace("_", " ").replace(".", ": ")
    rows.append((title, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pairs(x: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    empty = np.empty(0), np.empty(0)
    try:
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        return empty
    if xs.ndim != 1 or xs.shape != ys.shape:
        return empty
    finite = np.isfinite(xs) & np.isfinite(ys)
    return xs[finite], ys[finite]
