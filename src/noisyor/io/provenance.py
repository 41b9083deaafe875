"""The metadata of a model file: its data, settings and quality.

The metadata of a file may be anything that JSON holds. The functions here return values of the
expected type and leave out everything else.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_args

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import is_finite, is_whole
from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.model.names import Kind
from noisyor.model.network import Network

TOPIC_WORDS = "topic_words"
"""Entry of the metadata with the columns that describe each topic of one layer."""

_MAX_SIZE = 1e15
"""Largest plausible metric, bound or step; larger values could overflow."""

NO_CURVE: Mapping[str, list[float]] = {
    "step": [],
    "elbo": [],
    "held_out_step": [],
    "held_out_elbo": [],
}


def provenance(
    kind: Kind,
    observations: Observations,
    *,
    settings: Mapping[str, Any],
    metrics: Mapping[str, float],
    curve: Mapping[str, list[float]] | None = None,
    source: str | None = None,
) -> dict[str, Any]:
    """Describe data, settings and quality of a model as metadata for `save_network`.

    Parameters
    ----------
    kind : what the model is.
    observations : the training data; only their size and a fingerprint are kept.
    settings : how the model was learned.
    metrics : such as ``held_out_elbo``.
    curve : of the training, the dictionary that ``History.curve()`` returns.
    source : name of the file that the data came from.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> from noisyor.io.provenance import provenance
    >>> rows = nor.Observations.of(np.eye(3))
    >>> provenance("factors", rows, settings={}, metrics={})["data"]["rows"]
    3
    """
    return {
        "kind": kind,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "rows": observations.n_rows,
            "columns": observations.n_visible,
            "ones": int(observations.n_active),
            "missing": int(observations.n_missing),
            "sha256": observations.fingerprint(),
            "source": source,
        },
        "settings": dict(settings),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "curve": dict(curve or NO_CURVE),
        "versions": {
            "noisyor": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def mapping_in(metadata: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an entry of the metadata that is a mapping, or an empty mapping."""
    value = metadata.get(name)
    return value if isinstance(value, Mapping) else {}


def kind_of(metadata: Mapping[str, Any]) -> Kind:
    """Return the kind of model in the metadata; "network" if there is none."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    return next((kind for kind in kinds if metadata.get("kind") == kind), "network")


def metrics_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a plausible size among the metrics."""
    return {
        name: float(value)
        for name, value in mapping_in(metadata, "metrics").items()
        if is_finite(value) and abs(value) <= _MAX_SIZE
    }


def topic_words_of(metadata: Mapping[str, Any], network: Network) -> list[list[int]] | None:
    """Return the columns that describe each topic, or None if the metadata lack them."""
    lists = metadata.get(TOPIC_WORDS)
    if not isinstance(lists, list) or len(lists) != network.n_hidden:
        return None
    for words in lists:
        if not isinstance(words, list):
            return None
        if not all(is_whole(word) and 0 <= word < network.n_visible for word in words):
            return None
    return [[int(word) for word in words] for words in lists]


def recurrence_of(metadata: Mapping[str, Any], network: Network) -> list[float] | None:
    """Return the share of resamples in which each cause was found again, or None if unknown."""
    shares = mapping_in(metadata, "stability").get("recurrence")
    if not isinstance(shares, list) or len(shares) != network.n_hidden:
        return None
    if not all(is_finite(share) and 0 <= share <= 1 for share in shares):
        return None
    return [float(share) for share in shares]


class NumberCurve(NamedTuple):
    """Validation log p by number of causes, with its standard error, and the number chosen."""

    n_components: FloatArray
    log_p: FloatArray
    standard_error: FloatArray
    chosen: int


def number_curve(metadata: Mapping[str, Any]) -> NumberCurve | None:
    """Return how the number of causes was chosen, or None if it was given."""
    record = mapping_in(mapping_in(metadata, "settings"), "n_components_curve")
    sizes, log_p = _pairs(record.get("n_components"), record.get("log_p"))
    other, error = _pairs(record.get("n_components"), record.get("standard_error"))
    chosen: Any = record.get("chosen")
    if not len(sizes) or not np.array_equal(sizes, other) or not is_whole(chosen):
        return None
    return NumberCurve(sizes, log_p, error, int(chosen))


class TrainingCurve(NamedTuple):
    """Bound of the training batches and of held-out rows over the steps, each perhaps empty."""

    step: FloatArray
    elbo: FloatArray
    held_out_step: FloatArray
    held_out_elbo: FloatArray


def training_curve(metadata: Mapping[str, Any]) -> TrainingCurve | None:
    """Return the record of the training, or None if there is none to draw."""
    record = mapping_in(metadata, "curve")
    train = _pairs(record.get("step"), record.get("elbo"))
    held_out = _pairs(record.get("held_out_step"), record.get("held_out_elbo"))
    if not len(train[0]) and not len(held_out[0]):
        return None
    return TrainingCurve(*train, *held_out)


def _pairs(x: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    empty = np.empty(0), np.empty(0)
    try:
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return empty
    if xs.ndim != 1 or xs.shape != ys.shape:
        return empty
    plausible = (xs >= 0) & (xs <= _MAX_SIZE) & (np.abs(ys) <= _MAX_SIZE)  # and no NaN
    return xs[plausible], ys[plausible]
