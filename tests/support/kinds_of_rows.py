"""Rows of many kinds, for what learns mixtures."""

import numpy as np

from noisyor.data.observations import Observations


def many_kinds(n_rows: int, seed: int) -> Observations:
    """Rows of twenty kinds in sixteen columns: too many to learn well from two hundred rows."""
    kinds = np.where(np.random.default_rng(0).random((20, 16)) < 0.4, 0.9, 0.1)
    generator = np.random.default_rng([seed, 1])
    chosen = kinds[generator.integers(0, 20, n_rows)]
    return Observations.of((generator.random(chosen.shape) < chosen).astype(float))
