"""Matrices whose arrays are wrong are refused before SciPy's compiled code reads them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor._util.arrays import csr_of
from noisyor.errors import InvalidDataError

X = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]], dtype=np.uint8)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_every_layout_is_read(layout):
    matrix = sp.csr_array(X).asformat(layout)
    assert np.array_equal(csr_of(matrix).toarray(), X)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("indices", 0, 10**9),
        ("indices", 0, -(10**9)),
        ("indptr", 1, 10**9),
        ("indptr", 0, -5),
        ("indptr", 2, 0),
        ("indptr", -1, 0),
    ],
)
def test_wrong_entries(layout, name, index, value):
    matrix = sp.csr_array(X).asformat(layout)
    array = getattr(matrix, name).copy()
    array[index] = value
    setattr(matrix, name, array)
    with pytest.raises(InvalidDataError, match="sparse matrix"):
        csr_of(matrix)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("name", ["indices", "indptr", "data"])
def test_arrays_that_are_cut(layout, name):
    matrix = sp.csr_array(X).asformat(layout)
    setattr(matrix, name, getattr(matrix, name)[:1])
    with pytest.raises(InvalidDataError, match="sparse matrix"):
        csr_of(matrix)


def test_repeated_entries_are_added_up():
    matrix = sp.csr_array(([1, 1], [2, 2], [0, 2, 2]), shape=(2, 4))
    found = csr_of(matrix)
    assert found.nnz == 1
    assert matrix.nnz == 2
