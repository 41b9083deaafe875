from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.errors import InvalidDataError
from noisyor.model.forward import boolean_product

SEEDS = st.integers(0, 2**32 - 1)


class TestBooleanProduct:
    @given(SEEDS)
    @settings(max_examples=30, deadline=None)
    def test_by_definition(self, seed):
        generator = np.random.default_rng(seed)
        n, r, p = generator.integers(1, 7, 3)
        U, V = generator.integers(0, 2, (n, r)), generator.integers(0, 2, (r, p))
        expected = [
            [int(any(U[a, k] and V[k, j] for k in range(r))) for j in range(p)] for a in range(n)
        ]
        assert boolean_product(U, V).tolist() == expected

    def test_shapes_must_fit(self):
        with pytest.raises(InvalidDataError, match="3 columns"):
            boolean_product(np.ones((2, 3)), np.ones((2, 3)))
