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
    >>> n_written = nor.data.write_rows("rows", [np.eye(4), np.ones((4, 4))])
    >>> model = nor.BooleanMatrixFactorization(n_components=2, steps=3)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = nor.distributed.fit(client, model, "rows")
    >>> model.transform(np.ones((1, 4))).shape
    (1, 2)
    """
    fitted: Estimator = estimator.fit(rows, client=client)  # type: ignore[attr-defined]
    return fitted
