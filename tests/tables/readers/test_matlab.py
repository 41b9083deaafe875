"""Matrices in MATLAB files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from table_examples import EXPECTED, X, rows_of


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "value", [X, X.astype(float), X.astype(bool), sp.csc_matrix(X.astype(float))]
)
def test_matlab(value, packed):
    words = np.empty((1, 4), dtype=object)
    words[0] = ["hair", "eggs", "milk", "grün"]
    scipy.io.savemat("d.mat", {"X": value, "words": words, "n": 3}, do_compression=packed)
    found = rows_of("d.mat")
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names == ("hair", "eggs", "milk", "grün")


def test_matlab_images_and_the_transpose():
    images = np.random.default_rng(0).integers(0, 2, (5, 3, 2)).astype(np.uint8)
    scipy.io.savemat("d.mat", {"images": images})
    found = rows_of("d.mat").observations
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))
    scipy.io.savemat("d.mat", {"documents": X.T.astype(float)})
    found = rows_of("d.mat", transpose=True)
    assert found.observations.fingerprint() == EXPECTED.fingerprint()


def test_the_file_of_tiny20(data_dir):
    from reproduction.datasets import load_tiny20

    found = rows_of(data_dir / "20news_w100.mat", transpose=True).observations
    known = load_tiny20(data_dir / "20news_w100.mat").observations
    assert found.fingerprint() == known.fingerprint()
    assert found.column_names == known.column_names
