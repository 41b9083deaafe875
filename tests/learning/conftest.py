"""A small problem that several suites of learning train on."""

import numpy as np
import pytest

import noisyor as nor


@pytest.fixture
def problem():
    generator = np.random.default_rng(0)
    truth = nor.bipartite(
        30, 4, failure_probability=np.where(generator.random((4, 30)) < 0.3, 0.1, 1.0)
    )
    x = nor.sample(truth, 203, seed=1).visible
    network = nor.initialize(nor.bipartite(30, 4, fixed=("noise",)), "paper-3", "uniform", seed=3)
    return network, x
