"""Two small networks: findings with their causes, and two layers of causes."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor

FINDINGS = ["fever", "cough", "sneezing", "rash", "wheezing", "red eyes"]


@pytest.fixture(scope="module")
def clinic() -> nor.Network:
    return nor.from_edges(
        6,
        4,
        [(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 3), (3, 4), (3, 1), (2, 5)],
        failure_probability=[0.1, 0.2, 0.3, 0.3, 0.05, 0.02, 0.1, 0.5, 0.2],
        prior_probability=[0.05, 0.1, 0.01, 0.02],
        noise_probability=0.01,
        visible_names=FINDINGS,
        hidden_names=["flu", "cold", "measles", "asthma"],
    )


@pytest.fixture(scope="module")
def deep() -> nor.Network:
    """Two layers: hidden 3 and 4 stand above 0, 1, 2."""
    random = np.random.default_rng(3)
    return nor.from_edges(
        6,
        5,
        [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)],
        [(3, 0), (3, 1), (4, 1), (4, 2)],
        failure_probability=random.uniform(0.1, 0.6, 11),
        prior_probability=random.uniform(0.05, 0.3, 5),
        noise_probability=0.02,
    )
