"""Arrays in .npy and .npz files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from table_examples import COLUMNS, EXPECTED, NAMES, X, rows_of

from noisyor.errors import InvalidDataError


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float32, ">f8", np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(dtype, order):
    np.save("d.npy", np.asarray(X, dtype=dtype, order=order))
    assert rows_of("d.npy").observations.fingerprint() == EXPECTED.fingerprint()


def test_npz_with_names():
    np.savez("d.npz", X=X, columns=COLUMNS, names=NAMES, weights=np.eye(2))
    found = rows_of("d.npz")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)


def test_npz_is_read_in_blocks(monkeypatch):
    monkeypatch.setattr("noisyor.tables.readers.arrays._BLOCK_BYTES", 8)
    np.savez_compressed("d.npz", X)
    assert rows_of("d.npz").observations.fingerprint() == EXPECTED.fingerprint()
    np.savez_compressed("d.npz", X * np.array([[1], [1], [2]]))
    with pytest.raises(InvalidDataError, match=r"row 2, column 1.*got 2"):
        rows_of("d.npz")


def test_one_of_several():
    np.savez("d.npz", a=X, b=X[:2])
    with pytest.raises(InvalidDataError, match=r"several matrices: a \(3, 4\), b"):
        rows_of("d.npz")
    assert rows_of("d.npz", variable="b").observations.n_rows == 2
    with pytest.raises(InvalidDataError, match="no array 'c'; there are a, b"):
        rows_of("d.npz", variable="c")


@pytest.mark.parametrize("build", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_sparse(build):
    sp.save_npz("d.npz", build(X))
    assert rows_of("d.npz").observations.fingerprint() == EXPECTED.fingerprint()
    found = rows_of("d.npz", transpose=True)
    np.testing.assert_array_equal(found.observations.to_dense(), X.T)


def test_objects_are_not_unpickled():
    np.save("d.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InvalidDataError, match="Python objects"):
        rows_of("d.npy")


def test_a_stack_of_images():
    images = np.random.default_rng(0).integers(0, 2, (5, 3, 2))
    np.save("d.npy", images)
    found = rows_of("d.npy").observations
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found.to_dense(), images.reshape(5, -1))
