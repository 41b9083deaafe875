"""Where a model came from: what a model file says about its data, settings and quality."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from noisyor._util.kinds import Kind
from noisyor._version import __version__
from noisyor.data.observations import Observations

__all__ = ["provenance"]

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
    """Metadata for `save_network`, all of it plain JSON.

    Parameters
    ----------
    kind : what the model is.
    observations : the training data; only their size and a fingerprint are kept.
    settings : how the model was learned.
    metrics : such as ``held_out_elbo``.
    curve : of the training, see `noisyor.learning.train.History.curve`.
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
