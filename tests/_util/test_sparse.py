"""Matrices whose arrays are wrong are refused before SciPy's compiled code reads them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor._util.sparse import build_sparse, csr_of
from noisyor.errors import InvalidDataError

X = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]], dtype=np.uint8)
LAYOUTS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")

# Layout, array and what is written into it: each of them ended the interpreter, or could have.
FAULTS = [
    *(
        (layout, *fault)
        for layout in ("csr", "csc", "bsr")
        for fault in (
            ("indices", [0, 10**9]),
            ("indices", [0, -(10**9)]),
            ("indptr", [1, 10**9]),
            ("indptr", [0, -5]),
            ("indptr", [2, 0]),
        )
    ),
    ("coo", "row", [0, 10**9]),
    ("coo", "col", [1, -7]),
    ("dia", "offsets", [0, 10**9]),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read(layout):
    matrix = sp.csr_array(X).asformat(layout)
    assert np.array_equal(csr_of(matrix).toarray(), X)


@pytest.mark.parametrize(("layout", "name", "change"), FAULTS)
def test_wrong_entries(layout, name, change):
    matrix = sp.csr_array(X).asformat(layout)
    array = getattr(matrix, name).copy()
    array[change[0]] = change[1]
    setattr(matrix, name, array)
    with pytest.raises(InvalidDataError, match=r"sparse matrix is not well formed: .* must "):
        csr_of(matrix)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("name", ["indices", "indptr", "data"])
def test_arrays_that_are_cut(layout, name):
    matrix = sp.csr_array(X).asformat(layout)
    setattr(matrix, name, getattr(matrix, name)[:1])
    with pytest.raises(InvalidDataError, match="sparse matrix is not well formed"):
        csr_of(matrix)


@pytest.mark.parametrize("cut", ["row", "data"])
def test_coordinates_that_are_cut(cut):
    matrix = sp.coo_matrix(X)
    setattr(matrix, cut, getattr(matrix, cut)[:2])
    with pytest.raises(InvalidDataError, match="sparse matrix is not well formed"):
        csr_of(matrix)


def test_lists_of_other_lengths():
    matrix = sp.lil_array(X)
    matrix.data[0] = [1] * 1000
    with pytest.raises(InvalidDataError, match="lists of columns and of data differ"):
        csr_of(matrix)


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_arrays_of_files(layout):
    matrix = sp.csr_array(X).asformat(layout)
    wrong = matrix.indices.copy()
    wrong[0] = 10**6
    with pytest.raises(InvalidDataError, match=r"a\.npz: damaged .* lie in 0\.\.3"):
        build_sparse(layout, (matrix.data, wrong, matrix.indptr), matrix.shape, "a.npz")


def test_sizes_without_entries():
    parts = np.ones(1), np.zeros(1, np.int64), np.array([0, 1])
    with pytest.raises(InvalidDataError, match="1000000000000 rows and 1 columns for 1 entries"):
        build_sparse("csc", parts, (10**12, 1), "a.npz")
