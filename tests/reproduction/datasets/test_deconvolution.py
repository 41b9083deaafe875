from __future__ import annotations

import numpy as np
import pytest

from noisyor.errors import InvalidDataError
from reproduction.datasets import load_deconvolution


def test_real_images(real_data):
    data = load_deconvolution()
    assert data.images.shape == (100, 14, 14)
    assert data.features.shape == (4, 5, 5)
    assert {data.images.dtype, data.features.dtype} == {np.dtype(np.uint8)}
    assert data.images.mean() == pytest.approx(0.231, abs=0.001)


@pytest.mark.parametrize(
    ("X", "W", "message"),
    [
        (np.zeros((3, 14, 14)), np.zeros((1, 4, 5, 5)), "X has shape"),
        (np.zeros((3, 1, 14, 14)), np.zeros((4, 1, 5, 5)), "W has shape"),
        (np.full((3, 1, 14, 14), 0.5), np.zeros((1, 4, 5, 5)), "X holds other values"),
        (np.zeros((3, 1, 14, 14)), np.full((1, 4, 5, 5), np.nan), "W holds other values"),
    ],
)
def test_files_that_hold_something_else(tmp_path, X, W, message):
    np.savez(tmp_path / "c.npz", X=X, W=W)
    with pytest.raises(InvalidDataError, match=message):
        load_deconvolution(tmp_path / "c.npz")
