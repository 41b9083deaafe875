"""Where a model came from: what a model file says about its data, settings and quality."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.learning.train import History

__all__ = ["Kind", "provenance"]

Kind = Literal["factors", "topics", "features", "network"]
"""What a model is: causes of columns, a hierarchy of topics, features of images, any graph."""

_CURVE_POINTS = 400


def provenance(
    kind: Kind,
    observations: Observations,
    *,
    settings: Mapping[str, Any],
    metrics: Mapping[str, float],
    history: History | None = None,
    source: str | None = None,
) -> dict[str, Any]:
    """Metadata for `save_network`, all of it plain JSON.

    Parameters
    ----------
    kind : what the model is.
    observations : the training data; only their size and a fingerprint are kept.
    settings : how the model was learned.
    metrics : such as ``held_out_elbo``.
    history : record of the training; its curve is thinned to a few hundred points.
    source : name of the file that the data came from.
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
        "curve": _curve(history),
        "versions": {
            "noisyor": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _curve(history: History | None) -> dict[str, list[float]]:
    """The training curve in a few hundred means, and the held-out bounds."""
    if history is None or not len(history.elbo):
        return {"step": [], "elbo": [], "held_out_step": [], "held_out_elbo": []}
    edges = np.unique(np.linspace(0, len(history.elbo), _CURVE_POINTS + 1).astype(int))
    return {
        "step": edges[1:].tolist(),
        "elbo": [float(history.elbo[a:b].mean()) for a, b in pairwise(edges)],
        "held_out_step": [int(point.step) for point in history.evaluations],
        "held_out_elbo": [float(point.elbo) for point in history.evaluations],
    }
