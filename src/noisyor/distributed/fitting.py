"""Estimators on a cluster."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["fit"]

Estimator = TypeVar("Estimator")


def fit(client: Any, estimator: Estimator, rows: Any) -> Estimator:
    """Fit an estimator to rows that workers of a cluster read: ``estimator.fit(rows, client=…)``.

    Workers fetch a sample of the rows, from which the estimator starts as it would from rows in
    memory; `noisyor.distributed.train` goes on from there with all of them.

    Parameters
    ----------
    client : a ``distributed.Client``.
    estimator : one of `noisyor.estimators`.
    rows : as in `noisyor.distributed.train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> n_written = nor.data.write_rows("rows", [X])
    >>> model = nor.BooleanMatrixFactorization(n_components=2, steps=3)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = nor.distributed.fit(client, model, "rows")
    >>> model.transform([[1, 1, 1, 1]])
    array([[1, 1]], dtype=int8)
    """
    fitted: Estimator = estimator.fit(rows, client=client)  # type: ignore[attr-defined]
    return fitted
