"""Mean field of the compiled engine: what the contract cannot see from outside."""

import numpy as np

import noisyor as nor
from noisyor.engines.contract import MeanFieldResult


def test_bounds_of_rows_to_come_are_not_touched(monkeypatch):
    """Memory that is not filled yet may hold anything, such as numbers that overflow."""
    made = MeanFieldResult.empty

    def filled(*size):
        result = made(*size)
        result.elbo.fill(np.finfo(np.float64).max)
        return result

    monkeypatch.setattr(MeanFieldResult, "empty", filled)
    rows = np.tile(np.eye(4, dtype=np.uint8), (150, 1))  # 600 rows, more than two blocks
    data = nor.Observations.of(rows).with_weights(np.full(600, 2.0))
    network = nor.bipartite(n_visible=4, n_hidden=2)
    found = nor.MeanField().gradient(network, data, seed=0, step=0)
    assert -1e5 < found.value < 0  # and a warning would have been an error
