"""Small arrays inside JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noisyor.errors import InvalidDataError
from reproduction.arrays import pack, unpack


@pytest.mark.parametrize(
    "values",
    [np.eye(3, dtype=np.uint8), np.array([[0, 5], [300, 1]]), np.array([0.5, -2.25, 1e-3])],
)
def test_back_and_forth(values):
    found = unpack(json.loads(json.dumps(pack(values))))
    assert found.shape == values.shape
    np.testing.assert_allclose(found, values, rtol=1e-3)


def test_damaged():
    for damaged in ({}, {"shape": [9], "kind": "float16", "base64": "AAAA"}, None):
        with pytest.raises(InvalidDataError):
            unpack(damaged)
