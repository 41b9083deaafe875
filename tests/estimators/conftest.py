"""Small data that all estimators can learn from, and one estimator of each kind."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_structures import one_layer

import noisyor as nor

IMAGE = (3, 4)


COMMON = {"steps": 30, "batch_size": 20, "learning_rate": 0.05, "n_jobs": 1}
ESTIMATORS = {
    "factors": nor.BooleanMatrixFactorization(3, objective="mdl", **COMMON),
    "topics": nor.TopicModel(2, n_parents=2, **COMMON),
    "features": nor.BlindDeconvolution(1, (1, 4), image_shape=IMAGE, **COMMON),
    "network": nor.NoisyOrNetwork(
        one_layer, method=nor.MaxProduct(temperature=1.0), **COMMON | {"learning_rate": 0.2}
    ),
}


@pytest.fixture(params=list(ESTIMATORS))
def estimator(request):
    """An estimator that is not fitted, of each kind in turn."""
    from sklearn.base import clone

    return clone(ESTIMATORS[request.param])


@pytest.fixture(scope="session")
def X():  # noqa: N802
    """(80, 12): three blocks of four columns that are on together, flipped here and there."""
    rng = np.random.default_rng(0)
    causes = rng.random((80, 3)) < 0.4
    clean = np.repeat(causes, 4, axis=1)
    return (clean ^ (rng.random(clean.shape) < 0.03)).astype(np.int64)
